"""The strategy that makes a plan, and changes it with what is observed."""

from typing import Literal

from pydantic import Field

from app.contract import Contract


class PlanExecuteStrategy(Contract):
    """Plan, carry out the next step, observe, revise the plan, until the goal is met; then write.

    The task is the goal. A step is done by the model or by one of the request's `tools`; a failed
    tool changes the plan. That the goal is met is a verdict that must quote what was observed. The
    result is written from what was observed, judged, and revised like `iterative`. (Plan-and-Solve,
    arXiv 2305.04091; ReAct, arXiv 2210.03629; replanning as in ADaPT, arXiv 2311.05772.)
    """

    kind: Literal["plan_execute"]
    max_steps: int = Field(8, ge=1, le=30, description="Steps carried out at most.")
