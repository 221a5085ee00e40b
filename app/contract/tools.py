"""Tools of the caller's own that a strategy may call."""

from typing import Any

from pydantic import Field

from app.contract.endpoints import TimeoutS, Url
from app.contract.model import Contract
from app.contract.parted_strategies import PartName

MAX_RESULT = 20_000
"""Characters of a tool's answer that a plan observes."""


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
    parameters: dict[str, Any] = Field(
        description="JSON Schema of the arguments, an object; what breaks it is never sent."
    )
    timeout_s: TimeoutS = 10
