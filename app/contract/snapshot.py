"""The resource as a client sees it: a summary of its journal; and which ones a list has."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from app.contract import Contract, ListPage
from app.contract.drafts import EditsReport, Escape
from app.contract.errors import Cause
from app.contract.judgement import (
    Comparison,
    CriterionScore,
    Finding,
    Fixes,
    Issue,
    QualityEstimate,
    Score,
    ScoreFrom,
    Usage,
)
from app.contract.ratings import Rating
from app.contract.reviews import LastReview, PendingReview
from app.contract.status import Caveat, StoredOutcome, StoredReason, StoredStatus, without_text
from app.contract.values import value
from app.contract.waiting import Waiting

StoredPriority = Annotated[str, Field(json_schema_extra={"enum": ["interactive", "batch"]})]
"""A priority as stored: one that a later release added is kept as it is."""


class IterationPlace(Contract):
    """The number of an iteration, and the path of its draft."""

    iteration: int = Field(ge=0)
    path: str


class IterationScore(IterationPlace):
    """The score of one iteration; `null` when no criterion could be measured."""

    score: Score | None


class Best(IterationScore):
    """The best judged draft so far, by its SHA-256 (hex)."""

    sha256: str


class Result(Best):
    """The best judged draft, with the score of exactly that text."""

    draft: str
    object: dict[str, Any] | None = Field(
        None, description="The draft as an object, if one was given and it is one."
    )
    score_from: ScoreFrom = "critique"
    caveats: tuple[Caveat, ...] = Field(
        (), description="Everything that was asked for and not done, or not used."
    )
    comparison: Comparison | None = Field(
        None, description="Comparison with the draft it started from, if `compare` is set."
    )
    outputs: dict[str, str] = Field({}, description="Additional texts by name, as requested.")
    estimate: QualityEstimate | None = Field(
        None,
        description="What the draft is probably worth, by its score and by what the scores of"
        " earlier refinements taught; null until 30 of this kind are known and their scores were as"
        " predicted, for an exact critic, and for a score that no critic gave.",
    )

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths of the parts and outputs without a text."""
        return without_text(self.caveats)


class Failure(Cause):
    """The error that ended a refinement."""

    steps: tuple[str, ...] = Field(
        (), description="Keys of the steps that make up the failure: a retry performs them again."
    )


class ContinuedFrom(IterationPlace):
    """The draft that it started from: the iteration of another refinement."""

    id: str


class Links(Contract):
    """Related resources, as paths on this server."""

    model_config = ConfigDict(serialize_by_alias=True)

    self: str
    events: str
    iterations: str
    request: str
    cancel: str
    finish: str
    pause: str
    reviews: str
    retry: str
    report: str
    continue_: str = Field(alias="continue")


class Snapshot(Contract):
    """The current state of a refinement.

    It changes only with an event, apart from `archived`, and when text is erased that is not to be
    stored.
    """

    id: str
    excerpt: str | None = Field(
        None,
        description="The beginning of the draft that was given, or else of the task, on one line,"
        " to tell refinements apart: at most 80 characters; null once its text is erased.",
    )
    status: StoredStatus
    outcome: StoredOutcome | None = Field(
        description="What came of it; null until it ends. `passed`: the result meets everything"
        " that was asked; `best_effort`: it is the best draft, and does not; `failed`: an error or"
        " a reviewer ended it before it had a result; `canceled`: somebody called it off."
    )
    reason: str | None = Field(
        description="Why `outcome` is that, in one sentence for people; null until it ends."
    )
    stop_reason: StoredReason | None = Field(
        description="Why no further draft was made, as a word for programs; null until it ends."
    )
    strategy: str
    phase: tuple[str, ...] = Field(description="Keys of the steps now in progress.")
    iteration: int | None
    max_iterations: int
    threshold: float
    best: Best | None
    scores: tuple[IterationScore, ...]
    usage: Usage
    result: Result | None
    error: Failure | None
    review: PendingReview | None = Field(
        None, description="Review it waits for while `paused`; the first of several."
    )
    reviews: tuple[PendingReview, ...] = Field(
        (), description="All reviews it waits for: of parts side by side there can be several."
    )
    reviewed: LastReview | None = Field(
        None, description="Decision about the last review; null before one."
    )
    waiting: Waiting | None = Field(
        None,
        description="The model or endpoint that a step waits for; the status stays `running`.",
    )
    priority: StoredPriority = "interactive"
    parent: str | None
    continued_from: ContinuedFrom | None = Field(
        None, description="The iteration of `parent` whose draft it started from."
    )
    batch: str | None = Field(None, description="Id of the batch that it belongs to.")
    custom_id: str | None = Field(None, description="Its `custom_id` in that batch.")
    submitted_by: str | None = Field(
        None, description="Id of the API key, or of the person, that it was submitted with."
    )
    created_at: datetime
    start_after: datetime | None = Field(None, description="Before this time it is not started.")
    started_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None
    store: bool = Field(True, description="Whether its text is kept until `expires_at`.")
    erased_at: datetime | None = Field(
        None, description="When its text and metadata were erased, since `store` is false."
    )
    archived: bool = Field(
        False,
        description="Whether it is in the archive. In a list, `result`, `reviewed`,"
        " `continued_from`, `submitted_by`, texts of `reason` and `error`, and names of parts are"
        " left out then, and there are at most 12 `scores`; the refinement itself has all of them.",
    )
    last_event: int
    metadata: dict[str, str]
    links: Links


class SnapshotPage(ListPage):
    """One page of refinements, newest first."""

    data: tuple[Snapshot, ...]

    def without_results(self) -> Self:
        """Return the page without the texts of its refinements."""
        bare = tuple(snapshot.model_copy(update={"result": None}) for snapshot in self.data)
        return self.model_copy(update={"data": bare})


class JudgedIteration(Best):
    """The judgement of one draft."""

    parent: str | None = Field(description="Path of the iteration it was revised from.")
    score_from: ScoreFrom = "critique"
    scores: tuple[CriterionScore, ...]
    passed: bool
    findings: tuple[Finding, ...]
    strengths: tuple[str, ...]
    weaknesses: tuple[str, ...]
    suggestions: tuple[str, ...]
    asked: tuple[str, ...] = Field(description="Changes that its writer was asked to make.")
    escape: Escape | None = Field(
        None,
        description="How it was made in another way, after the search had stood still: anew from"
        " the same findings, or as a revision at a higher temperature.",
    )
    fixes: Fixes = ()


class Iteration(JudgedIteration):
    """One draft and how it was judged."""

    draft: str
    writer: str | None = Field(
        None,
        description="Model that wrote it; null for a person's text, and for one joined of parts.",
    )
    issues: tuple[Issue, ...] = Field(
        (), description="The issues of the draft, and those of its parent that it resolved."
    )
    edits: EditsReport | None = Field(
        None,
        description="Effect of the edits that made it from its parent; null for a text that was"
        " written as a whole.",
    )
    usage: Usage
    ratings: tuple[Rating, ...] = Field(
        (), description="What people said of this text, oldest first."
    )


class IterationList(Contract):
    """Every iteration, in the order they were judged."""

    data: tuple[Iteration, ...]


class DiffOperation(Contract):
    """Lines `from_start:from_end` of one draft became `to_start:to_end` of the other (0-based)."""

    op: Literal["equal", "replace", "delete", "insert"]
    from_start: int
    from_end: int
    to_start: int
    to_end: int
    from_text: str
    to_text: str


class Diff(Contract):
    """The difference between two iterations, by lines."""

    from_iteration: int
    to_iteration: int
    operations: tuple[DiffOperation, ...]
    unified: str


@value(slots=True)
class Selected:
    """Properties that each refinement of a list has; None and empty sets select all.

    Bounds are inclusive. One without a judged draft has no score, and one whose cost is unknown no
    cost: they are within no bounds. A refinement of a batch was submitted with the batch, before
    its `created_at`; any other one at its `created_at`.
    """

    statuses: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()
    strategies: frozenset[str] = frozenset()
    min_score: float | None = None
    max_score: float | None = None
    min_cost_usd: float | None = None
    max_cost_usd: float | None = None
    submitted_from: datetime | None = None
    submitted_to: datetime | None = None
    parent: str | None = None

    @property
    def is_everything(self) -> bool:
        """Whether each refinement is selected."""
        return self == EVERYTHING

    def has(self, snapshot: Snapshot, submitted_at: datetime) -> bool:
        """Return whether a refinement is selected."""
        score = snapshot.best.score if snapshot.best else None
        return (
            (not self.statuses or snapshot.status in self.statuses)
            and (not self.outcomes or snapshot.outcome in self.outcomes)
            and (not self.strategies or snapshot.strategy in self.strategies)
            and (self.parent is None or snapshot.parent == self.parent)
            and (self.submitted_from is None or submitted_at >= self.submitted_from)
            and (self.submitted_to is None or submitted_at <= self.submitted_to)
            and _is_within(self.min_score, score, self.max_score)
            and _is_within(self.min_cost_usd, snapshot.usage.cost_usd, self.max_cost_usd)
        )


EVERYTHING = Selected()


def _is_within(least: float | None, value: float | None, most: float | None) -> bool:
    if least is None and most is None:
        return True
    return (
        value is not None and (least is None or value >= least) and (most is None or value <= most)
    )
