"""A person's word before completion, for every strategy."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.contract.limits import Limits
from app.contract.status import StopReason
from workers.engine.drafting import Revised, propose
from workers.engine.judging import judge
from workers.engine.moves import (
    Draft,
    Judged,
    Judgement,
    MoveCoroutine,
    Review,
    Scored,
    Stopped,
    within,
)
from workers.engine.prompt_requests import Task
from workers.engine.search import LimitOverrides, Outcome, RequestedRevision, Search
from workers.engine.sub_search import below

MOST_ROUNDS = 50
"""How often a reviewer can send an outcome back."""

WHOLE = ("iterations/", "reviews/")
"""Where drafts are judged as a whole; elsewhere they are judged as what a part of the work made."""

GOALS = (StopReason.THRESHOLD_MET, StopReason.VALIDATORS_PASSED)


@dataclass(frozen=True, slots=True)
class ReviewPolicy:
    """How a strategy has a draft judged as a whole, and how it revises one."""

    judge: Callable[[Task, Draft], MoveCoroutine[Scored]] = judge
    own: LimitOverrides = LimitOverrides()  # noqa: RUF009 - frozen
    revised: Revised | None = None


async def reviewed(policy: ReviewPolicy, task: Task, limits: Limits, outcome: Outcome) -> Outcome:
    """Put an outcome before a reviewer until they ask for no other draft.

    What they ask for is made and judged below `reviews/1`, `reviews/2` ..., and is the outcome that
    they see next: they asked for it, whatever ranks higher. Told to stop, the outcome stands.
    """
    for number in range(1, MOST_ROUNDS + 1):
        path = f"reviews/{number}"
        try:
            word = await Review(path, outcome.best, "before_completion")
            limits = word.limits or limits
            outcome = _under(word.limits, outcome)
            if word.score is not None:
                outcome = await _rated(outcome, word.score)
            if word.action == "rate":
                return outcome
            if word.action == "approve":
                return replace(outcome, reason=StopReason.APPROVED)
            if word.action == "reject":
                return replace(outcome, reason=StopReason.REJECTED, passed=False)
            best = outcome.best
            best = replace(best, path=f"/{best.path}", issues=best.issues.under(""))
            again = _again(policy, task, limits, RequestedRevision(best, word))
            outcome = _kept(outcome.missing if word.draft is None else (), await below(path, again))
        except Stopped:
            return outcome
    return outcome


def _kept(missing: tuple[str, ...], done: Outcome) -> Outcome:
    """Return an outcome of which parts are still missing."""
    return replace(done, missing=missing, passed=done.passed and not missing)


def _under(limits: Limits | None, outcome: Outcome) -> Outcome:
    """Return an outcome that passes or does not under these limits.

    What was stopped before it could be judged as a whole does not.
    """
    if limits is None:
        return outcome
    best = outcome.best
    is_judged = best.path.startswith(WHOLE) and not outcome.missing
    passed = is_judged and best.scored.passes(limits.threshold)
    is_contradicted = outcome.reason in GOALS and not passed
    reason = StopReason.COMPLETED if is_contradicted else outcome.reason
    return replace(outcome, passed=passed, reason=reason)


async def _rated(outcome: Outcome, score: float) -> Outcome:
    """Put a reviewer's score in the place of the outcome's own, and tell it."""
    best = outcome.best.rated(score)
    prefix, _, number = best.path.rpartition("iterations/")
    told = _told(replace(best, path=f"iterations/{number}", issues=best.issues.under("")))
    limits = await (within(prefix.removesuffix("/"), told) if prefix else told)
    return _under(limits, replace(outcome, best=best))


async def _told(judgement: Judgement) -> Limits:
    return await Judged(judgement.path, judgement, judgement)


async def _again(
    policy: ReviewPolicy, task: Task, limits: Limits, wish: RequestedRevision
) -> Outcome:
    """Make one more draft as the reviewer wishes, and judge it as a whole."""
    with Search(limits, own=policy.own) as search:
        search.wish = wish
        at = search.upcoming
        draft = await within(at, propose(task, search, revised=policy.revised))
        await search.judged(await within(at, policy.judge(task, draft)))
        search.settle(StopReason.COMPLETED)
    return search.outcome()
