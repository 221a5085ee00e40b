"""A search: iterations until a stop rule holds, and the draft to return."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from types import TracebackType
from typing import Self

from app.contract.calls import CONFIRMED
from app.contract.judgement import Comparison, QualityEstimate, ScoreFrom
from app.contract.limits import Limits
from app.contract.requests import ContextDocument
from app.contract.statistics import Learnt
from app.contract.status import WHOLE, Caveat, StopReason, blocks
from app.contract.values import value
from workers.engine.judging import averaged, critiqued, error_weights
from workers.engine.moves import (
    Draft,
    Heard,
    IssueTracker,
    Judged,
    Judgement,
    Refusal,
    Review,
    ReviewerReply,
    Scored,
    StepError,
    Stopped,
    within,
)
from workers.engine.prompts import Task
from workers.engine.quality import QualityFilter, Ranking, is_improvement

GOALS = (StopReason.THRESHOLD_MET, StopReason.VALIDATORS_PASSED)
DECIDED = (StopReason.APPROVED, StopReason.REJECTED)


@value(slots=True)
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
    estimate: QualityEstimate | None = None
    """What the best draft is probably worth; None if too little is known."""
    caveats: tuple[Caveat, ...] = ()
    """What the work on the draft lacks; the verdict on the best draft has its own lacks."""
    lower: Caveat | None = None
    """Why the best draft has a lower score than another one, if it has."""

    lesson: Learnt | None = None
    """What the scores of this refinement add to what was learnt; None if they teach nothing."""

    def decided_under(self, limits: Limits | None) -> Self:
        """Return it with `passed` decided under these limits, or as it was under None.

        An outcome that was not judged as a whole does not pass. What a reviewer decided stays.
        """
        if limits is None or self.reason in DECIDED:
            return self
        passed = self.best.path.startswith(WHOLE) and self.best.scored.passes(limits.threshold)
        is_contradicted = self.reason in GOALS and not passed
        reason = StopReason.COMPLETED if is_contradicted else self.reason
        return replace(self, passed=passed, reason=reason)

    def claiming(self, accepted: frozenset[str]) -> Self:
        """Return it without a success that its caveats, or parts without a text, contradict."""
        lacks_part = any(path.rpartition("/")[0].endswith("parts") for path in self.missing)
        if not (lacks_part or blocks(self.caveats, accepted)):
            return self
        reason = StopReason.INCOMPLETE if self.reason in GOALS else self.reason
        return replace(self, passed=False, reason=reason)

    @property
    def every_caveat(self) -> tuple[Caveat, ...]:
        """What the work on the draft lacks, and why its score is below another draft's."""
        return self.caveats if self.lower is None else (*self.caveats, self.lower)

    @property
    def score_from(self) -> ScoreFrom:
        """What the score of the best draft measures."""
        return self.best.scored.score_from


@value(slots=True)
class LimitOverrides:
    """Limits of an inner search that replace the refinement's; a PATCH does not change them."""

    threshold: float | None = None
    max_iterations: int | None = None
    goal: float | None = None
    """The score at which it stops; the threshold then only says what passes."""
    reached: StopReason = StopReason.THRESHOLD_MET

    def instead_of(self, limits: Limits) -> Limits:
        """Return the limits with these overrides applied."""
        if self.threshold is None and self.max_iterations is None:
            return limits
        own = {"threshold": self.threshold, "max_iterations": self.max_iterations}
        given = {name: value for name, value in own.items() if value is not None}
        return limits.model_copy(update=given)


@value(slots=True)
class RequestedRevision:
    """What a reviewer asked for next: the draft they saw, and their decision."""

    of: Judgement
    reply: ReviewerReply


def lower_than(top: Judgement, best: Judgement, why: str) -> Caveat:
    """Return the caveat about a result with a lower score than another draft, and why."""
    high, low = top.scored.score or 0.0, best.scored.score or 0.0
    digits = 4 if f"{high:.2f}" == f"{low:.2f}" else 2
    detail = f"{top.path} scored {high:.{digits}f} and this draft {low:.{digits}f}: {why}"
    return Caveat(code="lower_score", path=top.path, detail=detail)


def _ruled_out_by(top: Judgement, best: Judgement) -> str:
    """Return by which rule a draft with a higher score is the worse one."""
    rules = (
        "that draft fails a check that has to pass",
        "that draft misses the floor of a criterion",
        "that draft fails more of the checks that have to pass",
        "checks found more errors in that draft",
    )
    pairs = zip(rules, best.kind, top.kind, strict=False)
    return next((rule for rule, ours, its in pairs if ours != its), rules[0])


@value(slots=True)
class Turn:
    """Which of several generators writes, and the number of the draft after which it began."""

    generator: int = 1
    since: int = 0


STANDSTILLS = (StopReason.STABLE, StopReason.OSCILLATING, StopReason.PLATEAU)


class Search:
    """Records judged drafts, keeps the best, and decides what to revise and when to stop."""

    def __init__(
        self,
        limits: Limits,
        *,
        first: int = 1,
        own: LimitOverrides | None = None,
        is_reviewed: bool = False,
        hears: bool = False,
        task: Task | None = None,
        escapes: bool = False,
    ) -> None:
        self.task = task
        """What drafts are judged on when they are judged again."""
        self._own = own or LimitOverrides()
        self.limits = self._own.instead_of(limits)
        self.reason: StopReason | None = None
        self.decided: StopReason | None = None
        """The reviewer's decision, if they approved or rejected."""
        self.wish: RequestedRevision | None = None
        self._is_reviewed = is_reviewed
        self._hears = hears and not is_reviewed
        self.is_last = False
        """Whether no further draft is made, unless a person asks for one."""
        self._approved: Judgement | None = None
        is_noisy = task is not None and not task.is_exact
        quality = QualityFilter(task.learnt) if task and is_noisy else None
        tolerance = limits.tolerance if quality else limits.tolerance or 0.0
        self.ranking = Ranking(tolerance, quality)
        self._shown: tuple[Judgement, Caveat | None] | None = None
        """The result by now, as it was reported."""
        self.number = first
        """The number of the next iteration."""
        self._stale = 0
        self._turn = Turn()
        self._escapes = escapes
        self._standstill: StopReason | None = None
        """Why it would have ended; then one draft is made in another way."""

    @classmethod
    def of(cls, task: Task, limits: Limits, own: LimitOverrides | None = None) -> Self:
        """Return a search for a task; a draft that it starts from is iteration 0.

        A draft on which feedback is followed first is not judged.
        """
        first = 1 if task.draft is None or task.feedback is not None else 0
        return cls(
            limits,
            first=first,
            own=own,
            is_reviewed=task.is_reviewed,
            hears=not task.is_long,  # a revision of the whole is no work for one prompt
            task=task,
            escapes=limits.escape and not task.part,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        """Suppress a stop from outside when a draft was judged: the best is kept.

        A failed step of the draft that is tried before the end is suppressed too: the search ends
        without that draft.
        """
        if isinstance(error, StepError) and self.is_escaping:
            self.reason = self._standstill
            return True
        return isinstance(error, Stopped) and self.ranking.best is not None

    @property
    def is_escaping(self) -> bool:
        """Whether the next draft is made in another way, once, before the search ends."""
        return self._escapes and self._standstill is not None

    @property
    def writers(self) -> range:
        """The numbers of the generator whose turn it is, and of those after it."""
        last = 1 if self.task is None else self.task.generators
        return range(self._turn.generator, last + 1)

    def _turn_after(self, draft: Draft) -> Turn:
        """Return whose turn it is: that of who took over where no reply could be used."""
        is_new = draft.generator > self._turn.generator
        return Turn(draft.generator, self.number - 1) if is_new else self._turn

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
        turn = self._turn_after(scored.draft)
        decide = partial(self._decide, self._stale if turn is self._turn else 0, turn)
        gain, judgement = await self._taken(scored, self.number)
        self.number += 1
        decide(gain, judgement)
        await self._reviewed(judgement, decide, judgement.iteration)

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
                taken.append((await self._taken(scored, number, is_beside=True))[1])
                self._turn = self._turn_after(scored.draft)
        first = self.number
        self.number += len(drafts)
        self._decide_on_samples()
        if taken:
            best = max(taken, key=lambda judged: judged.rank)
            await self._reviewed(best, lambda *_: self._decide_on_samples(), first)

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

    async def _confirmed(
        self, task: Task, confidence: float, scored: Scored, number: int, *, is_beside: bool
    ) -> Scored:
        """Judge a draft again while it passes by luck too probably; its score is the mean.

        Without another opinion, the draft keeps the score that it has.
        """
        said = [scored.critique]
        while (
            len(said) <= CONFIRMED
            and scored.passes(self._goal)
            and self.ranking.chance(scored, self._goal, is_beside=is_beside) < confidence
        ):
            at = f"iterations/{number}/confirm/{len(said)}"
            try:
                critique, _ = await within(at, critiqued(task, scored.draft.text))
            except Refusal:
                break
            said.append(critique)
            scored = averaged(task, scored, said)
        return scored

    async def _taken(
        self, scored: Scored, number: int, *, is_beside: bool = False
    ) -> tuple[float, Judgement]:
        """Record a judged draft and report it; return by how much it raised the best.

        A draft that passes by luck too probably is judged again first.
        """
        task, confidence = self.task, self.limits.confidence
        if task is not None and confidence is not None and not task.is_long:
            scored = await self._confirmed(task, confidence, scored, number, is_beside=is_beside)
        path = f"iterations/{number}"
        findings = (*scored.findings, *scored.critique.findings)
        issues = self._issues_of(scored.draft.parent).next(path, findings)
        vetoes, lighter = error_weights(scored.findings)
        lighter = 0.0 if scored.score_from == "agreement" else lighter  # else errors outvote votes
        judgement = Judgement(scored, number, path, issues, (vetoes, lighter))
        gain = self.ranking.add(judgement, self._goal, is_beside=is_beside)
        await self._told(judgement)
        return gain, judgement

    def _issues_of(self, parent: str | None) -> IssueTracker:
        """Return the issues of a parent: judged here, or shown to a reviewer elsewhere."""
        if self.wish and self.wish.of.path == parent:
            return self.wish.of.issues
        return self.ranking.issues_of(parent)

    async def _told(self, judgement: Judgement) -> None:
        best = self.ranking.best
        assert best is not None  # it was ranked
        lower = self._lower(best)
        before, self._shown = self._shown, (best, lower)
        is_same = before is not None and before[0] is best and before[1] == lower
        limits = await Judged(
            judgement.path, judgement, best, self._own.threshold, self._estimate(), lower, is_same
        )
        self.limits = self._own.instead_of(limits)
        self.ranking.prefer_passing(self._goal)

    async def given(self) -> str | None:
        """Return a text that a person gave as the first draft in a pause before it."""
        if not self._hears or self.number != 1 or self.ranking.best is not None:
            return None
        reply = await Heard("given", self.number)
        return None if reply is None else reply.draft

    async def _heard(self, last: Judgement, first: int) -> None:
        """Follow what a person said in a pause after a draft, or several from `first`."""
        is_over = self.is_last or self.reason is not None
        reply = await Heard(f"iterations/{first}/said", self.number, is_over)
        if reply is not None:
            self.limits = self._own.instead_of(reply.limits or self.limits)
            self.wish = RequestedRevision(self.ranking.judged_at(reply.of) or last, reply)
            self.reason = None

    async def _reviewed(
        self, judgement: Judgement, decide: Callable[[float, Judgement], None], first: int
    ) -> None:
        """Have a draft reviewed, if this search is reviewed, and apply the decision.

        Otherwise apply what a person said who paused the refinement.
        """
        self.wish = None
        if self._hears:
            await self._heard(judgement, first)
        if not self._is_reviewed:
            return
        try:
            reply = await Review(f"{judgement.path}/review", judgement, "each_iteration")
        except Stopped:
            self.settle(None)  # the reason is the stop from outside, not a stop rule
            raise
        self.limits = self._own.instead_of(reply.limits or self.limits)
        if reply.score is not None:
            rated = judgement.rated(reply.score)
            gain = self.ranking.change(judgement, rated, self._goal)
            await self._told(rated)
            decide(gain, rated)
            judgement = rated
        if reply.action == "approve":
            self._approved, self.decided = judgement, StopReason.APPROVED
        elif reply.action == "reject":
            self.decided = StopReason.REJECTED
        elif reply.action != "rate":
            self.wish = RequestedRevision(judgement, reply)
        if reply.action != "rate":
            self.reason = self.decided

    def outcome(self) -> Outcome:
        """Return the best judged draft. Raises `Stopped` when nothing was judged."""
        best = self._approved or self.ranking.best
        if best is None:
            raise Stopped
        good = best.scored.passes(self.limits.threshold)
        return Outcome(
            best,
            self.reason,
            good and self.decided is not StopReason.REJECTED,
            estimate=self._estimate(),
            lesson=self.ranking.lesson(),
            lower=self._lower(best),
        )

    def _lower(self, best: Judgement) -> Caveat | None:
        """Return why the best draft has a lower score than another one; None if it has not."""
        top = self.ranking.highest_above(best)
        if top is None:
            return None
        why = "critics err, and by all scores together this draft is probably as good"
        if self._approved:
            why = "a reviewer approved this draft"
        elif top.kind != best.kind:
            why = _ruled_out_by(top, best)
        elif self.limits.tolerance is not None:
            why = "stop.tolerance allows that"
        return lower_than(top, best, why)

    @property
    def _goal(self) -> float:
        """The score at which it stops."""
        return self.limits.threshold if self._own.goal is None else self._own.goal

    def _estimate(self) -> QualityEstimate | None:
        best = self._approved or self.ranking.best
        return None if best is None else self.ranking.estimate(best, self._goal)

    def _met(self) -> StopReason | None:
        best, confidence = self.ranking.best, self.limits.confidence
        if best is None:
            return None
        is_review = best.scored.score_from == "review"  # only the threshold applies to it
        goal = self.limits.threshold if is_review else self._goal
        if best.scored.lacks_only_proof(goal):  # there is nothing to revise
            return StopReason.INCOMPLETE
        if not best.scored.passes(goal):
            return None
        if is_review:
            return StopReason.THRESHOLD_MET
        is_sure = confidence is None or self.ranking.chance_of(best, goal) >= confidence
        return self._own.reached if is_sure else None

    def _decide(self, stale: int, turn: Turn, gain: float, last: Judgement) -> None:
        self._turn = turn
        self._stale = 0 if is_improvement(gain, self.limits.min_improvement) else stale + 1
        reason = self._unless_escalating(self._why_stop(last), last.iteration)
        self.reason = self._unless_escaping(reason, last)

    def _unless_escalating(self, reason: StopReason | None, number: int) -> StopReason | None:
        """Return why it ends after draft `number`; None where the next generator goes on instead.

        That is at a standstill of those before it, and after enough drafts without one that passes.
        """
        turn, task = self._turn, self.task
        if task is None or turn.generator >= task.generators:
            return reason
        is_stuck = reason is None and number - turn.since >= task.escalate_after
        if is_stuck or reason in STANDSTILLS:
            self._turn, self._stale = Turn(turn.generator + 1, number), 0
            return None
        return reason

    def _unless_escaping(self, reason: StopReason | None, last: Judgement) -> StopReason | None:
        """Return why it ends; at a standstill None, once, and then that unless it got better."""
        if last.scored.draft.escape is None:
            self._standstill = reason if reason in STANDSTILLS and self._escapes else None
            return None if self._standstill else reason
        self._escapes = False
        is_better = reason is None and self.ranking.best is last
        return self._standstill if reason in (None, *STANDSTILLS) and not is_better else reason

    def _decide_on_samples(self) -> None:
        self.reason = self._met()
        if self.reason is None and self.number > self.limits.max_iterations:
            self.reason = StopReason.MAX_ITERATIONS
        self.reason = self._unless_escalating(self.reason, self.number - 1)

    def _why_stop(self, last: Judgement) -> StopReason | None:
        if met := self._met():
            return met
        if last.iteration >= self.limits.max_iterations:
            return StopReason.MAX_ITERATIONS
        if self.ranking.is_stable(self.limits):
            return StopReason.STABLE
        if self.ranking.oscillates(self.limits):
            return StopReason.OSCILLATING
        patience = self.limits.patience
        if patience is not None and self._stale >= patience:
            return StopReason.PLATEAU
        return None
