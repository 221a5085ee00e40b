"""What tenants spend in a day: workers report it, and learn what is left of the quotas."""

from collections.abc import Awaitable, Callable, Mapping

from redis.asyncio import Redis

from app.contract.access import Quotas
from app.contract.values import value
from app.store.access import decode_quotas
from app.store.scripts import SPEND, run


@value(slots=True)
class Spent:
    """Tokens, and dollars as far as costs are known."""

    tokens: int = 0
    cost_usd: float = 0.0


NOTHING_SPENT = Spent()


@value(slots=True)
class DaySpending:
    """What a tenant has spent today, and when the day of UTC ends."""

    spent: Spent
    quotas: Quotas
    ends_in_s: float

    @property
    def is_limited(self) -> bool:
        """Whether there is a quota of the day."""
        return (self.quotas.tokens_per_day, self.quotas.cost_usd_per_day) != (None, None)

    @property
    def is_over(self) -> bool:
        """Whether a quota of the day is reached."""
        tokens, cost_usd = self.quotas.tokens_per_day, self.quotas.cost_usd_per_day
        return (tokens is not None and self.spent.tokens >= tokens) or (
            cost_usd is not None and self.spent.cost_usd >= cost_usd
        )


ReportSpending = Callable[[int, Mapping[str, Spent]], Awaitable[dict[str, DaySpending]]]
"""Takes the number of a report and what was spent since the last one; raises redis errors."""


async def report_spending(
    client: Redis, worker: str, number: int, spent: Mapping[str, Spent]
) -> dict[str, DaySpending]:
    """Add what a worker has spent; return the sums of these tenants over all workers.

    A report that is sent again with its number adds nothing.
    """
    words = [word for name, it in spent.items() for word in (name, it.tokens, f"{it.cost_usd:.9f}")]
    left_ms, *found = await run(client, SPEND, worker, number, *words)
    sums = zip(spent, found[::3], found[1::3], found[2::3], strict=True)
    return {
        name: DaySpending(
            Spent(int(tokens), float(cost_usd)), decode_quotas(quotas or None), int(left_ms) / 1000
        )
        for name, tokens, cost_usd, quotas in sums
    }
