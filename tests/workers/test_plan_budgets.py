"""A budget that admission lets pass buys a judged text, however the plan goes."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.contract.budget import estimate, least_tokens
from app.contract.judgement import Usage
from app.contract.requests import ModelChoice
from app.contract.tools import MAX_RESULT
from tests.engine.engine_driver import EngineDriver, request, verdict
from tests.engine.scripted_replies import plan, revised, step
from tests.workers.scripted_models import LOOK_UP
from workers.engine.moves import Ask, Call, Stopped, ToolResult
from workers.engine.strategies.plan_execute import Plan, Replan
from workers.play.driver import BudgetGuard

MODEL = ModelChoice(model="openai:gpt-5-mini", max_output_tokens=200)
MODELS = {"generator": MODEL, "critic": MODEL}
FULL = "word " * 200
"""What 200 tokens may come back as: 1,000 bytes."""


def full(text: str) -> str:
    """Return an answer of as many bytes as its tokens may have."""
    return text + " " * (len(FULL) - len(text))


WORDY = {**LOOK_UP, "parameters": {"description": "word " * 3_000}}


@dataclass
class BudgetedDriver(EngineDriver):
    """Every call consumes all that was set aside for it; what cannot be paid for is refused."""

    budget_guard: BudgetGuard = field(kw_only=True)
    max_tokens: int = field(kw_only=True)
    calls_tool: list[bool] = field(kw_only=True)
    spent: Usage = Usage()  # noqa: RUF009 - frozen

    def _asked(self, move: Ask) -> Any:
        limits = request(stop={"max_tokens": self.max_tokens}).limits()
        if not self.budget_guard.reserve(move, self.spent, limits):
            return Stopped()
        self.budget_guard.settle(move.path)
        asked = estimate(MODEL, len((move.prompt.system + move.prompt.user).encode()))
        self.spent += Usage(
            calls=1, input_tokens=asked.input_tokens, output_tokens=asked.output_tokens
        )
        steps = [step("Look.", "look_up", id=len(self.moves)) if it else "Think."
                 for it in self.calls_tool[:2]]  # fmt: skip
        if isinstance(move.prompt_request, Plan):
            return full(plan(*steps))
        if isinstance(move.prompt_request, Replan):
            return full(revised(*steps))
        return full(verdict(0.5)) if move.role == "critic" else FULL


def long_result(_: Call) -> ToolResult:
    return ToolResult(True, "x" * MAX_RESULT)


@pytest.mark.parametrize(
    "tools", [[], [LOOK_UP], [WORDY]], ids=["without tools", "a tool", "a wordy tool"]
)
@given(extra=st.integers(0, 40_000), calls_tool=st.lists(st.booleans(), min_size=1, max_size=2))
@settings(deadline=None)
def test_a_judged_text_comes_of_it(
    tools: list[dict[str, Any]], extra: int, calls_tool: list[bool]
) -> None:
    asked = request(strategy={"kind": "plan_execute"}, tools=tools, max_iterations=1)
    model = BudgetedDriver(
        iter(()),
        iter(()),
        tool=long_result,
        budget_guard=BudgetGuard(asked, MODELS),
        max_tokens=least_tokens(asked, MODELS) + extra,
        calls_tool=[it and bool(tools) for it in calls_tool],
    )
    outcome = model.play(asked)
    assert outcome.best.path == "iterations/1"
    assert "plan" in model.paths
    assert any(path.startswith("steps/1/") for path in model.paths)
    assert model.spent.input_tokens + model.spent.output_tokens <= model.max_tokens
