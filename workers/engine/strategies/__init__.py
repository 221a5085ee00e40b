"""The strategies, one module each: `<kind>.py` holds the coroutine function of the same name.

A module may also define `review_policy(plan)`, if something other than the critics judges a draft
as a whole, or if it revises in its own way. Drafts that a reviewer asks for are then judged and
revised like any other.
"""

from functools import cache
from importlib import import_module
from types import ModuleType

from app.contract.drafts import in_order
from app.contract.judgement import OnFail
from app.contract.requests import RefinementRequest
from app.contract.strategies import Strategy
from workers.engine.moves import MoveCoroutine
from workers.engine.pipeline import StrategyFunction, whole
from workers.engine.prompt_requests import Task
from workers.engine.reviewing import ReviewPolicy
from workers.engine.search import Outcome


def function_of(kind: str) -> StrategyFunction:
    """Return the function that plays a strategy.

    It takes the task, the limits at the start, and the strategy's own parameters.
    """
    function: StrategyFunction = getattr(_module(kind), kind)
    return function


def review_policy_of(strategy: Strategy) -> ReviewPolicy:
    """Return how a draft that a reviewer asked for is judged and revised.

    Critics judge it unless the strategy's module defines `review_policy`.
    """
    own = getattr(_module(strategy.kind), "review_policy", None)
    policy: ReviewPolicy = ReviewPolicy() if own is None else own(strategy)
    return policy


@cache
def _module(kind: str) -> ModuleType:
    return import_module(f"{__name__}.{kind}")


def strategy_for(request: RefinementRequest) -> MoveCoroutine[Outcome]:
    """Return a fresh coroutine that plays a request under its own limits."""
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
    function, policy = function_of(request.strategy.kind), review_policy_of(request.strategy)
    return whole(request, task, request.limits(), function, policy)
