"""The usage of ended refinements: a hash of sums per tenant and day, listed in a sorted set."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from app.contract.usage import ModelUse, UsageCell
from app.store import keys
from app.store.committer import Committer

EPOCH = date(1970, 1, 1)
SCANNED = 1_000

TenantDay = tuple[str, date]
Cells = list[tuple[UsageCell, int, ModelUse]]
"""Each with the number of endings."""


async def usage_days(
    committer: Committer, tenant: str | None, first: date, last: date
) -> list[TenantDay]:
    """Return the days from `first` to `last` for which a tenant, or any, has usage."""
    bounds = ((it - EPOCH).days for it in (first, last))
    listed = await committer.execute("ZRANGEBYSCORE", keys.USAGE, *bounds)
    named = (it.decode().rsplit(":", 1) for it in listed)
    return [
        (name, EPOCH + timedelta(days=int(day))) for name, day in named if tenant in (None, name)
    ]


async def usage_of(committer: Committer, days: Sequence[TenantDay]) -> Cells:
    """Return the usage of some tenants' days."""
    names = (keys.usage(tenant, day) for tenant, day in days)
    found = await asyncio.gather(*(committer.execute("HGETALL", it) for it in names))
    return await asyncio.to_thread(_cells, days, found)


def _cells(days: Sequence[TenantDay], found: Sequence[Mapping[bytes, bytes]]) -> Cells:
    cells: Cells = []
    for (tenant, day), stored in zip(days, found, strict=True):
        for name, sums in stored.items():
            outcome, strategy, key, model = name.decode().split(" ", 3)
            endings, *use = map(int, sums.split())
            cell = UsageCell(day, tenant, "" if key == "-" else key, model, strategy, outcome)
            cells.append((cell, endings, ModelUse(*use)))
    return cells


async def unlist_usage(committer: Committer, tenant: str) -> None:
    """Remove the days of a tenant from the list; the hashes themselves are deleted elsewhere."""
    cursor: int | None = None
    while cursor != 0:
        found = await committer.execute(
            "ZSCAN", keys.USAGE, cursor or 0, "MATCH", f"{tenant}:*", "COUNT", SCANNED
        )
        cursor = int(found[0])
        if listed := [name for name, _ in found[1]]:
            await committer.execute("ZREM", keys.USAGE, *listed)
