"""Keeping leases, finding refinements whose time is due, and heeding commands."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from redis.exceptions import RedisError

from app.store import WorkerStore
from workers.play.refinements import Refinements

log = logging.getLogger(__name__)

RENEWALS_PER_LEASE = 4
RECOVER_EVERY_S = 1.0


async def keep_leases(store: WorkerStore, refinements: Refinements, lease_s: float) -> None:
    """Renew every lease four times before it expires, for ever.

    It runs on the loop that plays the refinements: a loop that is stuck loses them, and should.
    """

    async def renew() -> None:
        for refinement_id in await store.renew(refinements.tokens()):
            await refinements.look(refinement_id)

    await _every(lease_s / RENEWALS_PER_LEASE, renew)


async def recover(store: WorkerStore, lease_s: float, is_idle: Callable[[], bool]) -> None:
    """Post what is due again, sweep what is kept no longer, for ever.

    After an outage every lease has expired; nothing is taken over until Redis has been up for one
    whole lease, so that its owners come back first. Queue entries that were lost are looked for
    only by a worker that is idle.
    """
    clock = asyncio.get_running_loop().time
    up_since = clock()

    async def look() -> None:
        nonlocal up_since
        try:
            if clock() - up_since >= lease_s:
                await store.recover(include_queued=is_idle())
            else:
                await store.ping()
        except RedisError:
            up_since = clock()
            raise

    await _every(RECOVER_EVERY_S, look)


async def heed_commands(store: WorkerStore, refinements: Refinements) -> None:
    """Look at every refinement in hand that a command was given for, for ever."""
    async for refinement_id in store.commands():
        try:
            await refinements.look(refinement_id)
        except RedisError as error:
            log.warning("%s: a command waits for Redis: %s", refinement_id, error)


async def _every(seconds: float, do: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await do()
        except RedisError as error:
            log.warning("Redis cannot be reached: %s", error)
