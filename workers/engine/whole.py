"""Everything that a request asks for: its strategy, and what goes before and after it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from workers.engine.briefs import Task
from workers.engine.comparing import compared
from workers.engine.moves import Play
from workers.engine.reviewing import reviewed
from workers.engine.search import Outcome

Strategy = Callable[[Task, Limits, Any], Play[Outcome]]


async def whole(
    request: RefinementRequest, task: Task, limits: Limits, strategy: Strategy
) -> Outcome:
    """Play the strategy of a request, and return what it decided."""
    when = request.review and request.review.when
    task = replace(task, is_reviewed=when == "each_iteration")
    played = _played(request, task, limits, strategy)
    return await (compared(task, played) if request.compare else played)


async def _played(
    request: RefinementRequest, task: Task, limits: Limits, strategy: Strategy
) -> Outcome:
    """Play the strategy, and have its outcome reviewed where that was asked for."""
    outcome = await strategy(task, limits, request.strategy)
    if request.review and request.review.when == "before_completion":
        outcome = await reviewed(request, task, limits, outcome)
    return outcome
