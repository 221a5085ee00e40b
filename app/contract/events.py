"""How a model was drawn from several: what each had achieved, and what chance made of it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from app.contract import Contract
from app.contract.drafts import EditsMade
from app.contract.judgement import CriterionScore, Finding, IssueNote, Score, ScoreFrom, Usage
from app.contract.limits import Limits
from app.contract.reviews import Paused, Reviewed
from app.contract.snapshot import Best, Snapshot
from app.contract.status import StopReason


class Drawn(Contract):
    """One candidate. The highest `sampled / mean_cost_usd` was picked."""

    model: str
    passed: int = Field(ge=0, description="Refinements that it was drawn for and that passed.")
    ended: int = Field(ge=0, description="Those that succeeded or failed.")
    mean_cost_usd: float = Field(
        gt=0, description="Expected per refinement: what was observed, else by the price list."
    )
    sampled: float = Field(
        ge=0, le=1, description="A share of passes, drawn from Beta(1 + passed, 1 + not passed)."
    )


class Draw(Contract):
    """A draw by Thompson sampling (Thompson 1933, Biometrika 25; arXiv 1707.02038)."""

    candidates: tuple[Drawn, ...]
    picked: str


class EventType(StrEnum):
    """Every kind of journal entry."""

    QUEUED = "refinement.queued"
    STARTED = "refinement.started"
    RESUMED = "refinement.resumed"
    STEP_STARTED = "step.started"
    STEP_COMPLETED = "step.completed"
    STEP_FAILED = "step.failed"
    ITERATION_COMPLETED = "iteration.completed"
    CHANGED = "refinement.changed"
    STOPPING = "refinement.stopping"
    CANCELING = "refinement.canceling"
    PAUSED = "refinement.paused"
    REVIEWED = "refinement.reviewed"
    COMPLETED = "refinement.completed"
    FAILED = "refinement.failed"
    CANCELED = "refinement.canceled"

    @property
    def is_terminal(self) -> bool:
        """True for the last event of a journal."""
        return self in {EventType.COMPLETED, EventType.FAILED, EventType.CANCELED}


class Queued(Contract):
    """The refinement was accepted. The request itself stays out; its SHA-256 stands for it."""

    strategy: str
    models: dict[str, str] = Field(description="Model by role.")
    fallbacks: dict[str, tuple[str, ...]] = Field(
        {}, description="Models that stand in, by role, in this order."
    )
    draw: Draw | None = Field(None, description="How the generator was selected, if it was.")
    limits: Limits
    request_sha256: str


class Started(Contract):
    """A worker claimed it for the first time."""

    token: int


class Resumed(Contract):
    """A worker claimed it again and replayed what was recorded."""

    token: int
    replayed: int = Field(ge=0, description="Recorded steps that will not be performed again.")


class StepStarted(Contract):
    """The first steps under way after a claim."""

    next: tuple[str, ...]


class PromptRef(Contract):
    """Which prompt was sent: its name, its version and the SHA-256 of the text."""

    name: str
    version: int
    sha256: str


class TextReply(Contract):
    """What a model answered."""

    kind: Literal["text"] = "text"
    text: str


class FindingsReply(Contract):
    """What the validators found; empty when all of them passed."""

    kind: Literal["findings"] = "findings"
    findings: tuple[Finding, ...]


class ToolReply(Contract):
    """What a tool answered, or why there is no answer; a failure is a result."""

    kind: Literal["tool"] = "tool"
    ok: bool
    text: str


AnyReply = Annotated[TextReply | FindingsReply | ToolReply, Field(discriminator="kind")]


class Tried(Contract):
    """A model that was asked before the one that answered, and how it failed."""

    model: str
    code: str
    detail: str


class StepCompleted(Contract):
    """A step is done; its reply is durable."""

    key: str
    kind: Literal["ask", "check", "call"]
    reply: AnyReply
    model: str | None = Field(
        None, description="Who answered: the provider, and the name that its server gave."
    )
    tried: tuple[Tried, ...] = Field((), description="Models that failed before it, in turn.")
    prompt: PromptRef | None = None
    usage: Usage
    seconds: float
    next: tuple[str, ...]


class StepFailed(Contract):
    """A step could not be done; the failure is durable and is not tried again."""

    key: str
    code: str
    detail: str
    usage: Usage
    next: tuple[str, ...]


class IterationCompleted(Contract):
    """A draft was judged. `limits` were the reply, and hold for what follows."""

    iteration: int
    path: str
    sha256: str
    parent: str | None
    score: Score | None
    score_from: ScoreFrom = "critique"
    scores: tuple[CriterionScore, ...]
    passed: bool
    findings: tuple[Finding, ...]
    strengths: tuple[str, ...]
    weaknesses: tuple[str, ...]
    suggestions: tuple[str, ...]
    asked: tuple[str, ...]
    edits: EditsMade | None = Field(None, description="How it was made of its parent, if by edits.")
    draft: str | None = Field(
        None, description="The text, when it is neither a model's reply nor the client's draft."
    )
    issues: tuple[IssueNote, ...] = Field(
        (), description="What became of the parent's issues, and what is wrong now."
    )
    best: Best
    limits: Limits


class Changed(Contract):
    """A PATCH was accepted: the limits now in force."""

    limits: Limits


class Stopping(Contract):
    """No model call, tool or review starts any more."""

    reason: Literal[StopReason.BUDGET_EXHAUSTED, StopReason.DEADLINE, StopReason.FINISHED_EARLY]


class Canceling(Contract):
    """A cancel was accepted; work is being stopped."""


EventData = (
    Queued
    | Started
    | Resumed
    | StepStarted
    | StepCompleted
    | StepFailed
    | IterationCompleted
    | Changed
    | Stopping
    | Canceling
    | Paused
    | Reviewed
    | Snapshot
)

DATA_OF: dict[EventType, type[Contract]] = {
    EventType.QUEUED: Queued,
    EventType.STARTED: Started,
    EventType.RESUMED: Resumed,
    EventType.STEP_STARTED: StepStarted,
    EventType.STEP_COMPLETED: StepCompleted,
    EventType.STEP_FAILED: StepFailed,
    EventType.ITERATION_COMPLETED: IterationCompleted,
    EventType.CHANGED: Changed,
    EventType.STOPPING: Stopping,
    EventType.CANCELING: Canceling,
    EventType.PAUSED: Paused,
    EventType.REVIEWED: Reviewed,
    EventType.COMPLETED: Snapshot,
    EventType.FAILED: Snapshot,
    EventType.CANCELED: Snapshot,
}


class Event(Contract):
    """One journal entry as a client sees it; `event` counts 1, 2, 3 ... without gaps."""

    event: int = Field(ge=1)
    type: EventType
    at: datetime
    data: EventData


class EventPage(Contract):
    """Events after a number, oldest first."""

    data: tuple[Event, ...]
    has_more: bool
    next_after: int
