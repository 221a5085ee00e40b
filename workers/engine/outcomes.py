"""What a search comes to, and what it may be told beforehand and by a reviewer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.contract.comparisons import Comparison
from app.contract.judgement import ScoreFrom
from app.contract.limits import Limits
from app.contract.requests import ContextDocument
from app.contract.status import StopReason
from workers.engine.moves import Judgement, Word


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a strategy decided: its best judged draft, and why it went no further.

    `reason` is None when it was stopped from outside: whoever stopped it knows why. `missing` holds
    the paths of parts that have no draft, and of further texts that could not be made.
    """

    best: Judgement
    reason: StopReason | None
    passed: bool
    missing: tuple[str, ...] = ()
    comparison: Comparison | None = None
    observed: tuple[ContextDocument, ...] = ()
    """What was found out on the way: context of everything that is made of the draft."""
    outputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def score_from(self) -> ScoreFrom:
        """What the score of the best draft measures."""
        return self.best.scored.score_from


@dataclass(frozen=True, slots=True)
class Own:
    """Rules of an inner search that replace the refinement's; a PATCH does not reach them."""

    threshold: float | None = None
    max_iterations: int | None = None
    goal: float | None = None
    """The score at which it stops; the threshold then only says what passes."""
    reached: StopReason = StopReason.THRESHOLD_MET

    def instead_of(self, limits: Limits) -> Limits:
        """Return the limits with those that it has of its own."""
        own = {"threshold": self.threshold, "max_iterations": self.max_iterations}
        given = {name: value for name, value in own.items() if value is not None}
        return limits.model_copy(update=given)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a reviewer asked for next: the draft they were shown, and their word."""

    of: Judgement
    word: Word
