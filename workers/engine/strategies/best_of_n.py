"""Breadth first: several drafts at once, and the best of them."""

from dataclasses import replace

from app.contract.limits import Limits
from app.contract.status import Caveat, StopReason
from app.contract.strategies.loops import BestOfNStrategy
from workers.engine.drafting import heeded, improve, judged_draft
from workers.engine.moves import play_parts
from workers.engine.prompts import Task
from workers.engine.search import Outcome, Search


async def best_of_n(task: Task, limits: Limits, plan: BestOfNStrategy) -> Outcome:
    """Write n drafts at once, judge each, and return or refine the best.

    Best-of-n (rejection sampling, arXiv:2009.01325); with `refine` the rest of the iterations go
    into revising the best (arXiv:2408.03314). A client's own draft is judged first, and the n are
    then revisions of it. A draft that fails uses up its iteration number and nothing else.
    """
    caveats: tuple[Caveat, ...] = ()
    with Search.of(task, limits) as search:
        if task.draft is not None:
            await search.judged(await judged_draft(task, search))
            await heeded(task, search)
        if search.reason is None:
            search.is_last = not plan.refine
            paths = search.side_by_side(plan.n)
            sampled = replace(task, is_sampled=True)
            parts = [judged_draft(sampled, search, at=at) for at in paths]
            drawn = await play_parts("samples", parts)
            caveats = drawn.left_out(paths)
            await search.sampled(drawn.replies)
            if not plan.refine:
                await heeded(task, search)
                search.settle(drawn.unless_stopped(StopReason.COMPLETED))
                return replace(search.outcome(), caveats=caveats)
        await improve(task, search)
    return replace(search.outcome(), caveats=caveats)
