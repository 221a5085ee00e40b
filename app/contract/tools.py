"""Tools of the caller's own that a strategy may call."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from app.contract.endpoints import TimeoutS, Url
from app.contract.model import Contract
from app.contract.parted_strategies import PartName

MAX_RESULT = 20_000
"""Characters of a tool's answer that a plan observes."""

MAX_PARAMETERS = 20_000
"""Characters of JSON that describe the arguments: every revision of a plan reads them."""


def _is_short_enough(parameters: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(parameters)) > MAX_PARAMETERS:
        raise ValueError(f"a schema of arguments has at most {MAX_PARAMETERS} characters")
    return parameters


class Tool(Contract):
    """An endpoint of the caller's that does one thing; only `plan_execute` calls it.

    It gets `{"tool": "<name>", "arguments": {...}}` by POST, signed as Standard Webhooks has it
    under HONE_SECRET_KEY, with an `Idempotency-Key` made of refinement and step, and answers 2xx
    with text (JSON or any other, UTF-8): its first 20,000 characters are what the plan observes.
    Any other answer is a failed step of the plan, which is then changed. Only public addresses are
    called, and redirects are not followed.
    """

    name: PartName
    description: str = Field(
        min_length=1, max_length=2_000, description="What it does and when to use it."
    )
    url: Url
    parameters: Annotated[dict[str, Any], AfterValidator(_is_short_enough)] = Field(
        description="JSON Schema of the arguments, an object; what breaks it is never sent."
    )
    timeout_s: TimeoutS = 10
