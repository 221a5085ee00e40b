"""What a request would consume: never more than said, and usually about as much."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from app.contract.estimates import RefinementEstimate
from app.contract.judgement import Usage
from app.contract.models import ModelChoice
from app.contract.output_tokens import FEWEST_BYTES_PER_TOKEN, tokens_in
from app.contract.requests import RefinementRequest
from app.contract.strategies import STRATEGIES
from app.service.estimates import estimated
from benchmarks.examples import player_of
from benchmarks.playing import AnsweringModel
from tests.engine.costly_models import DRAFTS, KINDS, CostlyDriver, spent_on
from tests.engine.test_calls import AROUND, worst
from workers.engine.moves import Ask
from workers.models.port import ModelCall, ModelReply
from workers.play.budget import BudgetGuard

UNKNOWN = 16_384
FACTOR = 2
"""Between the calls that are expected and those of an example."""


def choices(request: RefinementRequest, **settings: Any) -> dict[str, ModelChoice]:
    choice = ModelChoice(**{"model": "openai:gpt-5-mini", **settings})
    return dict.fromkeys(("generator", "critic", *request.critics.seats()), choice)


@dataclass
class Spending:
    """Counts what a driver asks, with the limits that are sent, and makes texts that long."""

    guard: BudgetGuard
    request: RefinementRequest
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def asked(self, move: Ask, reply: str) -> str:
        limits = self.request.limits()
        bounded = self.guard.reserve(move, Usage(), limits)
        assert bounded is not None
        most = bounded.max_output_tokens or 0
        self.calls += 1
        self.input_tokens += tokens_in(move.prompt.system) + tokens_in(move.prompt.user)
        self.output_tokens += most
        if reply and move.prompt.asks_for_text:
            return reply.ljust(most * FEWEST_BYTES_PER_TOKEN, "x")
        return reply


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(
    ("kind", "has_draft"), [(kind, has_draft) for kind in KINDS for has_draft in DRAFTS[kind]]
)
def test_no_refinement_consumes_more_than_it_was_said_to_at_most(
    kind: str, has_draft: bool, around: str
) -> None:
    asked = spent_on(kind, has_draft=has_draft, **AROUND[around])
    used = choices(asked, max_output_tokens=600)
    most = estimated(asked, used, UNKNOWN).at_most
    model = worst(asked)
    spending = Spending(BudgetGuard(asked, used, UNKNOWN), asked)
    spoiled = model.spoiled
    model.spoiled = lambda move, reply: spending.asked(move, str(spoiled(move, reply)))
    model.play(asked)
    assert spending.calls == most.calls
    assert spending.input_tokens <= most.input_tokens
    assert spending.output_tokens <= most.output_tokens


def test_limits_that_follow_the_text_are_within_what_is_said() -> None:
    for kind in ("iterative", "stepwise", "chain_of_verification"):
        asked = spent_on(kind, has_draft=False)
        for name in ("openai:gpt-5-mini", "anthropic:claude-haiku-4-5", "router:unknown"):
            used = choices(asked, model=name)
            most = estimated(asked, used, UNKNOWN).at_most
            spending = Spending(BudgetGuard(asked, used, UNKNOWN), asked)
            model = CostlyDriver(iter(()), iter(()), score=lambda _: 0.5, spoiled=spending.asked)
            model.play(asked)
            assert spending.output_tokens <= most.output_tokens, (kind, name)
            assert spending.input_tokens <= most.input_tokens, (kind, name)


@dataclass
class Counted:
    """Counts the calls of an example, and about their tokens."""

    model: AnsweringModel
    calls: int = 0
    tokens: list[tuple[int, int]] = field(default_factory=list)

    async def complete(self, call: ModelCall) -> ModelReply:
        reply = await self.model.complete(call)
        prompt = call.prompt.system + call.prompt.user
        self.tokens.append((tokens_in(prompt), tokens_in(reply.text)))
        return reply


@pytest.mark.parametrize("kind", STRATEGIES)
async def test_an_example_makes_about_the_expected_calls_and_none_beyond_the_maximum(
    kind: str,
) -> None:
    player = player_of(kind)
    model = player.model = Counted(player.model)
    await player.play()
    said: RefinementEstimate = estimated(player.request, choices(player.request), UNKNOWN)
    calls = len(model.tokens)
    assert calls / FACTOR <= said.expected.calls <= calls * FACTOR
    assert calls <= said.at_most.calls
    assert sum(asked for asked, _ in model.tokens) <= said.at_most.input_tokens
    assert sum(written for _, written in model.tokens) <= said.at_most.output_tokens


def test_less_is_expected_than_there_is_at_most() -> None:
    for kind in KINDS:
        for has_draft in DRAFTS[kind]:
            asked = spent_on(kind, has_draft=has_draft)
            said = estimated(asked, choices(asked), UNKNOWN)
            assert said.expected.calls < said.at_most.calls
            assert said.expected.tokens < said.at_most.tokens
            assert said.expected.cost_usd
            assert said.at_most.cost_usd
            assert said.expected.cost_usd < said.at_most.cost_usd


def test_budgets_bound_what_is_said_at_most() -> None:
    asked = spent_on("iterative", has_draft=True)
    stop = asked.stop.model_copy(update={"max_tokens": 9_000, "max_cost_usd": 0.01})
    bounded = asked.model_copy(update={"stop": stop})
    said = estimated(bounded, choices(asked), UNKNOWN)
    assert (said.at_most.tokens, said.at_most.cost_usd) == (9_000, 0.01)
    assert said.expected == estimated(asked, choices(asked), UNKNOWN).expected


def test_the_editor_consumes_nothing_and_an_unknown_price_is_no_price() -> None:
    asked = spent_on("iterative", has_draft=True)
    edited = estimated(asked, choices(asked, model="offline:editor"), UNKNOWN).at_most
    assert (edited.calls > 0, edited.tokens, edited.cost_usd) == (True, 0, 0)
    unpriced = estimated(asked, choices(asked, model="router:unknown"), UNKNOWN)
    assert unpriced.expected.tokens > 0
    assert unpriced.expected.cost_usd is None
