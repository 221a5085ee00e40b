"""When to stop, and which draft to return.

The rules a `Search` obeys:

1. The text returned is the text scored: the outcome is the best judged draft, ordered by
   (vetoing validators pass, floors met, score, earlier).
2. It stops for the first that holds: threshold met; `max_iterations`; stable (Jaccard similarity of
   word 3-grams between a draft and its parent reaches `max_similarity`); oscillating (a text seen
   before that is not the parent's, or scores a, b, a, b within 1e-6); plateau (`patience` judged
   drafts in a row that raise the best by less than `min_improvement`).
3. A client's own draft is iteration 0 and is not counted by `max_iterations`.
4. When it is told to stop from outside it keeps its best, if it has one.
5. What is revised next is the best; of several that rank the same, the latest. Critics speak in
   coarse steps, and a revision that scores no worse has mended something more often than not
   (docs/convergence.md).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from app.contract.judgement import ScoreFrom
from app.contract.limits import Limits
from app.contract.status import StopReason
from workers.engine.briefs import Task
from workers.engine.moves import Judged, Judgement, Scored, Stop
from workers.engine.similarity import similarity

SAME_SCORE = 1e-6


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a strategy decided: its best judged draft, and why it went no further.

    `reason` is None when it was stopped from outside: whoever stopped it knows why. `missing` holds
    the paths of parts that have no draft.
    """

    best: Judgement
    reason: StopReason | None
    passed: bool
    missing: tuple[str, ...] = ()

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


class Search:
    """Remembers what was judged, keeps the best, and says what to revise and when to stop."""

    def __init__(
        self, limits: Limits, *, starts_with_own_draft: bool, own: Own | None = None
    ) -> None:
        self._own = own or Own()
        self.limits = self._own.instead_of(limits)
        self.best: Judgement | None = None
        self.base: Judgement | None = None
        self.reason: StopReason | None = None
        self._judged: list[Judgement] = []
        self._next = 0 if starts_with_own_draft else 1
        self._stale = 0

    @classmethod
    def of(cls, task: Task, limits: Limits, own: Own | None = None) -> Self:
        """Return a search for a task; the draft it may start with is iteration 0."""
        return cls(limits, starts_with_own_draft=task.draft is not None, own=own)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        """Swallow a stop from outside when something was judged: the best is kept."""
        return isinstance(error, Stop) and self.best is not None

    def iterations(self) -> Iterator[str]:
        """Give the path of one iteration after another, until a rule says stop."""
        while self.reason is None:
            yield self.upcoming

    @property
    def upcoming(self) -> str:
        """The path of the next iteration."""
        return f"iterations/{self._next}"

    async def judged(self, scored: Scored) -> None:
        """Take in a judged draft, tell the news, and decide under the limits now in force."""
        gain, judgement = await self._taken(scored, self._next)
        self._next += 1
        self._stale = 0 if gain >= self.limits.min_improvement else self._stale + 1
        self.reason = self._why_stop(judgement)

    def side_by_side(self, count: int) -> tuple[str, ...]:
        """Give the paths of the next iterations, whose drafts do not follow from one another."""
        return tuple(f"iterations/{self._next + offset}" for offset in range(count))

    async def sampled(self, drafts: Sequence[Scored | None]) -> None:
        """Take in drafts made side by side; None is one that could not be made.

        No rule about what follows from what applies to them: only threshold and cap do.
        """
        for number, scored in enumerate(drafts, self._next):
            if scored is not None:
                await self._taken(scored, number)
        self._next += len(drafts)
        self.reason = self._met()
        if self.reason is None and self._next > self.limits.max_iterations:
            self.reason = StopReason.MAX_ITERATIONS

    async def _taken(self, scored: Scored, number: int) -> tuple[float, Judgement]:
        """Take in a judged draft and tell the news; return by how much it raised the best."""
        judgement = Judgement(scored, number, f"iterations/{number}")
        gain = self._gain(judgement)
        if self.best is None or judgement.rank > self.best.rank:
            self.best = judgement
        if judgement.rank == self.best.rank:
            self.base = judgement
        threshold = self._own.threshold
        limits = await Judged(judgement.path, judgement, self.best, threshold)
        self.limits = self._own.instead_of(limits)
        self._judged.append(judgement)
        return gain, judgement

    def outcome(self) -> Outcome:
        """Return the best judged draft. Raises `Stop` when nothing was judged."""
        if self.best is None:
            raise Stop
        return Outcome(self.best, self.reason, self.best.scored.passes(self.limits.threshold))

    def _gain(self, judgement: Judgement) -> float:
        """Return by how much a draft raises the best; a better kind of draft counts as 1."""
        if self.best is None:
            return 1.0
        *kind, score = judgement.rank
        *best_kind, best_score = self.best.rank
        return score - best_score if kind == best_kind else float(kind > best_kind)

    def _met(self) -> StopReason | None:
        goal = self.limits.threshold if self._own.goal is None else self._own.goal
        met = self.best is not None and self.best.scored.passes(goal)
        return self._own.reached if met else None

    def _why_stop(self, last: Judgement) -> StopReason | None:
        if met := self._met():
            return met
        if last.iteration >= self.limits.max_iterations:
            return StopReason.MAX_ITERATIONS
        if self._is_stable(last):
            return StopReason.STABLE
        if self._oscillates(last):
            return StopReason.OSCILLATING
        if self._stale >= self.limits.patience:
            return StopReason.PLATEAU
        return None

    def _is_stable(self, last: Judgement) -> bool:
        parent = self._parent_of(last)
        if parent is None:
            return False
        alike = similarity(parent.scored.draft.text, last.scored.draft.text)
        return alike >= self.limits.max_similarity

    def _oscillates(self, last: Judgement) -> bool:
        parent = self._parent_of(last)
        seen = {it.scored.draft.sha256 for it in self._judged[:-1] if it is not parent}
        if last.scored.draft.sha256 in seen:
            return True
        scores = [it.scored.score for it in self._judged[-4:]]
        if len(scores) < 4 or None in scores:
            return False
        a, b, c, d = (score for score in scores if score is not None)
        return abs(a - c) <= SAME_SCORE and abs(b - d) <= SAME_SCORE and abs(a - b) > SAME_SCORE

    def _parent_of(self, last: Judgement) -> Judgement | None:
        path = last.scored.draft.parent
        return next((it for it in self._judged if it.path == path), None) if path else None
