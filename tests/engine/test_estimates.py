"""What a request would consume: about as much as said, and in 95 of 100 cases no more."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from app.contract.budget import (
    BYTES_PER_TOKEN,
    REWRITTEN_BYTES_PER_TOKEN,
    RefinementEstimate,
    tokens_in,
)
from app.contract.judgement import Usage
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.contract.strategies import STRATEGIES
from app.service.estimates import estimated
from benchmarks.examples import player_of
from benchmarks.playing import AnsweringModel
from tests.engine.costly_models import DRAFTS, KINDS, CostlyDriver, spent_on
from workers.engine.moves import Ask
from workers.engine.prompts import Reason, Solve, Write
from workers.models.port import ModelCall, ModelReply
from workers.play.limits import BudgetGuard, reply_size

UNKNOWN = 16_384
SEEDS = 4
FACTOR = 2
"""Between the calls that are expected and those of an example."""


def choices(request: RefinementRequest, **settings: Any) -> dict[str, ModelChoice]:
    choice = ModelChoice(**{"model": "openai:gpt-5-mini", **settings})
    return dict.fromkeys(("generator", "critic", *request.critics.seats()), choice)


@dataclass
class Verbose:
    """A model that is as verbose as chance wills, asked for by a driver; it counts its tokens.

    How verbose it is and how long it thinks differ by refinement (standard deviation 0.3 of the
    logarithm) and by reply (0.5); a revision is 5 % longer than its draft, give or take a quarter.
    One reply in twenty cannot be read, and scores go up and down.
    """

    request: RefinementRequest
    luck: Random
    tokens: int = 0
    _verbosity: float = 1.0

    def play(self) -> int:
        """Play the request and return the tokens of all prompts and replies."""
        self._verbosity = self.luck.lognormvariate(0, 0.3)
        self._guard = BudgetGuard(self.request, choices(self.request), UNKNOWN)
        driver = CostlyDriver(
            iter(()), iter(()), score=lambda _: self.luck.uniform(0.3, 1), spoiled=self.replied
        )
        driver.play(self.request)
        return self.tokens

    def replied(self, move: Ask, reply: str) -> str:
        bounded = self._guard.reserve(move, Usage(), self.request.limits())
        assert bounded is not None
        size = reply_size(move.prompt_request, self.request).expected
        thought: float = max(0, bounded.expected_output_tokens - size)
        is_first = isinstance(move.prompt_request, Write | Solve | Reason)
        if move.prompt.asks_for_text and not is_first:
            size = size * BYTES_PER_TOKEN // REWRITTEN_BYTES_PER_TOKEN  # it was given too high
            longer = self.luck.lognormvariate(0.05, 0.25)
        else:
            longer = self._verbosity * self.luck.lognormvariate(0, 0.5)
        written = size * longer
        thought *= self._verbosity * self.luck.lognormvariate(0, 0.5)
        prompt = len(move.prompt.system) + len(move.prompt.user)
        self.tokens += round(written + thought) + prompt // REWRITTEN_BYTES_PER_TOKEN
        if not move.prompt.asks_for_text:
            return reply if self.luck.random() > 0.05 else ""
        return reply.ljust(round(written) * REWRITTEN_BYTES_PER_TOKEN, "x")


def shares(kind: str, *, is_endless: bool) -> list[float]:
    """Return what refinements of a kind consumed in relation to what 95 of 100 are said to."""
    around: dict[str, Any] = {} if is_endless else {"threshold": 0.85, "stop": {}}
    found: list[float] = []
    for has_draft in DRAFTS[kind]:
        asked = spent_on(kind, has_draft=has_draft, **around)
        most = estimated(asked, choices(asked)).p95.tokens
        found += [Verbose(asked, Random(seed)).play() / most for seed in range(SEEDS)]
    return [it for it in found if it]  # a validator that finds nothing asks nobody


@pytest.mark.long
@pytest.mark.parametrize("is_endless", [False, True])
def test_of_100_refinements_95_consume_no_more_than_is_said(is_endless: bool) -> None:
    found = [it for kind in KINDS for it in shares(kind, is_endless=is_endless)]
    assert sum(it <= 1 for it in found) / len(found) >= 0.95


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
    said: RefinementEstimate = estimated(player.request, choices(player.request))
    calls = len(model.tokens)
    assert calls <= said.cap.calls
    assert calls / FACTOR <= said.expected.calls <= calls * FACTOR
    assert calls <= said.p95.calls
    assert sum(asked for asked, _ in model.tokens) <= said.p95.input_tokens
    assert sum(written for _, written in model.tokens) <= said.p95.output_tokens


def test_less_is_expected_than_95_of_100_consume() -> None:
    for kind in KINDS:
        for has_draft in DRAFTS[kind]:
            asked = spent_on(kind, has_draft=has_draft)
            said = estimated(asked, choices(asked))
            assert said.expected.calls < said.p95.calls
            assert said.expected.tokens < said.p95.tokens
            assert said.expected.cost_usd
            assert said.p95.cost_usd
            assert said.expected.cost_usd < said.p95.cost_usd


def test_budgets_bound_what_is_said_and_are_the_cap() -> None:
    asked = spent_on("iterative", has_draft=True)
    stop = asked.stop.model_copy(update={"max_tokens": 9_000, "max_cost_usd": 0.01})
    bounded = asked.model_copy(update={"stop": stop})
    said = estimated(bounded, choices(asked))
    assert (said.p95.tokens, said.p95.cost_usd) == (9_000, 0.01)
    assert (said.cap.max_tokens, said.cap.max_cost_usd) == (9_000, 0.01)
    assert said.expected == estimated(asked, choices(asked)).expected


def test_the_editor_consumes_nothing_and_an_unknown_price_is_no_price() -> None:
    asked = spent_on("iterative", has_draft=True)
    edited = estimated(asked, choices(asked, model="offline:editor")).p95
    assert (edited.calls > 0, edited.tokens, edited.cost_usd) == (True, 0, 0)
    unpriced = estimated(asked, choices(asked, model="router:unknown"))
    assert unpriced.expected.tokens > 0
    assert unpriced.expected.cost_usd is None
