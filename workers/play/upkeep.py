"""What a worker does beside playing, all the time: each function is a task that never ends."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from redis.exceptions import RedisError

from app.store import ArchiveAway, ArchiveTransfer, WorkerStore
from app.telemetry import metrics
from workers.play.endpoints import PermitSource
from workers.play.live_text import TextPublisher
from workers.play.refinements import Refinements
from workers.play.waiting import Bulkhead

log = logging.getLogger(__name__)

RECOVER_EVERY_S = 0.5
BATCHES_EVERY_S = 1.0
FED_EVERY_S = 0.1
STRAYS_EVERY_S = 5.0
ANNOUNCED_PER_LEASE = 4
ENDED_EVERY_S = 1.0
ARCHIVE_EVERY_S = 1.0
ARCHIVE_AGAIN_S = 15.0
RESTART_AFTER_S = 0.5


async def drop_strays(
    store: WorkerStore, refining: Collection[str], every_s: float = STRAYS_EVERY_S
) -> None:
    """Give up what this worker holds and does not play, until cancelled.

    The lease of a living worker never ends. A claim whose end could not be written would be held
    for ever, so it is given up once it is found twice. One whose end a failover has lost ends again
    as it did.
    """
    before: set[str] = set()
    while True:
        await asyncio.sleep(every_s)
        try:
            found = await store.held() - set(refining)
            await store.restore(found)
            if strays := found & before - set(refining):
                log.warning("giving up %d refinements that are held and not played", len(strays))
                await store.drop(strays)
            before = found - strays
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)


async def announce(refinements: Refinements, lease_s: float) -> None:
    """Announce four times per lease which versions of the engine it plays, until cancelled."""
    while True:
        try:
            await refinements.announce()
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
        await asyncio.sleep(lease_s / ANNOUNCED_PER_LEASE)


async def recover(
    store: WorkerStore, is_idle: Callable[[], bool], is_gone: Callable[[str], bool]
) -> None:
    """Enqueue due refinements again and delete expired ones, until cancelled.

    Only an idle worker looks for queue entries that were lost. The lease of a worker that `is_gone`
    ends at once.
    """
    while True:
        try:
            before = store.orphaned
            recovered = await store.recover(is_idle(), is_gone)
            if recovered:
                metrics.RECOVERED.inc(recovered)
                log.info("recovered what was due or lost", extra={"refinements": recovered})
            if orphaned := store.orphaned - before:
                metrics.ORPHANED.inc(orphaned)
                counts = {"refinements": orphaned}
                log.warning("took over what a worker held that is gone", extra=counts)
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
        await asyncio.sleep(RECOVER_EVERY_S)


async def count_and_pack(store: WorkerStore, every_s: float = ENDED_EVERY_S) -> None:
    """Count what has ended in the sums, and pack its records, until cancelled."""
    while True:
        try:
            while await store.count_and_pack():
                pass
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
        await asyncio.sleep(every_s)


async def archive_ended(transfer: ArchiveTransfer, every_s: float = ARCHIVE_EVERY_S) -> None:
    """Move what has ended to the archive until cancelled; what fails is tried again."""
    while True:
        wait_s = every_s
        try:
            while await transfer.move_due():
                pass
        except ArchiveAway as error:
            log.warning("the archive cannot be used: %s", error)
            wait_s = ARCHIVE_AGAIN_S
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
        await asyncio.sleep(wait_s)


async def feed_batches(store: WorkerStore) -> None:
    """Begin requests of batches as there is room for them, until cancelled."""
    while True:
        try:
            due_s = await store.feed_batches()
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
            due_s = None
        wait_s = BATCHES_EVERY_S if due_s is None else min(due_s, BATCHES_EVERY_S)
        await asyncio.sleep(max(wait_s, FED_EVERY_S))


async def resume_parked(
    store: WorkerStore,
    models: PermitSource,
    bulkhead: Bulkhead,
    free_slots: Callable[[], int],
    every_s: float = RECOVER_EVERY_S,
) -> None:
    """Enqueue parked refinements as their models have permits for them, until cancelled.

    It takes no more than this worker has free slots for, and of one model no more than it has room
    for.
    """
    while True:
        try:
            free = free_slots()
            found = await store.parked(free) if free > 0 else {}
            bulkhead.parked(found)
            for model, parked in found.items():
                most = min(parked, free, bulkhead.room(model))
                permits = await models.permits(model, most) if most else 0
                resumed = await store.resume_parked(model, permits) if permits else 0
                bulkhead.resumed(model, resumed)
                free -= resumed
        except RedisError as error:
            log.warning("Redis is unavailable: %s", error)
        await asyncio.sleep(every_s)


async def heed_commands(store: WorkerStore, refinements: Refinements) -> None:
    """Apply commands to held refinements as they arrive, until cancelled."""
    async for refinement_id in store.commands():
        try:
            await refinements.look(refinement_id)
        except RedisError as error:
            log.warning("%s: cannot read a command from Redis: %s", refinement_id, error)


async def heed_watchers(store: WorkerStore, texts: TextPublisher) -> None:
    """Learn whose texts are watched, until cancelled."""
    async for ids in store.watched():
        texts.watched(ids)


async def keep_running(run: Callable[[], Awaitable[None]]) -> None:
    """Run a background task for ever: start it again when it fails, whatever the error is."""
    while True:
        try:
            await run()
        except Exception:
            log.exception("a background task failed and is started again")
        await asyncio.sleep(RESTART_AFTER_S)
