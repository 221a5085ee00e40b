"""The strategies by their kind. One file each."""

from app.contract.drafts import in_order
from app.contract.judgement import OnFail
from app.contract.requests import RefinementRequest
from workers.engine.moves import MoveCoroutine
from workers.engine.pipeline import StrategyFunction, whole
from workers.engine.prompt_requests import Task
from workers.engine.search import Outcome
from workers.engine.strategies.best_of_n import best_of_n
from workers.engine.strategies.chain_of_verification import chain_of_verification
from workers.engine.strategies.critique import critique
from workers.engine.strategies.iterative import iterative
from workers.engine.strategies.multi_pass import multi_pass
from workers.engine.strategies.nested import nested
from workers.engine.strategies.plan_execute import plan_execute
from workers.engine.strategies.reasoning_revision import reasoning_revision
from workers.engine.strategies.self_consistency import self_consistency
from workers.engine.strategies.self_correction import self_correction
from workers.engine.strategies.stepwise import stepwise

STRATEGIES: dict[str, StrategyFunction] = {
    "iterative": iterative,
    "critique": critique,
    "self_correction": self_correction,
    "best_of_n": best_of_n,
    "multi_pass": multi_pass,
    "stepwise": stepwise,
    "chain_of_verification": chain_of_verification,
    "self_consistency": self_consistency,
    "reasoning_revision": reasoning_revision,
    "plan_execute": plan_execute,
    "nested": lambda task, limits, plan: nested(task, limits, plan, STRATEGIES[plan.body.kind]),
}
"""Each is given the task, the limits at the start and its own parameters from the contract."""


def strategy_for(request: RefinementRequest) -> MoveCoroutine[Outcome]:
    """Return a fresh play of the strategy that the request names, under the limits it asks for."""
    task = Task(
        instruction=request.task,
        draft=request.draft,
        criteria=request.judged_on(),
        context=request.context,
        critics=request.critics,
        tools=request.tools,
        edits=request.edits,
        locked=in_order(request.draft, request.locked),
        has_validators=bool(request.validators),
        demanding=sum(it.on_fail is not OnFail.WARN for it in request.validators),
        schemas=tuple(schema for it in request.validators for schema in it.json_schemas().values()),
    )
    return whole(request, task, request.limits(), STRATEGIES[request.strategy.kind])
