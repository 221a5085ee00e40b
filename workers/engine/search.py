"""A search: iterations until a stop rule holds, and the draft to return."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Self

from app.contract.caveats import Caveat, blocks
from app.contract.judgement import Comparison, ScoreFrom
from app.contract.learnt import Learnt
from app.contract.limits import Limits
from app.contract.requests import ContextDocument
from app.contract.status import StopReason
from app.contract.versions import ENGINE_VERSION
from workers.engine.issue_tracker import NO_ISSUES, IssueTracker
from workers.engine.judging import errors_in
from workers.engine.matching import similarity
from workers.engine.moves import (
    Judged,
    Judgement,
    Review,
    ReviewerReply,
    Scored,
    StepError,
    Stopped,
)
from workers.engine.prompt_requests import Task

GOALS = (StopReason.THRESHOLD_MET, StopReason.VALIDATORS_PASSED)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a strategy decided: its best judged draft, and why it stopped.

    `reason` is None when it was stopped from outside: the driver has the reason then. `missing`
    lists the paths of parts without a draft, and of further texts that failed.
    """

    best: Judgement
    reason: StopReason | None
    passed: bool
    missing: tuple[str, ...] = ()
    comparison: Comparison | None = None
    observed: tuple[ContextDocument, ...] = ()
    """What was observed on the way: context for everything made from the draft."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()
    """What the work on it lacks; what the verdict on the best draft lacks stands there."""

    lesson: Learnt | None = None
    """What the scores of this refinement add to what was learnt; None if they teach nothing."""

    def claiming(self, accepted: frozenset[str]) -> Self:
        """Return it without a success that its caveats contradict."""
        if not blocks(self.caveats, accepted):
            return self
        reason = StopReason.INCOMPLETE if self.reason in GOALS else self.reason
        return replace(self, passed=False, reason=reason)

    @property
    def score_from(self) -> ScoreFrom:
        """What the score of the best draft measures."""
        return self.best.scored.score_from


@dataclass(frozen=True, slots=True)
class LimitOverrides:
    """Limits of an inner search that replace the refinement's; a PATCH does not change them."""

    threshold: float | None = None
    max_iterations: int | None = None
    goal: float | None = None
    """The score at which it stops; the threshold then only says what passes."""
    reached: StopReason = StopReason.THRESHOLD_MET

    def instead_of(self, limits: Limits) -> Limits:
        """Return the limits with these overrides applied."""
        own = {"threshold": self.threshold, "max_iterations": self.max_iterations}
        given = {name: value for name, value in own.items() if value is not None}
        return limits.model_copy(update=given)


@dataclass(frozen=True, slots=True)
class RequestedRevision:
    """What a reviewer asked for next: the draft they saw, and their decision."""

    of: Judgement
    word: ReviewerReply


SAME_SCORE = 1e-6
SCORES_ALONE = 2
"""The last version of the engine in which errors that validators find do not rank drafts."""

STANDSTILLS = (StopReason.STABLE, StopReason.OSCILLATING, StopReason.PLATEAU)
ESCAPES_ONCE = 3
"""The version of the engine from which one draft is made in another way before a standstill ends
the outermost search."""


class Ranking:
    """Ranks judged drafts; scores compare only within one rubric."""

    def __init__(self, tolerance: float = 0.0) -> None:
        self.best: Judgement | None = None
        self.base: Judgement | None = None
        """The draft to revise next: of several that rank as the best, the latest."""
        self._tolerance = tolerance
        self._top: Judgement | None = None
        """The highest rank so far: the best, unless a revision within tolerance took its place."""
        self._judged: list[Judgement] = []

    def add(self, judgement: Judgement) -> float:
        """Rank one more draft; return by how much it raised the best."""
        self._judged.append(judgement)
        return self._placed(judgement)

    def change(self, judgement: Judgement, rated: Judgement) -> float:
        """Rank all drafts again, one with another score; return the gain of the last one."""
        self._judged = [rated if it is judgement else it for it in self._judged]
        self.best = self.base = self._top = None
        return [self._placed(it) for it in self._judged][-1]

    def issues_of(self, path: str | None) -> IssueTracker:
        """Return the issues of the draft judged at `path`; none when there was none."""
        return next((it.issues for it in self._judged if it.path == path), NO_ISSUES)

    def revisions_of(self, path: str) -> tuple[Judgement, ...]:
        """Return the revisions of the draft judged at `path`, in the order of judging."""
        return tuple(it for it in self._judged if it.scored.draft.parent == path)

    def is_stable(self, max_similarity: float) -> bool:
        """Return whether the last draft is as similar to its parent as `max_similarity`.

        One with fewer errors is not: a few characters may be all that has to change.
        """
        last = self._judged[-1]
        parent = self._parent_of(last)
        if parent is None or last.errors < parent.errors:
            return False
        alike = similarity(parent.scored.draft.text, last.scored.draft.text)
        return alike >= max_similarity

    def oscillates(self) -> bool:
        """Return whether the last draft was seen before, or the last scores are a, b, a, b."""
        last = self._judged[-1]
        parent = self._parent_of(last)
        seen = {it.scored.draft.sha256 for it in self._judged[:-1] if it is not parent}
        if last.scored.draft.sha256 in seen:
            return True
        latest = self._judged[-4:]
        scores = [it.scored.score for it in latest]
        if len(scores) < 4 or None in scores:
            return False
        if latest[0].errors != latest[2].errors or latest[1].errors != latest[3].errors:
            return False
        a, b, c, d = (score for score in scores if score is not None)
        return abs(a - c) <= SAME_SCORE and abs(b - d) <= SAME_SCORE and abs(a - b) > SAME_SCORE

    def _placed(self, judgement: Judgement) -> float:
        gain = self._gain(judgement)
        if self._top is None or judgement.rank > self._top.rank:
            self._top = self.best = self.base = judgement
        elif self._is_tolerable(judgement, self._top):
            self.best = self.base = judgement
        elif judgement.rank == self._top.rank:
            self.base = judgement
        return gain

    def _is_tolerable(self, judgement: Judgement, top: Judgement) -> bool:
        """Return whether a revision may replace the best although it scores less."""
        if not self._tolerance or judgement.scored.draft.parent is None:
            return False
        *kind, score = judgement.rank
        *top_kind, top_score = top.rank
        return kind == top_kind and score >= top_score - self._tolerance

    def _gain(self, judgement: Judgement) -> float:
        """Return by how much a draft raises the highest rank; a better kind counts as 1."""
        if self._top is None:
            return 1.0
        *kind, score = judgement.rank
        *top_kind, top_score = self._top.rank
        return score - top_score if kind == top_kind else float(kind > top_kind)

    def _parent_of(self, last: Judgement) -> Judgement | None:
        path = last.scored.draft.parent
        return next((it for it in self._judged if it.path == path), None) if path else None


__all__ = ["LimitOverrides", "Outcome", "RequestedRevision", "Search"]


class Search:
    """Records judged drafts, keeps the best, and decides what to revise and when to stop."""

    def __init__(
        self,
        limits: Limits,
        *,
        first: int = 1,
        own: LimitOverrides | None = None,
        is_reviewed: bool = False,
        engine_version: int = ENGINE_VERSION,
        escapes: bool = False,
    ) -> None:
        self._counts_errors = engine_version > SCORES_ALONE
        self._own = own or LimitOverrides()
        self.limits = self._own.instead_of(limits)
        self.reason: StopReason | None = None
        self.decided: StopReason | None = None
        """The reviewer's decision, if they approved or rejected."""
        self.wish: RequestedRevision | None = None
        self._is_reviewed = is_reviewed
        self._approved: Judgement | None = None
        self._ranking = Ranking(limits.tolerance)
        self.number = first
        """The number of the next iteration."""
        self._stale = 0
        self._escapes = escapes
        self._standstill: StopReason | None = None
        """Why it would have ended; then one draft is made in another way."""

    @classmethod
    def of(cls, task: Task, limits: Limits, own: LimitOverrides | None = None) -> Self:
        """Return a search for a task; a draft that it starts from is iteration 0."""
        first = 1 if task.draft is None else 0
        is_whole = task.engine_version >= ESCAPES_ONCE and not task.part
        return cls(
            limits,
            first=first,
            own=own,
            is_reviewed=task.is_reviewed,
            engine_version=task.engine_version,
            escapes=limits.escape and is_whole,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        """Suppress a stop from outside when a draft was judged: the best is kept.

        So is a failed step of a draft that was tried before it ends: it ends without that draft.
        """
        if isinstance(error, StepError) and self.is_escaping:
            self.reason = self._standstill
            return True
        return isinstance(error, Stopped) and self.best is not None

    @property
    def best(self) -> Judgement | None:
        """The best judged draft."""
        return self._ranking.best

    @property
    def is_escaping(self) -> bool:
        """Whether the next draft is made in another way, once, before the search ends."""
        return self._escapes and self._standstill is not None

    @property
    def base(self) -> Judgement | None:
        """The draft that is revised next."""
        return self._ranking.base

    def revisions_of(self, path: str) -> tuple[Judgement, ...]:
        """Return the judged revisions of the draft at `path`; none has become the next base."""
        return self._ranking.revisions_of(path)

    def iterations(self) -> Iterator[str]:
        """Yield the path of each iteration until a stop rule holds."""
        while self.reason is None:
            yield self.upcoming

    @property
    def upcoming(self) -> str:
        """The path of the next iteration."""
        return f"iterations/{self.number}"

    async def judged(self, scored: Scored) -> None:
        """Record a judged draft, report it, and decide under the limits now in force."""
        decide = partial(self._decide, self._stale)
        gain, judgement = await self._taken(scored, self.number)
        self.number += 1
        decide(gain, judgement)
        await self._reviewed(judgement, decide)

    def side_by_side(self, count: int) -> tuple[str, ...]:
        """Return the paths of at most `count` iterations whose drafts are independent.

        There are at most as many as the limits now in force allow, and at least one.
        """
        count = min(count, max(1, self.limits.max_iterations + 1 - self.number))
        return tuple(f"iterations/{self.number + offset}" for offset in range(count))

    async def sampled(self, drafts: Sequence[Scored | None]) -> None:
        """Record drafts made side by side; None stands for one that failed.

        Rules that compare a draft with earlier ones do not apply to them: only threshold and cap
        do. The best of them is reviewed.
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

        `reason` is None for a stop from outside.
        """
        if not self.is_over:
            self.reason = reason

    @property
    def is_over(self) -> bool:
        """Return whether the goal is reached, nothing is left to revise, or a reviewer decided."""
        goals = (StopReason.THRESHOLD_MET, self._own.reached, StopReason.INCOMPLETE)
        return self.decided is not None or self.reason in goals

    async def _taken(self, scored: Scored, number: int) -> tuple[float, Judgement]:
        """Record a judged draft and report it; return by how much it raised the best."""
        path = f"iterations/{number}"
        findings = (*scored.findings, *scored.critique.findings)
        issues = self._issues_of(scored.draft.parent).next(path, findings)
        errors = errors_in(scored.findings) if self._counts_errors else (0.0, 0.0)
        judgement = Judgement(scored, number, path, issues, errors)
        gain = self._ranking.add(judgement)
        await self._told(judgement)
        return gain, judgement

    def _issues_of(self, parent: str | None) -> IssueTracker:
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
        """Have a draft reviewed, if this search is reviewed, and apply the decision."""
        self.wish = None
        if not self._is_reviewed:
            return
        try:
            word = await Review(f"{judgement.path}/review", judgement, "each_iteration")
        except Stopped:
            self.settle(None)  # the reason is the stop from outside, not a stop rule
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
            self.wish = RequestedRevision(judgement, word)
        if word.action != "rate":
            self.reason = self.decided

    def outcome(self) -> Outcome:
        """Return the best judged draft. Raises `Stopped` when nothing was judged."""
        best = self._approved or self.best
        if best is None:
            raise Stopped
        good = best.scored.passes(self.limits.threshold)
        return Outcome(best, self.reason, good and self.decided is not StopReason.REJECTED)

    def _met(self) -> StopReason | None:
        own = self._own
        if self.best is None:
            return None
        if self.best.scored.score_from == "review":  # only the threshold applies to it
            own = LimitOverrides()
        goal = self.limits.threshold if own.goal is None else own.goal
        if self.best.scored.lacks_only_proof(goal):  # there is nothing to revise
            return StopReason.INCOMPLETE
        return own.reached if self.best.scored.passes(goal) else None

    def _decide(self, stale: int, gain: float, last: Judgement) -> None:
        self._stale = 0 if gain >= self.limits.min_improvement else stale + 1
        self.reason = self._unless_escaping(self._why_stop(last), last)

    def _unless_escaping(self, reason: StopReason | None, last: Judgement) -> StopReason | None:
        """Return why it ends; at a standstill None, once, and then that unless it got better."""
        if last.scored.draft.escape is None:
            self._standstill = reason if reason in STANDSTILLS and self._escapes else None
            return None if self._standstill else reason
        self._escapes = False
        if self.best is last or reason not in (None, *STANDSTILLS):
            return reason
        return self._standstill

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
