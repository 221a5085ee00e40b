"""The events of a journal and their data, and the steps that they record."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from app.contract import Contract, EntryPage, JournalEntry
from app.contract.drafts import EditsMade
from app.contract.errors import Cause
from app.contract.judgement import (
    FindingsReply,
    IssueNote,
    QualityEstimate,
    Usage,
)
from app.contract.limits import Limits, TimeLimit
from app.contract.ratings import Rated
from app.contract.reviews import ApprovalGiven, Paused, Reviewed
from app.contract.snapshot import Best, Failure, JudgedIteration, Snapshot
from app.contract.status import Caveat, StopReason
from app.contract.waiting import Waiting


class Drawn(Contract):
    """One candidate; the one with the highest `sampled / mean_cost_usd` is picked, or with the
    highest `sampled` if only the gain counts."""

    model: str
    passed: int = Field(ge=0, description="Refinements that it was drawn for and that passed.")
    ended: int = Field(
        ge=0, description="Refinements that it was drawn for and that succeeded or failed."
    )
    mean_gain: float | None = Field(
        None, description="Mean score reached, minus the score of the client's draft if it had one."
    )
    mean_cost_usd: float | None = Field(
        gt=0,
        description="Expected cost of a refinement: as observed, else by the price list. Null if"
        " it is unknown.",
    )
    sampled: float = Field(
        ge=0,
        le=1,
        description="Sampled from what is believed of its mean gain, for a critic of how far it"
        " agrees with people and validators.",
    )


class Draw(Contract):
    """A draw by Thompson sampling (Thompson 1933, Biometrika 25; arXiv 1707.02038)."""

    candidates: tuple[Drawn, ...]
    picked: str
    kind: str | None = Field(
        None, description="Hash of strategy, criteria and preset: what is compared."
    )


class EventType(StrEnum):
    """Every kind of journal entry."""

    QUEUED = "refinement.queued"
    STARTED = "refinement.started"
    RESUMED = "refinement.resumed"
    STEP_STARTED = "step.started"
    STEP_COMPLETED = "step.completed"
    STEP_FAILED = "step.failed"
    STEP_WAITING = "step.waiting"
    ITERATION_COMPLETED = "iteration.completed"
    CHANGED = "refinement.changed"
    STOPPING = "refinement.stopping"
    CANCELING = "refinement.canceling"
    PAUSED = "refinement.paused"
    APPROVAL_GIVEN = "refinement.approval_given"
    REVIEWED = "refinement.reviewed"
    RATED = "refinement.rated"
    RETRIED = "refinement.retried"
    COMPLETED = "refinement.completed"
    FAILED = "refinement.failed"
    CANCELED = "refinement.canceled"

    @property
    def is_terminal(self) -> bool:
        """True if the work ended with the event.

        Only `refinement.rated` and `refinement.retried` can follow it.
        """
        return self in TERMINAL_TYPES


TERMINAL_TYPES = frozenset({EventType.COMPLETED, EventType.FAILED, EventType.CANCELED})
"""The types of the events with which work ends."""


class Queued(Contract):
    """The refinement was accepted. The event has the SHA-256 of the request, not the request."""

    strategy: str
    models: dict[str, str] = Field(description="Model by role.")
    fallbacks: dict[str, tuple[str, ...]] = Field(
        {}, description="Fallback models by role, in this order."
    )
    draw: Draw | None = Field(None, description="How the generator was drawn, if it was.")
    draws: dict[str, Draw] = Field(
        {}, description="How other models were drawn, by role and stage: `critic`, `generator/...`."
    )
    limits: Limits
    request_sha256: str


class Started(Contract):
    """A worker claimed it for the first time."""

    token: int


class Resumed(Contract):
    """A worker claimed it again and replays the recorded steps."""

    token: int
    replayed: int = Field(ge=0, description="Recorded steps, which are not performed again.")


class StepStarted(Contract):
    """The first steps in progress after a claim."""

    next: tuple[str, ...]


class PromptRef(Contract):
    """The prompt that was sent: its name, and the version of its words."""

    name: str
    version: int


class TextReply(Contract):
    """The reply of a model."""

    kind: Literal["text"] = "text"
    text: str


class ToolReply(Contract):
    """The answer of a tool, or the reason why there is none; a failure is a result as well."""

    kind: Literal["tool"] = "tool"
    ok: bool
    text: str


AnyReply = Annotated[TextReply | FindingsReply | ToolReply, Field(discriminator="kind")]


class Tried(Cause):
    """A model that was called before the one that answered, and its error."""

    model: str


ABOUT = (
    "Hash of what the step is about: its kind, who was asked, and the drafts and findings given (16"
    " hexadecimal digits of a SHA-256)."
)


class PerformedStep(Contract):
    """A step that was performed, or failed."""

    key: str
    model: str | None = Field(
        None,
        description="Model that answered: provider, and the name that its server reported; of a"
        " failed step, the model that was to answer: its fallbacks, if any, have failed too.",
    )
    prompt: PromptRef | None = None
    usage: Usage


class StepCompleted(PerformedStep):
    """A step was completed; its reply is stored."""

    kind: Literal["ask", "check", "call"]
    reply: AnyReply
    tried: tuple[Tried, ...] = Field((), description="Models that failed before it, in order.")
    caveats: tuple[Caveat, ...] = Field(
        (), description="Parts of the reply that could not be used, and why; the rest counts."
    )
    seconds: float
    about: str = Field(description=ABOUT)
    next: tuple[str, ...]


class StepFailed(PerformedStep, Cause):
    """A step failed; the failure is stored and the step is not retried."""

    about: str | None = Field(None, description=f"{ABOUT} null: a call that a reviewer was to see.")
    next: tuple[str, ...]


class IterationCompleted(JudgedIteration):
    """A draft was judged. `limits` are those then in force, by which the strategy continues."""

    edits: EditsMade | None = Field(
        None, description="Effect of the edits that made it from its parent, if it was edited."
    )
    draft: str | None = Field(
        None, description="The text, if it is neither a model's reply nor the client's draft."
    )
    issues: tuple[IssueNote, ...] = Field(
        (), description="The issues of the draft, and those of its parent that it resolved."
    )
    best: Best
    estimate: QualityEstimate | None = Field(
        None,
        description="What the best draft is probably worth by now; null until enough is known.",
    )
    limits: Limits


class Changed(Contract):
    """A PATCH was accepted: the limits now in force. Or a pause, which leaves them as they were."""

    limits: Limits
    pause_requested: bool = Field(
        False, description="Whether it pauses after the steps in progress."
    )


class Stopping(Contract):
    """The refinement stops: no further model call, tool call or review starts."""

    reason: Literal[StopReason.BUDGET_EXHAUSTED, StopReason.DEADLINE, StopReason.FINISHED_EARLY]
    limit: TimeLimit | None = Field(
        None, description="Which limit of time was reached, if the reason is `deadline`."
    )


class Canceling(Contract):
    """A cancel was accepted; work is being stopped."""


class Retried(Contract):
    """A failed refinement goes on from its journal.

    The steps in `voided` are performed again; their usage stays counted.
    """

    reason: Failure = Field(description="The error with which it had failed.")
    limits: Limits = Field(description="The limits now in force; `max_seconds` starts anew.")
    voided: tuple[str, ...] = Field(
        description="Keys of the steps that made up the failure and no longer count."
    )


class StepDelta(Contract):
    """A piece of a text that a model is writing, not journaled: `step.completed` has the text.

    It replaces the text of the step from `offset` on. 0 begins it anew, when the call is repeated.
    """

    key: str
    offset: int = Field(ge=0, description="Characters (Unicode code points) before this piece.")
    text: str


DELTA = "step.delta"
"""The type of the event that carries a `StepDelta`; it has no number."""

EventData = (
    Queued
    | Started
    | Resumed
    | StepStarted
    | StepCompleted
    | StepFailed
    | Waiting
    | IterationCompleted
    | Changed
    | Stopping
    | Canceling
    | Paused
    | ApprovalGiven
    | Reviewed
    | Rated
    | Retried
    | Snapshot
)

DATA_OF: dict[EventType, type[Contract]] = {
    EventType.QUEUED: Queued,
    EventType.STARTED: Started,
    EventType.RESUMED: Resumed,
    EventType.STEP_STARTED: StepStarted,
    EventType.STEP_COMPLETED: StepCompleted,
    EventType.STEP_FAILED: StepFailed,
    EventType.STEP_WAITING: Waiting,
    EventType.ITERATION_COMPLETED: IterationCompleted,
    EventType.CHANGED: Changed,
    EventType.STOPPING: Stopping,
    EventType.CANCELING: Canceling,
    EventType.PAUSED: Paused,
    EventType.APPROVAL_GIVEN: ApprovalGiven,
    EventType.REVIEWED: Reviewed,
    EventType.RATED: Rated,
    EventType.RETRIED: Retried,
    EventType.COMPLETED: Snapshot,
    EventType.FAILED: Snapshot,
    EventType.CANCELED: Snapshot,
}


class Event(JournalEntry):
    """One journal entry as a client sees it."""

    type: EventType
    data: EventData


class EventPage(EntryPage):
    """Events after a number, oldest first."""

    data: tuple[Event, ...]


def unvoided(events: Iterable[Event]) -> list[Event]:
    """Return the events that still count: those that no retry voided.

    A retry voids the steps that it names, the judgements made from them, and what stopped the work:
    `refinement.stopping`, and the checks and judgements after it, whose texts it had cut short.
    """
    counting: list[Event] = []
    for event in events:
        if isinstance(event.data, Retried):
            counting = [*_outlasting(counting, event.data)]
        counting.append(event)
    return counting


def _outlasting(events: Sequence[Event], retried: Retried) -> Iterator[Event]:
    stopped = False
    for event in events:
        match event.data:
            case Stopping():
                stopped = True
                continue
            case StepCompleted(key=key) | StepFailed(key=key) if key in retried.voided:
                continue
            case IterationCompleted(path=path) if stopped or _is_below(path, retried.voided):
                continue
            case StepCompleted(kind="check") if stopped:
                continue
        yield event


def _is_below(path: str, keys: Iterable[str]) -> bool:
    return any(key.startswith(f"{path}/") for key in keys)


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


class Step(PerformedStep, JournalEntry):
    """One step as the event at its end has it: its question and its reply, or why it failed."""

    kind: Literal["ask", "check", "call"] | None = Field(
        description="Model call, check of a draft or call of a tool; null if it failed before that."
    )
    is_voided: bool = Field(description="Whether a retry has voided it: it no longer counts.")
    prompt: StepPrompt | None
    tried: tuple[Tried, ...] = Field((), description="Models that failed before it, in order.")
    reply: AnyReply | None = Field(None, description="Null if the step failed.")
    code: str | None = Field(None, description="Code of the failure, if it failed.")
    detail: str | None = None
    seconds: float


class StepPage(EntryPage):
    """Steps in the order in which they ended."""

    data: tuple[Step, ...]
