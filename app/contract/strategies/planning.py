"""The strategy that makes a plan, and revises it when a step failed or something was learnt."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from app.contract.calls import Rates
from app.contract.errors import FieldConflict
from app.contract.reviews import A_WEEK_S
from app.contract.strategies import LanguageNeed, Strategy

if TYPE_CHECKING:
    from app.contract.requests import RefinementRequest


class PlanExecuteStrategy(Strategy):
    """Plan, carry out steps, observe, revise the plan, until the goal is met; then write.

    The task is the goal. A step is carried out by the model or by one of the request's `tools`,
    side by side with those that it does not need; the plan is revised when one failed, when
    something was learnt, before a call once anything was observed since it was planned, and when
    none remains. The verdict that the goal is met must quote the observations. The result is
    written from the observations, judged, and revised as in `iterative`. (Plan-and-Solve, arXiv
    2305.04091; ReAct, arXiv 2210.03629; replanning as in ADaPT, arXiv
    2311.05772.)
    """

    kind: Literal["plan_execute"]
    approval: Literal["before_call"] | None = Field(
        None,
        description="`before_call`: a reviewer is asked before a tool with `effects` is called."
        " Null: no one is asked.",
    )
    approval_timeout_s: float = Field(
        A_WEEK_S,
        gt=0,
        le=A_WEEK_S,
        description="Timeout of one approval in seconds; then the call is not made.",
    )
    max_steps: int = Field(8, ge=1, le=30, description="Maximum number of steps carried out.")
    revise: Literal["when_learnt", "each_step"] = Field(
        "when_learnt",
        description="When the plan is confirmed or revised. `when_learnt`: when a step failed, when"
        " something was learnt, and before a call once anything was observed since it was planned."
        " `each_step`: after each step, too; after steps side by side once.",
    )

    needs_language: ClassVar[LanguageNeed | None] = LanguageNeed(
        "plans and carries out steps", roles=("generator",)
    )
    judges_criteria: ClassVar[bool] = True
    uses_tools: ClassVar[bool] = True
    prepares: ClassVar[int] = 2  # the plan, and one step of it
    plan_steps: ClassVar[tuple[str, ...]] = ("plan", "replan")

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        planned = rates.ask * (2 * rates.turns(self.max_steps) + 1)
        return planned + rates.search(max_iterations, has_draft=draft is not None)

    def replies_in_prompt(self, draft: str | None) -> int:
        return self.max_steps + 1  # the observations, and the plan

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        if request.task is None:
            yield FieldConflict("/task", "`task` is required for plan_execute: it is the goal")
        if self.approval and not any(tool.effects for tool in request.tools):
            detail = "no tool of the request has `effects`: there is nothing to approve"
            yield FieldConflict("/strategy/approval", detail)

    def asks_before_calls(self) -> bool:
        return self.approval is not None
