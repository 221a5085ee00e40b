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
6. With `tolerance` a revision that scores at most so much below the highest score so far counts as
   the best, for 1 as for 5: where scores are noisy and revisions mostly help, the later draft is
   more often the better one (docs/convergence.md).
7. A reviewer is asked after the rules have spoken, and overrules them: what they approve is the
   outcome, whatever ranks higher; what they ask for buys one more iteration.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from app.contract.limits import Limits
from app.contract.status import StopReason
from workers.engine.briefs import Task
from workers.engine.ledger import Ledger
from workers.engine.moves import Judged, Judgement, Review, Scored, Stop
from workers.engine.outcomes import Outcome, Own, Wish
from workers.engine.ranking import Ranking

__all__ = ["Outcome", "Own", "Search", "Wish"]


class Search:
    """Remembers what was judged, keeps the best, and says what to revise and when to stop."""

    def __init__(
        self,
        limits: Limits,
        *,
        first: int = 1,
        own: Own | None = None,
        is_reviewed: bool = False,
    ) -> None:
        self._own = own or Own()
        self.limits = self._own.instead_of(limits)
        self.reason: StopReason | None = None
        self.decided: StopReason | None = None
        """What a reviewer decided, if they approved or rejected."""
        self.wish: Wish | None = None
        self._is_reviewed = is_reviewed
        self._approved: Judgement | None = None
        self._ranking = Ranking(limits.tolerance)
        self.number = first
        """The number of the next iteration."""
        self._stale = 0

    @classmethod
    def of(cls, task: Task, limits: Limits, own: Own | None = None) -> Self:
        """Return a search for a task; the draft it may start with is iteration 0."""
        first = 1 if task.draft is None else 0
        return cls(limits, first=first, own=own, is_reviewed=task.is_reviewed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        """Swallow a stop from outside when something was judged: the best is kept."""
        return isinstance(error, Stop) and self.best is not None

    @property
    def best(self) -> Judgement | None:
        """The best judged draft."""
        return self._ranking.best

    @property
    def base(self) -> Judgement | None:
        """The draft that is revised next."""
        return self._ranking.base

    def iterations(self) -> Iterator[str]:
        """Give the path of one iteration after another, until a rule says stop."""
        while self.reason is None:
            yield self.upcoming

    @property
    def upcoming(self) -> str:
        """The path of the next iteration."""
        return f"iterations/{self.number}"

    async def judged(self, scored: Scored) -> None:
        """Take in a judged draft, tell the news, and decide under the limits now in force."""
        decide = partial(self._decide, self._stale)
        gain, judgement = await self._taken(scored, self.number)
        self.number += 1
        decide(gain, judgement)
        await self._reviewed(judgement, decide)

    def side_by_side(self, count: int) -> tuple[str, ...]:
        """Give the paths of the next iterations, whose drafts do not follow from one another.

        They are as many as the limits now in force allow, and at least one.
        """
        count = min(count, max(1, self.limits.max_iterations + 1 - self.number))
        return tuple(f"iterations/{self.number + offset}" for offset in range(count))

    async def sampled(self, drafts: Sequence[Scored | None]) -> None:
        """Take in drafts made side by side; None is one that could not be made.

        No rule about what follows from what applies to them: only threshold and cap do. The best
        of them is reviewed.
        """
        taken: list[Judgement] = []
        for number, scored in enumerate(drafts, self.number):
            if scored is not None:
                taken.append((await self._taken(scored, number))[1])
        self.number += len(drafts)
        self._decide_on_samples()
        if taken:
            best = max(taken, key=lambda it: it.rank)
            await self._reviewed(best, lambda *_: self._decide_on_samples())

    def settle(self, reason: StopReason | None) -> None:
        """End for `reason`, unless the goal is reached or a reviewer has decided.

        None: whoever stopped it knows why.
        """
        if not self.is_over:
            self.reason = reason

    @property
    def is_over(self) -> bool:
        """True when the goal is reached or a reviewer has decided."""
        goals = (StopReason.THRESHOLD_MET, self._own.reached)
        return self.decided is not None or self.reason in goals

    async def _taken(self, scored: Scored, number: int) -> tuple[float, Judgement]:
        """Take in a judged draft and tell the news; return by how much it raised the best."""
        path = f"iterations/{number}"
        findings = (*scored.findings, *scored.critique.findings)
        issues = self._issues_of(scored.draft.parent).next(path, findings)
        judgement = Judgement(scored, number, path, issues)
        gain = self._ranking.add(judgement)
        await self._told(judgement)
        return gain, judgement

    def _issues_of(self, parent: str | None) -> Ledger:
        """Return the issues of a parent: judged here, or shown to a reviewer elsewhere."""
        if self.wish and self.wish.of.path == parent:
            return self.wish.of.issues
        return self._ranking.issues_of(parent)

    async def _told(self, judgement: Judgement) -> None:
        assert self.best is not None  # it was ranked
        limits = await Judged(judgement.path, judgement, self.best, self._own.threshold)
        self.limits = self._own.instead_of(limits)

    async def _reviewed(
        self, judgement: Judgement, decide: Callable[[float, Judgement], None]
    ) -> None:
        """Put a draft before the reviewer, if there is one, and heed their word."""
        self.wish = None
        if not self._is_reviewed:
            return
        try:
            word = await Review(f"{judgement.path}/review", judgement, "each_iteration")
        except Stop:
            self.settle(None)  # the rules do not have the last word here
            raise
        self.limits = self._own.instead_of(word.limits or self.limits)
        if word.score is not None:
            rated = judgement.rated(word.score)
            gain = self._ranking.change(judgement, rated)
            await self._told(rated)
            decide(gain, rated)
            judgement = rated
        if word.action == "approve":
            self._approved, self.decided = judgement, StopReason.APPROVED
        elif word.action == "reject":
            self.decided = StopReason.REJECTED
        elif word.action != "rate":
            self.wish = Wish(judgement, word)
        if word.action != "rate":
            self.reason = self.decided

    def outcome(self) -> Outcome:
        """Return the best judged draft. Raises `Stop` when nothing was judged."""
        best = self._approved or self.best
        if best is None:
            raise Stop
        good = best.scored.passes(self.limits.threshold)
        return Outcome(best, self.reason, good and self.decided is not StopReason.REJECTED)

    def _met(self) -> StopReason | None:
        own = self._own
        if self.best is None:
            return None
        if self.best.scored.score_from == "review":  # a person's score knows one goal
            own = Own()
        goal = self.limits.threshold if own.goal is None else own.goal
        return own.reached if self.best.scored.passes(goal) else None

    def _decide(self, stale: int, gain: float, last: Judgement) -> None:
        self._stale = 0 if gain >= self.limits.min_improvement else stale + 1
        self.reason = self._why_stop(last)

    def _decide_on_samples(self) -> None:
        self.reason = self._met()
        if self.reason is None and self.number > self.limits.max_iterations:
            self.reason = StopReason.MAX_ITERATIONS

    def _why_stop(self, last: Judgement) -> StopReason | None:
        if met := self._met():
            return met
        if last.iteration >= self.limits.max_iterations:
            return StopReason.MAX_ITERATIONS
        if self._ranking.is_stable(self.limits.max_similarity):
            return StopReason.STABLE
        if self._ranking.oscillates():
            return StopReason.OSCILLATING
        if self._stale >= self.limits.patience:
            return StopReason.PLATEAU
        return None
