"""The statuses of a refinement, every legal move between them, and what came of it.

A move that the table does not list is rejected. Work ends with a terminal status; a retry, the only
move out of one, lets a failed refinement go on from its journal. A second table has what commands
do in each status.

The outcome of what has ended, and why, is one sentence that everybody shows. Caveats say what a
result lacks of what was asked for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from math import floor
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from app.contract import Contract
from app.contract.judgement import CriterionScore, Finding, OnFail
from app.contract.values import value


class Status(StrEnum):
    """The status of a refinement."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELING = "canceling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        """True if work ends with it."""
        return self in TERMINAL


MOVES: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.RUNNING, Status.FAILED, Status.CANCELED}),
    Status.RUNNING: frozenset(
        {Status.PAUSED, Status.SUCCEEDED, Status.FAILED, Status.CANCELING},
    ),
    Status.PAUSED: frozenset({Status.QUEUED, Status.CANCELED}),
    Status.CANCELING: frozenset({Status.CANCELED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset({Status.QUEUED}),
    Status.CANCELED: frozenset(),
}

TERMINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELED})


COMMANDS = """
        queued    running   paused    canceling  succeeded  failed    canceled
cancel  ACTS      ACTS      ACTS      DONE       ENDED      ENDED     DONE
finish  ACTS      ACTS      ACTS      ENDED      ENDED      ENDED     ENDED
pause   ACTS      ACTS      ACTS      ENDED      ENDED      ENDED     ENDED
change  ACTS      ACTS      ACTS      ENDED      ENDED      ENDED     ENDED
review  UNASKED   UNASKED   ACTS      ENDED      ENDED      ENDED     ENDED
rate    ACTS      ACTS      ACTS      ACTS       ACTS       ACTS      ACTS
retry   UNFAILED  UNFAILED  UNFAILED  UNFAILED   UNFAILED   ACTS      UNFAILED
"""
"""What a command does in a status: it acts, it is accepted and nothing is left to do, or why it is
refused. It may be refused for other reasons where it acts."""


def verdicts() -> dict[tuple[str, str], str]:
    """Return the table of commands: what a command does in a status, by both."""
    statuses, *rows = (line.split() for line in COMMANDS.strip().splitlines())
    return {
        (command, status): verdict
        for command, *row in rows
        for status, verdict in zip(statuses, row, strict=True)
    }


class StopReason(StrEnum):
    """The reason why a refinement ended. `canceled` and `error` belong to those statuses alone."""

    THRESHOLD_MET = "threshold_met"
    VALIDATORS_PASSED = "validators_passed"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    """It ended, and something that was asked for was not done: see the result's caveats."""
    MAX_ITERATIONS = "max_iterations"
    PLATEAU = "plateau"
    STABLE = "stable"
    OSCILLATING = "oscillating"
    BUDGET_EXHAUSTED = "budget_exhausted"
    DEADLINE = "deadline"
    FINISHED_EARLY = "finished_early"
    APPROVED = "approved"
    REJECTED = "rejected"
    CANCELED = "canceled"
    ERROR = "error"


Member = TypeVar("Member", bound=StrEnum)


def later(kind: type[Member], value: str) -> Member:
    """Return a member for a value of a later release: it equals no member of this one."""
    member = str.__new__(kind, value)
    member._name_, member._value_ = value.upper(), value
    return member


def or_later(kind: type[Member]) -> WrapValidator:
    def read(value: Any, known: ValidatorFunctionWrapHandler) -> Any:
        try:
            return known(value)
        except ValidationError:
            if not isinstance(value, str):
                raise
            return later(kind, value)

    return WrapValidator(read)


StoredStatus = Annotated[Status, or_later(Status)]
"""A status as stored: one that a later release added is kept as it is, and is not terminal."""

StoredReason = Annotated[StopReason, or_later(StopReason)]
"""A stop reason as stored: one that a later release added is kept as it is."""

Blocking = Literal["stage_given_up", "goal_not_met", "unverified", "validator_skipped"]
"""The codes of caveats that keep `passed` false, unless the request accepts them."""

TEXT_MISSING: Literal["text_missing"] = "text_missing"
"""The code of the caveat about a part or an output without a text."""

BLOCKING: frozenset[str] = frozenset(get_args(Blocking))


class Caveat(Contract):
    """Something that was asked for and not done, or not used; it stands beside the result."""

    code: Literal[
        Blocking, "text_missing", "item_dropped", "lower_score", "forgeable", "summarized"
    ] = Field(
        description="`stage_given_up`: a stage, pass or part failed, or a stage did not pass;"
        " `goal_not_met`: the goal of a plan was not shown to be met, or a part or pass missed its"
        " own threshold, floors or validators; `unverified`: the facts or steps of the draft were"
        " not verified; `validator_skipped`: a validator did not run on the draft; `text_missing`:"
        " a stage, pass, part or output has no text; `item_dropped`:"
        " an item that could not be used was left out; `lower_score`: another draft scored more;"
        " `forgeable`: a hostile draft could have forged the verdict of a validator;"
        " `summarized`: the whole is too long for one prompt and was judged by summaries of its"
        " parts."
        " The first four keep `passed` false, unless the request accepts them; so"
        " does `text_missing` of a part."
    )
    path: str = Field(description="Path of the stage, part, draft or step that it is about.")
    detail: str

    def under(self, prefix: str) -> Self:
        """Return it with its path below `prefix`, if that is not empty."""
        return self.model_copy(update={"path": f"{prefix}/{self.path}"}) if prefix else self


def blocks(caveats: Iterable[Caveat], accepted: frozenset[str]) -> bool:
    """Return whether any of the caveats keeps `passed` false."""
    return any(caveat.code in BLOCKING and caveat.code not in accepted for caveat in caveats)


def without_text(caveats: Iterable[Caveat]) -> tuple[str, ...]:
    """Return the paths of the parts and outputs that have no text."""
    return tuple(caveat.path for caveat in caveats if caveat.code == TEXT_MISSING)


WHOLE = ("iterations/", "reviews/")
"""Paths of drafts that are judged as a whole; other drafts are judged as a part of the work."""


class RefinementOutcome(StrEnum):
    """The outcome of a refinement that has ended; `docs/endings.md` has the table."""

    PASSED = "passed"
    BEST_EFFORT = "best_effort"
    FAILED = "failed"
    CANCELED = "canceled"


StoredOutcome = Annotated[RefinementOutcome, or_later(RefinementOutcome)]
"""An outcome as stored: one that a later release added is kept as it is."""

MOST_LACKS = 2
"""What a sentence names at most of what a draft lacks; the rest is counted."""


@value(slots=True)
class Shortfall:
    """The defects of the best draft, by its verdict and by the work on it."""

    score: float | None
    scores: Sequence[CriterionScore] = ()
    findings: Sequence[Finding] = ()
    floors: Mapping[str, float] = field(default_factory=dict)
    """Least score by criterion."""
    caveats: Sequence[Caveat] = ()
    is_mean: bool = True
    """Whether the score is the mean of the criteria's scores."""

    def text(self, threshold: float, accepted: frozenset[str] = frozenset()) -> str:
        """Return what keeps it from passing, for the middle of a sentence; empty for nothing."""
        found = list(dict.fromkeys(self._lacks(threshold, accepted)))
        more = len(found) - MOST_LACKS
        return "; ".join(found[:MOST_LACKS]) + (f" (and {more} more)" if more > 0 else "")

    def _lacks(self, threshold: float, accepted: frozenset[str]) -> Iterator[str]:
        if missing := without_text(self.caveats):
            yield f"there is no text for {', '.join(missing)}"
        for finding in self.findings:
            if finding.on_fail is OnFail.VETO and not finding.skipped:
                yield f"{finding.kind}: {_clause(finding.message)}"
        for of in self.scores:
            least = self.floors.get(of.criterion)
            if least is not None and (of.score is None or of.score < least):
                yield f"{of.criterion} {_is_at(of.score)}; its floor is {_figure(least)}"
        if self.score is None or self.score < threshold:
            yield f"{self._measured()}; the threshold is {_figure(threshold)}"
        for caveat in self.caveats:
            if caveat.code in BLOCKING and caveat.code not in accepted:
                yield _clause(caveat.detail)

    def _measured(self) -> str:
        known = sorted((of.score, of.criterion) for of in self.scores if of.score is not None)
        if self.score is None or not known or not self.is_mean:
            return f"the score {_is_at(self.score)}"
        lowest, criterion = known[0]
        if len(known) == 1:
            return f"{criterion} {_is_at(self.score)}"
        return f"the score {_is_at(self.score)} (lowest: {criterion} {_figure(lowest)})"


@value(slots=True)
class OutcomeReason:
    """Why the outcome is what it is, made of what is stored; `text` is the sentence."""

    outcome: str
    stop_reason: str | None
    threshold: float
    max_iterations: int
    score: float | None = None
    path: str | None = None
    """That of the best draft."""
    drafts_since_highest: int = 0
    lacks: str = ""
    """What keeps the best draft from passing; empty also once the text is erased."""
    error: str | None = None
    is_overdue: bool = False
    """Whether the decision of the last review is what was to happen without one."""

    @property
    def text(self) -> str:
        """One sentence for people."""
        if self.outcome == RefinementOutcome.CANCELED:
            return _sentence(f"it was canceled{self._by_then()}")
        if self.outcome == RefinementOutcome.FAILED:
            rejected = f"{self._why_ended()}{self._by_then()}"
            return _sentence(rejected if self.error is None else self.error)
        if self.outcome == RefinementOutcome.PASSED:
            return _sentence(f"the score {_is_at(self.score)}; {self._threshold()}")
        ended = self._why_ended()
        return _sentence("; ".join(filter(None, (self._lacks(), ended))))

    def _lacks(self) -> str:
        if self.stop_reason == StopReason.REJECTED:
            return ""
        is_low = self.score is None or self.score < self.threshold
        low = f"the score {_is_at(self.score)}; {self._threshold()}" if is_low else ""
        return self.lacks or low

    def _by_then(self) -> str:
        if self.path is None:
            return " before a draft was judged"
        if not self.path.startswith(WHOLE):  # the threshold is not that of its criteria
            return f"; the best draft by then, {self.path}, {_scored(self.score)}"
        return f"; the best draft by then {_scored(self.score)}; {self._threshold()}"

    def _threshold(self) -> str:
        return f"the threshold is {_figure(self.threshold)}"

    def _why_ended(self) -> str:
        match self.stop_reason:
            case StopReason.APPROVED | StopReason.REJECTED if self.is_overdue:
                return "no reviewer decided in time"
            case StopReason.MAX_ITERATIONS:
                return f"the limit of {_counted(self.max_iterations, 'iteration')} was reached"
            case StopReason.PLATEAU:
                drafts = _counted(max(1, self.drafts_since_highest), "draft")
                return f"no revision improved it for {drafts}"
            case StopReason.INCOMPLETE if self.lacks:
                return ""
            case reason:
                return ended_by(reason or StopReason.INCOMPLETE)


ENDED_BY: Mapping[str, str] = {
    StopReason.THRESHOLD_MET: "the threshold was met",
    StopReason.VALIDATORS_PASSED: "every validator passed",
    StopReason.COMPLETED: "every step was done",
    StopReason.INCOMPLETE: "something that was asked for was not done",
    StopReason.MAX_ITERATIONS: "the limit of iterations was reached",
    StopReason.PLATEAU: "the last revisions did not improve it",
    StopReason.STABLE: "the last revision hardly changed it",
    StopReason.OSCILLATING: "revisions came back to what had been judged before",
    StopReason.BUDGET_EXHAUSTED: "the budget was used up",
    StopReason.DEADLINE: "a limit of time was reached",
    StopReason.FINISHED_EARLY: "it was finished early",
    StopReason.APPROVED: "a reviewer approved it as it is",
    StopReason.REJECTED: "a reviewer rejected it",
    StopReason.CANCELED: "it was canceled",
    StopReason.ERROR: "an error ended it",
}
"""Why no further draft was made, for the middle of a sentence."""


def ended_by(stop_reason: str) -> str:
    """Return why no further draft was made; a reason of a later release speaks for itself."""
    return ENDED_BY.get(stop_reason, stop_reason.replace("_", " "))


def _figure(score: float) -> str:
    """Return a score with two digits, or three if it has more; never rounded up to a threshold."""
    return f"{score:.2f}" if round(score, 2) == score else f"{floor(1000 * score) / 1000:.3f}"


def _is_at(score: float | None) -> str:
    return "could not be measured" if score is None else f"is {_figure(score)}"


def _scored(score: float | None) -> str:
    return "has no score" if score is None else f"scored {_figure(score)}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _clause(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:].rstrip('.')}."
