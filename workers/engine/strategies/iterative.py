"""The default loop: draft, critique, revise."""

from app.contract.limits import Limits
from app.contract.strategies.loops import IterativeStrategy
from workers.engine.drafting import propose
from workers.engine.judging import judge
from workers.engine.moves import within
from workers.engine.prompt_requests import Task
from workers.engine.search import Outcome, Search


async def iterative(task: Task, limits: Limits, _plan: IterativeStrategy) -> Outcome:
    """Draft, then critique and revise the best until it is good enough.

    Self-Refine, arXiv:2303.17651.
    """
    with Search.of(task, limits) as search:
        for at in search.iterations():
            draft = await within(at, propose(task, search))
            scored = await within(at, judge(task, draft))
            await search.judged(scored)
    return search.outcome()
