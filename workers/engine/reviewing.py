"""Reviews before completion, for every strategy."""

from dataclasses import replace

from app.contract.limits import Limits
from app.contract.status import StopReason
from app.contract.strategies import Strategy
from app.contract.values import value
from workers.engine.drafting import First, Judging, Revised, judged_draft
from workers.engine.judging import judge
from workers.engine.moves import (
    Judged,
    Judgement,
    Review,
    ReviewedResult,
    Stopped,
    within,
)
from workers.engine.prompts import Task
from workers.engine.quality import scores_more
from workers.engine.search import (
    LimitOverrides,
    Outcome,
    RequestedRevision,
    Search,
    lower_than,
)
from workers.engine.sub_search import below, informed

MOST_ROUNDS = 50
"""How often a reviewer can send an outcome back."""


@value(slots=True)
class ReviewPolicy:
    """How a strategy judges a draft as a whole, and how it writes and revises one."""

    judge: Judging = judge
    own: LimitOverrides = LimitOverrides()
    first: First | None = None
    revised: Revised | None = None


async def signed_off(
    strategy: Strategy,
    policy: ReviewPolicy,
    task: Task,
    limits: Limits,
    outcome: Outcome,
    *,
    is_part: bool = False,
) -> Outcome:
    """Have the outcome of a strategy reviewed, with what was observed on the way as context."""
    if not strategy.judges_criteria:
        task = replace(task, criteria=())
    task = informed(task, outcome.observed)
    done = await reviewed(policy, task, limits, outcome, is_part=is_part)
    return replace(done, observed=outcome.observed)


async def reviewed(
    policy: ReviewPolicy, task: Task, limits: Limits, outcome: Outcome, *, is_part: bool = False
) -> Outcome:
    """Have an outcome reviewed until the reviewer asks for no other draft.

    A draft that they ask for is made and judged below `reviews/1`, `reviews/2` ..., and is the
    outcome that they see next, even if another ranks higher. When stopped, the last outcome stays.
    """
    top = outcome.best
    for number in range(1, MOST_ROUNDS + 1):
        path = f"reviews/{number}"
        try:
            result = None if is_part else _shown(task, outcome)
            reply = await Review(path, outcome.best, "before_completion", result)
            before, limits = limits.threshold, reply.limits or limits
            if limits.threshold != before:  # the chance was that of meeting the former one
                outcome = replace(outcome, estimate=None)
            outcome = outcome.decided_under(reply.limits)
            if reply.score is not None:
                before_rated, outcome = outcome, await _rated(outcome, reply.score)
                top = outcome.best if top is before_rated.best else top
            if reply.action == "rate":
                return outcome
            if reply.action == "approve":
                return replace(outcome, reason=StopReason.APPROVED)
            if reply.action == "reject":
                return replace(outcome, reason=StopReason.REJECTED, passed=False)
            best = outcome.best
            best = replace(best, path=f"/{best.path}", issues=best.issues.under(""))
            again = _again(policy, task, limits, RequestedRevision(best, reply))
            done = await below(path, again)
            if scores_more(top, done.best):
                why = "a reviewer asked for this draft"
                done = replace(done, lower=lower_than(top, done.best, why))
            else:
                top = done.best
            outcome = done if reply.draft is not None else _lacking_as(outcome, done)
        except Stopped:  # what a part is followed by is not begun any more
            return replace(outcome, reason=None) if is_part else outcome
    return outcome


def _shown(task: Task, outcome: Outcome) -> ReviewedResult:
    outcome = outcome.claiming(task.accepted)
    return ReviewedResult(outcome.passed, outcome.missing, outcome.every_caveat, outcome.estimate)


def _lacking_as(before: Outcome, done: Outcome) -> Outcome:
    """Return a revision's outcome with what the work on the text before it lacks as well."""
    return replace(done, missing=before.missing, caveats=before.caveats)


async def _rated(outcome: Outcome, score: float) -> Outcome:
    """Replace the outcome's score with the reviewer's, and report it."""
    best = outcome.best.rated(score)
    prefix, _, number = best.path.rpartition("iterations/")
    told = _told(replace(best, path=f"iterations/{number}", issues=best.issues.under("")))
    limits = await (within(prefix.removesuffix("/"), told) if prefix else told)
    return replace(outcome, best=best, estimate=None, lower=None).decided_under(limits)


async def _told(judgement: Judgement) -> Limits:
    return await Judged(judgement.path, judgement, judgement)


async def _again(
    policy: ReviewPolicy, task: Task, limits: Limits, wish: RequestedRevision
) -> Outcome:
    """Make the draft that the reviewer requested, and judge it as a whole.

    The last of several generators writes it: a person's time is dearer than a model's.
    """
    if task.generators > 1:
        task = replace(task, writer=str(task.generators))
    with Search(limits, own=policy.own) as search:
        search.wish = wish
        await search.judged(await judged_draft(task, search, policy.judge, revised=policy.revised))
        search.settle(StopReason.COMPLETED)
    return search.outcome()
