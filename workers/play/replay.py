"""What a refinement has done so far: read from its journal, and added to as it goes on."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from app.contract.events import (
    AnyReply,
    Event,
    FindingsReply,
    IterationCompleted,
    StepCompleted,
    StepFailed,
    Stopping,
    TextReply,
    ToolReply,
)
from app.contract.judgement import ScoreFrom, Usage
from app.contract.limits import Limits
from app.contract.reviews import Reviewed
from app.contract.snapshot import Best, IterationScore
from app.contract.status import StopReason
from workers.engine import moves

REFUSED = "budget_exhausted"
"""The code of a call that the budget did not allow beside those already in flight."""

SPARED = "finished_early"
"""The code of a step that only prepares a draft, after a finish that waits for the first one."""


@dataclass
class RecordedStep:
    """One step that was done or could not be done, and whether that is durable."""

    entry: StepCompleted | StepFailed
    is_journaled: bool = False

    def reply(self) -> Any:
        """Return what the strategy gets. Raises the failure of a step that could not be done."""
        if isinstance(self.entry, StepFailed):
            if self.entry.code in {REFUSED, SPARED}:
                raise moves.Stopped
            raise moves.StepError(self.entry.code, self.entry.detail)
        return _value(self.entry.reply)


@dataclass
class Replay:
    """Steps and words by key, limits and scores by path of iteration, and the sums over them.

    What a reviewer rated was judged twice: the limits go by what the score is from, too.
    """

    steps: dict[str, RecordedStep] = field(default_factory=dict)
    words: dict[str, moves.ReviewerReply] = field(default_factory=dict)
    limits: dict[tuple[str, ScoreFrom], Limits] = field(default_factory=dict)
    scores: dict[str, IterationScore] = field(default_factory=dict)
    best: Best | None = None
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    stopping: StopReason | None = None

    def add(self, step: RecordedStep) -> None:
        """Remember a step and what it consumed."""
        self.steps[step.entry.key] = step
        self.usage += step.entry.usage

    def judged(self, iteration: IterationCompleted) -> None:
        """Remember that a draft was judged, and the limits that were the reply."""
        self.limits[iteration.path, iteration.score_from] = iteration.limits
        self.scores[iteration.path] = score_of(iteration)
        self.best = iteration.best


def read(events: Iterable[Event]) -> Replay:
    """Return what a journal says was done."""
    recorded = Replay()
    for event in events:
        match event.data:
            case StepCompleted() | StepFailed():
                recorded.add(RecordedStep(event.data, is_journaled=True))
            case IterationCompleted():
                recorded.judged(event.data)
            case Reviewed():
                recorded.words[event.data.key] = _word(event.data)
            case Stopping():
                recorded.stopping = event.data.reason
    return recorded


def refused(key: str) -> StepFailed:
    """Return what is journaled of a call that the budget does not allow beside the others."""
    detail = "the calls in flight and the first draft may take what is left of the budget"
    return StepFailed(key=key, code=REFUSED, detail=detail, usage=Usage(), next=())


def spared(key: str) -> StepFailed:
    """Return what is journaled of a step that a finish does without."""
    detail = "a finish was asked for: the first draft is made without it"
    return StepFailed(key=key, code=SPARED, detail=detail, usage=Usage(), next=())


def score_of(entry: IterationCompleted) -> IterationScore:
    """Return what the snapshot shows of a judged draft."""
    return IterationScore(iteration=entry.iteration, path=entry.path, score=entry.score)


def _word(said: Reviewed) -> moves.ReviewerReply:
    return moves.ReviewerReply(said.action, said.feedback, said.draft, said.score)


def _value(reply: AnyReply) -> Any:
    match reply:
        case TextReply():
            return reply.text
        case FindingsReply():
            return reply.findings
        case ToolReply():
            return moves.ToolResult(reply.ok, reply.text)
