"""Everything that a request asks for: its strategy, and what goes before and after it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app.contract.criteria import AUTO
from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from workers.engine.briefs import Task
from workers.engine.checklist import with_checklist
from workers.engine.comparing import compared
from workers.engine.inner import informed
from workers.engine.moves import Play
from workers.engine.outputs import with_outputs
from workers.engine.reviewing import reviewed
from workers.engine.search import Outcome

Strategy = Callable[[Task, Limits, Any], Play[Outcome]]


async def whole(
    request: RefinementRequest, task: Task, limits: Limits, strategy: Strategy
) -> Outcome:
    """Play the strategy of a request, and return what it decided."""
    if request.criteria == AUTO:
        task = await with_checklist(task)
    when = request.review and request.review.when
    task = replace(task, is_reviewed=when == "each_iteration")
    played = _played(request, task, limits, strategy)
    outcome = await (compared(task, played) if request.compare else played)
    if request.outputs:
        outcome = await with_outputs(informed(task, outcome.observed), request.outputs, outcome)
    return outcome


async def _played(
    request: RefinementRequest, task: Task, limits: Limits, strategy: Strategy
) -> Outcome:
    """Play the strategy, and have its outcome reviewed where that was asked for."""
    outcome = await strategy(task, limits, request.strategy)
    if request.review and request.review.when == "before_completion":
        observed = outcome.observed
        outcome = await reviewed(request, informed(task, observed), limits, outcome)
        outcome = replace(outcome, observed=observed)
    return outcome
