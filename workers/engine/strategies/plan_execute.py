"""A plan that changes with what is observed, and a text written from the observations."""

from dataclasses import replace

from app.contract.limits import Limits
from app.contract.requests import ContextDocument
from app.contract.strategies.planning import PlanExecuteStrategy
from workers.engine.drafting import propose
from workers.engine.judging import judge
from workers.engine.moves import within
from workers.engine.planning import as_documents, pursued
from workers.engine.prompt_requests import Task
from workers.engine.search import Outcome, Search
from workers.engine.sub_search import going_on, informed, passes_as_it_is


async def plan_execute(task: Task, limits: Limits, plan: PlanExecuteStrategy) -> Outcome:
    """Plan, carry out the next step, observe, revise the plan; then write from what was observed.

    Plan-and-Solve (arXiv:2305.04091) with the observations of ReAct (arXiv:2210.03629); a step that
    fails changes the plan, as in ADaPT (arXiv:2311.05772). The text is judged and revised as in
    `iterative`, with the observations added to its context. A client's own draft is judged first,
    informs the plan, and is revised afterwards.
    """
    observed: tuple[ContextDocument, ...] = ()
    with Search.of(task, limits) as search:
        if await passes_as_it_is(task, search):
            return search.outcome()
        observed = as_documents(await pursued(going_on(task, search), plan.max_steps))
        knowing = informed(task, observed)
        for at in search.iterations():
            draft = await within(at, propose(knowing, search))
            await search.judged(await within(at, judge(knowing, draft)))
    return replace(search.outcome(), observed=observed)
