"""What models have achieved that were drawn: sums per tenant, kind, day, seat and model.

`tally` in prelude.lua adds to them, and takes back what a retry makes void.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from itertools import islice

from pydantic_core import to_json

from app.contract.criteria import AUTO
from app.contract.requests import RefinementRequest
from app.contract.values import value
from app.store import keys
from app.store.codec import decode_sums
from app.store.committer import Committer
from app.store.learning import Agreement
from app.store.state import NewRefinement

REMEMBERED_DAYS = 30
"""For how many days it counts what a model has achieved, today included."""

DIGITS = 16


@value(slots=True)
class Achieved:
    """What a model has achieved in the refinements that it was drawn for and that have ended.

    `gain` and `squares` are sums of the scores reached, minus that of the client's draft, and of
    their squares. `cost_usd` is the total cost of the `priced` ones: those that judged a draft and
    whose cost is known. One that failed at once cost little, which is no measure of the cost of an
    answer.
    """

    ended: int = 0
    passed: int = 0
    gain: float = 0.0
    squares: float = 0.0
    priced: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Achieved") -> "Achieved":
        """Add both."""
        return Achieved(*(getattr(self, it) + getattr(other, it) for it in ACHIEVED_FIELDS))

    @property
    def mean_cost_usd(self) -> float | None:
        """The mean cost of one refinement; None if there is none."""
        return self.cost_usd / self.priced if self.priced else None

    @property
    def mean_gain(self) -> float | None:
        """The mean gain of one refinement; None if there is none."""
        return self.gain / self.ended if self.ended else None


ACHIEVED_FIELDS = tuple(it.name for it in fields(Achieved))

Candidates = Mapping[str, Sequence[str]]
"""Models by the seat for which one of them is drawn."""


def kind_of_task(request: RefinementRequest) -> str:
    """Return the name of what refinements have in common that models are compared in.

    That is their strategy, their criteria and their preset.
    """
    rubric = [[it.name, it.description, it.weight] for it in request.judged_on()]
    criteria = AUTO if request.criteria == AUTO else rubric
    told = to_json([request.strategy.kind, criteria, request.preset])
    return hashlib.sha256(told).hexdigest()[:DIGITS]


def drawn_in(new: NewRefinement) -> bytes | None:
    """Return what the record says of the models that were drawn; None if nothing is learnt."""
    queued = new.queued
    if not new.request.learn or (queued.draw is None and not queued.draws):
        return None
    draws = queued.draws if queued.draw is None else {"generator": queued.draw, **queued.draws}
    kind = next(iter(draws.values())).kind
    return to_json({"kind": kind, "models": {seat: it.picked for seat, it in draws.items()}})


async def achieved_by(
    committer: Committer, tenant: str, kind: str, candidates: Candidates
) -> dict[str, dict[str, Achieved]]:
    """Return by seat and model what has been achieved in the last 30 days."""
    today = datetime.now(UTC).date() + timedelta(days=1)  # the clock of Redis may be ahead
    pairs = [(seat, model) for seat, models in candidates.items() for model in models]
    names = [f"{field} {seat} {model}" for seat, model in pairs for field in ACHIEVED_FIELDS]
    days = [today - timedelta(days=back) for back in range(REMEMBERED_DAYS + 1)]
    stored = await asyncio.gather(
        *(committer.execute("HMGET", keys.achieved(tenant, kind, day), *names) for day in days)
    )
    total = dict.fromkeys(pairs, Achieved())
    for values in map(iter, stored):
        for pair in pairs:
            total[pair] += _achieved(values)
    return {
        seat: {model: total[seat, model] for model in models} for seat, models in candidates.items()
    }


def _achieved(values: Iterator[bytes | None]) -> Achieved:
    ended, passed, gain, squares, priced, cost_usd = (
        float(it or 0) for it in islice(values, len(ACHIEVED_FIELDS))
    )
    return Achieved(int(ended), int(passed), gain, squares, int(priced), cost_usd)


async def agreements_of(
    committer: Committer, tenant: str, critics: Sequence[str]
) -> dict[str, Agreement]:
    """Return how critics agreed with people and validators, all kinds together."""
    if not critics:
        return {}
    names = [f"pairs {critic}" for critic in critics]
    stored = await committer.execute("HMGET", keys.trust(tenant), *names)
    sums = (() if it is None else decode_sums(it) for it in stored)
    return {critic: Agreement(*it) for critic, it in zip(critics, sums, strict=True)}
