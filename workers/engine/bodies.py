"""The body of a stage, pass or part: the strategy that refines it."""

from dataclasses import replace

from app.contract.limits import Limits
from app.contract.strategies import Strategy
from workers.engine.pipeline import function_of
from workers.engine.prompt_requests import Task
from workers.engine.search import LimitOverrides, Outcome
from workers.engine.sub_search import below, ruled


async def refined(
    path: str, task: Task, limits: Limits, own: LimitOverrides, body: Strategy
) -> Outcome:
    """Write or improve a text below `path` with a strategy, under limits of its own.

    What they do not name it has from what it is a part of: the threshold and the stop rules. It is
    not reviewed. Raises `Stopped` or `StepError` when nothing was judged there.
    """
    task = replace(task, is_reviewed=False)
    part = function_of(body.kind)(task, own.instead_of(limits), body)
    done = await below(path, ruled(own, part))
    verdict = done.best.scored.caveats  # the whole is judged, and not verified, once more
    unverified = (it.under(done.best.path) for it in verdict if it.code == "unverified")
    return replace(done, caveats=(*done.caveats, *unverified)).claiming(task.accepted)
