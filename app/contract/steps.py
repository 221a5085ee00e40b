"""The steps of a refinement: what a model was asked, and what it said."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from app.contract import Contract, EntryPage
from app.contract.events import AnyReply, PromptRef, Tried
from app.contract.judgement import Usage


class StepPrompt(PromptRef):
    """The prompt of a step. Its texts are null if they were not kept (`HONE_KEEP_PROMPTS`)."""

    system: str | None = None
    user: str | None = Field(
        None,
        description="What stands between two tags is material; their nonce is masked here.",
    )
    schema_: dict[str, Any] | None = Field(
        None, alias="schema", description="JSON Schema of the reply, if it had to have one."
    )


class Step(Contract):
    """One step as it ended: its question and its reply, or why it failed."""

    event: int = Field(description="Number of the event that recorded it.")
    key: str
    kind: Literal["ask", "check", "call"] | None = Field(
        description="Model call, check of a draft or call of a tool; null if it failed before that."
    )
    at: datetime
    is_voided: bool = Field(description="Whether a retry has voided it: it no longer counts.")
    prompt: StepPrompt | None
    model: str | None = Field(None, description="Model that answered.")
    tried: tuple[Tried, ...] = Field((), description="Models that failed before it, in order.")
    reply: AnyReply | None = Field(None, description="Null if the step failed.")
    code: str | None = Field(None, description="Code of the failure, if it failed.")
    detail: str | None = None
    usage: Usage
    seconds: float


class StepPage(EntryPage):
    """Steps in the order in which they ended."""

    data: tuple[Step, ...]
