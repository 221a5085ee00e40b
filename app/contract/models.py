"""Which model plays which role, and how it is called."""

from typing import Annotated

from pydantic import Field

from app.contract.model import Contract

ModelName = Annotated[
    str,
    Field(
        min_length=3,
        max_length=200,
        pattern=r"^[a-z0-9_]+:.+$",
        description="`provider:name`, such as `openai:gpt-5-mini` or `offline:editor`.",
    ),
]


class ModelChoice(Contract):
    """A model for one role, and how to call it."""

    model: ModelName
    temperature: float | None = Field(None, ge=0, le=2)
    max_output_tokens: int = Field(4_096, ge=1, le=200_000)


class Models(Contract):
    """Which model plays which role; a role left out uses the server's default model."""

    generator: ModelName | ModelChoice | None = None
    critic: ModelName | ModelChoice | None = None
