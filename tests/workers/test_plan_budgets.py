"""A budget that admission lets pass buys a judged text, however the plan goes."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.contract.budget import first_judgement, tokens_in
from app.contract.judgement import Usage
from app.contract.limits import Limits
from app.contract.models import ModelChoice
from app.contract.tools import MAX_RESULT
from tests.engine.engine_driver import EngineDriver, request, verdict
from tests.engine.scripted_replies import plan, revised, step
from tests.workers.scripted_models import LOOK_UP
from workers.engine.moves import Ask, Call, MoveCoroutine, Stopped, ToolResult
from workers.engine.strategies.plan_execute import Plan, Replan
from workers.play.limits import BudgetGuard

CHOICES = [
    ModelChoice(model="openai:gpt-5-mini", max_output_tokens=200),
    ModelChoice(model="openai:gpt-5-mini"),
]


def full(text: str, tokens: int) -> str:
    """Return an answer of as many bytes as its tokens may have."""
    return text + " " * (5 * tokens - len(text))


WORDY = {**LOOK_UP, "parameters": {"description": "word " * 3_000}}


@dataclass
class BudgetedDriver(EngineDriver):
    """Every call consumes all that was set aside for it; what cannot be paid for is refused."""

    budget_guard: BudgetGuard = field(kw_only=True)
    max_tokens: int = field(kw_only=True)
    calls_tool: list[bool] = field(kw_only=True)
    needs: list[str] | None = field(kw_only=True)
    spent: Usage = Usage()  # noqa: RUF009 - frozen
    begun: dict[str, Ask | None] = field(default_factory=dict)

    def _reserved(self, move: Ask) -> Ask | None:
        limits = request(stop={"max_tokens": self.max_tokens}).limits()
        return self.budget_guard.reserve(move, self.spent, limits)

    def _together(self, parts: tuple[MoveCoroutine[Any], ...], limits: Limits) -> Any:
        """All of them begin before one is answered; each has one move."""
        moves = [part.send(None) for part in parts]
        self.moves += moves
        self.budget_guard.branches = len(parts)
        self.begun = {it.path: self._reserved(it) for it in moves if isinstance(it, Ask)}
        answers = [self._answer(it, limits) for it in moves]
        self.begun, self.budget_guard.branches = {}, 1
        return tuple(map(self._ended, parts, answers))

    @staticmethod
    def _ended(part: MoveCoroutine[Any], answer: Any) -> Any:
        try:
            part.throw(answer) if isinstance(answer, Stopped) else part.send(answer)
        except StopIteration as done:
            return done.value
        raise AssertionError

    def _asked(self, move: Ask) -> Any:
        granted = self.begun[move.path] if move.path in self.begun else self._reserved(move)
        if granted is None:
            return Stopped()
        self.budget_guard.settle(move.path)
        asked = tokens_in(move.prompt.system) + tokens_in(move.prompt.user)
        tokens = granted.max_output_tokens or 0
        self.spent += Usage(calls=1, input_tokens=asked, output_tokens=tokens)
        steps = [
            (step("Look.", "look_up", id=len(self.moves)) if it else step("Think."))
            | {"needs": self.needs}
            for it in self.calls_tool[:2]
        ]
        if isinstance(move.prompt_request, Plan):
            return full(plan(*steps), tokens)
        if isinstance(move.prompt_request, Replan):
            return full(revised(*steps), tokens)
        words = "".join(f"{number % 10_000:04} " for number in range(tokens))
        return full(verdict(0.5), tokens) if move.role == "critic" else f"{words.strip()}."


def long_result(_: Call) -> ToolResult:
    return ToolResult(True, "x" * MAX_RESULT)


@pytest.mark.long
@pytest.mark.parametrize(
    "tools", [[], [LOOK_UP], [WORDY]], ids=["without tools", "a tool", "a wordy tool"]
)
@pytest.mark.parametrize("choice", CHOICES, ids=["a limit of its own", "as the text needs"])
@given(
    extra=st.integers(0, 40_000),
    calls_tool=st.lists(st.booleans(), min_size=1, max_size=2),
    needs=st.sampled_from([None, []]),
)
@settings(deadline=None)
def test_a_judged_text_comes_of_it(
    choice: ModelChoice,
    tools: list[dict[str, Any]],
    extra: int,
    calls_tool: list[bool],
    needs: list[str] | None,
) -> None:
    models = {"generator": choice, "critic": choice}
    asked = request(strategy={"kind": "plan_execute"}, tools=tools, max_iterations=1)
    least = sum(call.tokens for call in first_judgement(asked, models))
    model = BudgetedDriver(
        iter(()),
        iter(()),
        tool=long_result,
        budget_guard=BudgetGuard(asked, models),
        max_tokens=least + extra,
        calls_tool=[it and bool(tools) for it in calls_tool],
        needs=needs,
    )
    outcome = model.play(asked)
    assert outcome.best.path == "iterations/1"
    assert "plan" in model.paths
    assert any(path.startswith("steps/1/") for path in model.paths)
    assert model.spent.input_tokens + model.spent.output_tokens <= model.max_tokens
