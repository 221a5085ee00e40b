"""Which cell a worker serves: the one that lacks workers most."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

from redis.exceptions import RedisError

from app.contract.values import value
from app.settings import Settings
from app.store.redis import keys
from app.store.redis.connection import renewal_client

LOOK_S = 2.0


@value(slots=True)
class CellLoad:
    """How many refinements wait in a cell, and the names of its workers."""

    waiting: int
    workers: tuple[str, ...]


async def cell_loads(settings: Settings) -> dict[int, CellLoad]:
    """Return the load of each cell that answers."""
    found = await asyncio.gather(
        *(_load(settings.in_cell(number).redis_url) for number in range(settings.cells)),
        return_exceptions=True,
    )
    for load in found:
        if isinstance(load, BaseException) and not isinstance(load, RedisError | OSError):
            raise load
    return {number: load for number, load in enumerate(found) if isinstance(load, CellLoad)}


async def _load(url: str) -> CellLoad:
    async with renewal_client(url, LOOK_S) as client:
        seconds, _ = await client.time()
        waiting = await client.zcard(keys.WAITING)
        workers: Any = await client.zrangebyscore(keys.WORKERS, seconds * 1000, "+inf")
        return CellLoad(waiting, tuple(sorted(name.decode() for name in workers)))


def neediest(found: Mapping[int, CellLoad], machine: str, nth: int, together: int = 0) -> int:
    """Return the cell that the `nth` worker of a machine serves, counted from 0.

    Workers that start `together` go to cells one after the other, as if those before them ran
    already; names of workers of the machine begin with its name.
    """
    before = sum(name.startswith(machine) for load in found.values() for name in load.workers)
    order = sorted(found)
    Random(f"{machine}{together}").shuffle(order)  # noqa: S311 - others begin elsewhere
    counts = {number: len(found[number].workers) for number in order}

    def need(number: int) -> tuple[bool, float]:
        return counts[number] == 0, (found[number].waiting + 1) / (counts[number] + 1)

    for _ in range(max(0, nth - before)):
        counts[max(order, key=need)] += 1
    return max(order, key=need)


def gives_way(found: Mapping[int, CellLoad], worker: str) -> bool:
    """Return whether this worker should serve another cell, since one has no worker at all.

    Only the last by name does so, in the cell with most workers.
    """
    workers = [load.workers for _, load in sorted(found.items())]
    most = max(map(len, workers), default=0)
    if () not in workers or most < 2:
        return False
    fullest = next(names for names in workers if len(names) == most)
    return fullest[-1] == worker


async def cell_to_serve(settings: Settings, machine: str, together: int, nth: int) -> int:
    """Return `HONE_CELL`, or the cell that needs this worker most; 0 while none answers."""
    if settings.cells == 1 or settings.cell is not None:
        return settings.cell or 0
    found = await cell_loads(settings)
    return neediest(found, machine, nth, together) if found else 0
