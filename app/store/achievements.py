"""What the models that were drawn have achieved: counted by the append that ends a refinement.

One hash per tenant, with fields such as `passed openai:gpt-5-mini`. append.lua writes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from redis.asyncio import Redis

from app.store import keys

FIELDS = ("ended", "passed", "priced", "cost_usd")


@dataclass(frozen=True, slots=True)
class Achieved:
    """Sums over the refinements that a model was drawn for and that succeeded or failed.

    `cost_usd` is what the `priced` ones cost together: those that judged a draft and whose cost is
    known. One that failed at once cost little, and says nothing about the price of an answer.
    """

    ended: int = 0
    passed: int = 0
    priced: int = 0
    cost_usd: float = 0.0

    @property
    def mean_cost_usd(self) -> float | None:
        """The mean cost of one refinement; None before there is any."""
        return self.cost_usd / self.priced if self.priced else None


async def achieved(client: Redis, tenant: str, models: Sequence[str]) -> Mapping[str, Achieved]:
    """Return what each of these models has achieved for a tenant."""
    names = [f"{field} {model}" for model in models for field in FIELDS]
    values = iter(await client.hmget(keys.achieved(tenant), names))
    return {model: _read(list(islice(values, len(FIELDS)))) for model in models}


def _read(values: Sequence[bytes | str | None]) -> Achieved:
    ended, passed, priced, cost_usd = (value or 0 for value in values)
    return Achieved(int(ended), int(passed), int(priced), float(cost_usd))
