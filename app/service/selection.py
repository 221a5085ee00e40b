"""Picking the generator by what its candidates have achieved per dollar.

Thompson sampling (Thompson 1933, Biometrika 25; arXiv 1707.02038) where every draw has a price: the
sampled share of passes is divided by the cost, as for budgeted bandits (arXiv 1505.00146, which
samples the cost as well; here its mean stands). Each candidate is picked about as often as it is
likely to be the best: one about which little is known is tried, one that is known to be worse not.
"""

from collections.abc import Mapping, Sequence
from random import Random

from app.contract.events import Draw, Drawn
from app.contract.providers import cost_usd
from app.contract.requests import ModelChoice, RefinementRequest
from app.service.model_roles import Choices, playing
from app.store import Achieved, Store

NOMINAL_INPUT_TOKENS = 6_000
NOMINAL_OUTPUT_TOKENS = 3_000
"""What each role is taken to consume in a refinement, before a candidate has ended any."""

FLOOR_USD = 0.0001
"""A refinement that costs less, or nothing, counts as if it cost this much."""


class Selection:
    """Draws; chance comes from `rng`."""

    def __init__(self, store: Store, rng: Random) -> None:
        self._store = store
        self._rng = rng

    async def pick(
        self, tenant: str, request: RefinementRequest, models: Choices
    ) -> tuple[Choices, Draw | None]:
        """Return the models with the drawn generator, and the draw; None where none is wanted."""
        candidates = request.models.candidates
        if not candidates:
            return models, None
        achieved = await self._store.achieved(tenant, candidates)
        others = [models[seat].model for seat in playing(request) if seat != "generator"]
        made = draw(achieved, others, self._rng)
        return {**models, "generator": ModelChoice(model=made.picked)}, made


def draw(achieved: Mapping[str, Achieved], others: Sequence[str], rng: Random) -> Draw:
    """Return which of the models in `achieved` is picked; `others` are called beside it.

    The price of every candidate must be known.
    """
    candidates = tuple(_drawn(model, it, others, rng) for model, it in achieved.items())
    best = max(candidates, key=lambda it: it.sampled / it.mean_cost_usd)
    return Draw(candidates=candidates, picked=best.model)


def _drawn(model: str, achieved: Achieved, others: Sequence[str], rng: Random) -> Drawn:
    mean = achieved.mean_cost_usd
    expected = _nominal_usd(model, others) if mean is None else mean
    sampled = rng.betavariate(1 + achieved.passed, 1 + achieved.ended - achieved.passed)
    return Drawn(
        model=model,
        passed=achieved.passed,
        ended=achieved.ended,
        mean_cost_usd=max(expected, FLOOR_USD),
        sampled=sampled,
    )


def _nominal_usd(model: str, others: Sequence[str]) -> float:
    costs = (cost_usd(it, NOMINAL_INPUT_TOKENS, NOMINAL_OUTPUT_TOKENS) for it in (model, *others))
    return sum(cost or 0.0 for cost in costs)
