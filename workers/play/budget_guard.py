"""Tokens and money: counted at every depth, reserved before a call, settled from its reply."""

from collections.abc import Mapping
from functools import cached_property
from itertools import chain

from app.contract.budget import Estimate, estimate, to_judge, to_write
from app.contract.judgement import Usage
from app.contract.limits import Limits
from app.contract.providers import cost_usd
from app.contract.requests import ModelChoice, RefinementRequest
from workers.engine.moves import Ask
from workers.engine.prompts.drafting import Derive


class BudgetGuard:
    """Says whether a call can be paid for, with enough left to judge one draft.

    A call that prepares one leaves enough to write and judge it.
    """

    def __init__(self, request: RefinementRequest, models: Mapping[str, ModelChoice]) -> None:
        self._request = request
        self._models = models
        self._reserved: dict[str, Ask] = {}

    def reserve(self, ask: Ask, spent: Usage, limits: Limits) -> bool:
        """Set aside what a call may consume, and for a draft what judging it may, until settled.

        False, and nothing set aside, when that and what is spent would exceed `limits`.
        """
        if not self._affords(ask, spent, limits):
            return False
        self._reserved[ask.path] = ask
        return True

    def waits_for_others(self, ask: Ask) -> bool:
        """Return whether calls in flight hold what this one lacks."""
        return bool(self._reserved.keys() - {ask.path})

    def settle(self, path: str) -> None:
        """Free what was set aside; the reply's usage says what was consumed."""
        self._reserved.pop(path, None)

    def _affords(self, ask: Ask, spent: Usage, limits: Limits) -> bool:
        if limits.max_tokens is None and limits.max_cost_usd is None:
            return True
        asks = (*self._reserved.values(), ask)
        needed = list(chain.from_iterable(map(self._needed, asks)))
        tokens = spent.input_tokens + spent.output_tokens + sum(it.tokens for it in needed)
        if limits.max_tokens is not None and tokens > limits.max_tokens:
            return False
        return limits.max_cost_usd is None or _cost(spent, needed) <= limits.max_cost_usd

    @cached_property
    def _judging(self) -> tuple[Estimate, ...]:
        """What judging a draft may consume; nobody asks where there is no budget."""
        return to_judge(self._request, self._models)

    def _needed(self, ask: Ask) -> tuple[Estimate, ...]:
        call = self._at_most(ask)
        if ask.prepares:
            asked = len((ask.prompt.system + ask.prompt.user).encode())
            return (call, *to_write(self._request, self._models, asked))
        writes_a_draft = ask.role == "generator" and not isinstance(ask.prompt_request, Derive)
        return (call, *self._judging) if writes_a_draft else (call,)

    def _at_most(self, ask: Ask) -> Estimate:
        text = ask.prompt.system + ask.prompt.user
        return estimate(self._models[ask.seat], len(text.encode()))


def _cost(spent: Usage, needed: list[Estimate]) -> float:
    """Return the cost in US dollars; one that is unknown exceeds every limit."""
    costs = [cost_usd(it.model, it.input_tokens, it.output_tokens) for it in needed]
    known = [cost for cost in (spent.cost_usd, *costs) if cost is not None]
    return sum(known) if len(known) == len(costs) + 1 else float("inf")
