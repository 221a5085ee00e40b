"""The caller's endpoints that a server can call."""

import json
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from app.contract.drafts import PartName
from app.contract.endpoints import Endpoint

MAX_RESULT = 20_000
"""Characters of a tool's answer that prompts show."""

MAX_PARAMETERS = 20_000
"""Characters of the JSON Schema of the arguments: whoever picks a tool reads it."""


def _is_short_enough(parameters: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(parameters)) > MAX_PARAMETERS:
        raise ValueError(f"the schema must have at most {MAX_PARAMETERS} characters")
    return parameters


class Tool(Endpoint):
    """An endpoint of the caller that does one thing, for plans and for questions about a draft.

    It receives `{"tool": "<name>", "arguments": {...}}` by POST, signed according to Standard
    Webhooks, with an `Idempotency-Key` made of refinement and step, and must answer 2xx with text
    (JSON or any other, UTF-8), of which the first 20,000 characters are read. Any other answer is a
    failed step of the plan, which is then revised, or a failed look-up. A call of a tool with
    `effects` is sent at most once, unless the tool is `idempotent`. Only public addresses and those
    in HONE_OUTBOUND_ALLOW are called, and redirects are not followed.
    """

    is_cut: ClassVar[bool] = True

    name: PartName
    description: str = Field(
        min_length=1, max_length=2_000, description="What it does and when to use it."
    )
    effects: bool = Field(
        False,
        description="Whether a call changes something: books, pays, sends. Such a call is made"
        " once, also when its outcome is unknown, and can require an approval.",
    )
    idempotent: bool = Field(
        False,
        description="Whether calls with the same `Idempotency-Key` take effect once: then a call"
        " with `effects` without an answer is made again with the same key.",
    )
    parameters: Annotated[dict[str, Any], AfterValidator(_is_short_enough)] = Field(
        description="JSON Schema of the arguments, an object; invalid arguments are never sent."
    )

    @property
    def is_repeatable(self) -> bool:
        """Whether the same call may be sent again when its outcome is unknown."""
        return self.idempotent or not self.effects

    @property
    def tries(self) -> int:
        return super().tries if self.is_repeatable else 1
