"""The body of a stage, pass or part: the strategy that refines it."""

from dataclasses import replace

from app.contract.limits import Limits
from app.contract.reviews import ReviewPlan
from app.contract.status import StopReason
from app.contract.strategies import Strategy
from workers.engine.moves import Refusal, Rejected
from workers.engine.pipeline import function_of, review_policy_of
from workers.engine.prompt_requests import Task
from workers.engine.reviewing import signed_off
from workers.engine.search import LimitOverrides, Outcome
from workers.engine.sub_search import below, given_up, ruled


async def refined(
    path: str,
    task: Task,
    limits: Limits,
    own: LimitOverrides,
    body: Strategy,
    review: ReviewPlan | None = None,
) -> Outcome:
    """Write or improve a text below `path` with a strategy, under limits of its own.

    What they do not name it has from what it is a part of: the threshold and the stop rules. It is
    reviewed by its own plan alone. Raises `Stopped` or `StepError` when nothing was judged there,
    and `Rejected` if a reviewer rejected it.
    """
    task = replace(task, is_reviewed=review is not None and review.when == "each_iteration")
    part = _played(task, own.instead_of(limits), body, review)
    try:
        done = await below(path, ruled(own, part, path, review))
        if done.reason is StopReason.REJECTED:
            raise Rejected
    except Refusal as refusal:
        refusal.caveats = refusal.caveats or (given_up(path, refusal),)
        raise
    verdict = done.best.scored.caveats  # the whole is judged, and not verified, once more
    unverified = (it.under(done.best.path) for it in verdict if it.code == "unverified")
    return replace(done, caveats=(*done.caveats, *unverified)).claiming(task.accepted)


async def _played(task: Task, limits: Limits, body: Strategy, review: ReviewPlan | None) -> Outcome:
    outcome = await function_of(body.kind)(task, limits, body)
    if review is not None and review.when == "before_completion":
        policy = review_policy_of(body)
        outcome = await signed_off(body, policy, task, limits, outcome, is_part=True)
    return outcome
