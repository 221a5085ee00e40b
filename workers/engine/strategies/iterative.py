"""The default loop: draft, critique, revise."""

from app.contract.limits import Limits
from app.contract.strategies.loops import IterativeStrategy
from workers.engine.drafting import improve
from workers.engine.prompts import Task
from workers.engine.search import Outcome, Search


async def iterative(task: Task, limits: Limits, _plan: IterativeStrategy) -> Outcome:
    """Draft, then critique and revise the best until it is good enough.

    Self-Refine, arXiv:2303.17651.
    """
    with Search.of(task, limits) as search:
        await improve(task, search)
    return search.outcome()
