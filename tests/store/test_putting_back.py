"""A refinement that a worker cannot play is put back, and somebody else takes it."""

from collections.abc import Sequence

import pytest
from redis.asyncio import Redis

from app.contract.errors import RefinementNotFound
from app.contract.versions import ENGINE_VERSION
from app.store import LATER, Fenced, Store, UnreadableRecord, WorkerStore
from app.store.redis import keys
from tests.store.store_harness import TENANT, be_up, claim, expire_lease, started, submit


async def journaled(redis: Redis, refinement_id: str) -> Sequence[object]:
    """Return the attempts, the status and the number of entries."""
    return await redis.hmget(keys.SUMMARY + refinement_id, "attempt", "status", "last_event")


async def let_it_be_due(redis: Redis, refinement_id: str) -> None:
    await redis.zadd(keys.DUE, {refinement_id: 1})


async def test_it_leaves_the_queue_and_is_due_again_in_a_moment(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await submit(store)
    await be_up(redis)
    await worker.put_back(refinement_id, "2")
    assert await redis.zscore(keys.WAITING, refinement_id) is None
    assert await worker.check_due(10, include_queued=True) == (0, ())
    await let_it_be_due(redis, refinement_id)
    checked, jobs = await worker.check_due(10, include_queued=False)
    assert (checked, [it.refinement_id for it in jobs]) == (1, [refinement_id])
    held = await claim(worker, refinement_id, job=2)
    assert (held.claimed.attempt, held.claimed.resumed) == (1, False)


async def test_one_whose_worker_died_keeps_its_attempts(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    before = await journaled(redis, held.id)
    await worker.put_back(held.id, LATER)
    assert await journaled(redis, held.id) == before
    assert await worker.check_due(10, include_queued=False) == (0, ())


async def test_what_a_worker_holds_what_has_ended_and_what_is_gone_stay_as_they_are(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    canceled = await submit(store)
    await store.cancel(TENANT, canceled)
    before = await redis.zrange(keys.DUE, 0, -1, withscores=True)
    for refinement_id in (held.id, canceled, "ref_unknown"):
        await worker.put_back(refinement_id, "2")
    assert await redis.zrange(keys.DUE, 0, -1, withscores=True) == before
    assert await store.administration.unplayable() == ()


async def test_a_version_is_named_while_it_is_asked_for_and_nobody_plays_it(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await submit(store)
    await worker.put_back(refinement_id, "2")
    await worker.announce([1])
    assert await store.administration.unplayable() == ("2",)
    await worker.announce([1, 2])
    assert await store.administration.unplayable() == ()
    await redis.zadd(keys.PLAYABLE, {"2": 1})
    assert await store.administration.unplayable() == ("2",), "its last worker is gone"
    await redis.zadd(keys.UNPLAYABLE, {"2": 1})
    assert await store.administration.unplayable() == ()


async def test_an_announcement_never_shortens_another(worker: WorkerStore, redis: Redis) -> None:
    far = 4_000_000_000_000
    await redis.zadd(keys.PLAYABLE, {"1": far})
    await worker.announce([1])
    assert await redis.zscore(keys.PLAYABLE, "1") == far


async def test_a_record_says_for_which_version_of_the_engine_it_was_made(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await submit(store)
    assert (
        await redis.hget(keys.SUMMARY + refinement_id, "engine_version") == b"%d" % ENGINE_VERSION
    )
    await redis.hset(keys.SUMMARY + refinement_id, "engine_version", "7")
    assert (await worker.load(refinement_id)).submitted.engine_version == 7


async def test_what_cannot_be_read_says_where(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await redis.xadd(
        keys.JOURNAL + held.id,
        {"type": "refinement.stopping", "at": 1, "data": '{"reason":"x"}'},
        id="3-0",
    )
    with pytest.raises(UnreadableRecord, match=r"event 3, refinement\.stopping: reason"):
        await worker.load(held.id)
    with pytest.raises(RefinementNotFound):
        await worker.load("ref_unknown")


@pytest.mark.parametrize(("field", "value"), [("status", "suspended"), ("stopping", "bored")])
async def test_a_worker_drops_what_a_later_release_has_moved_on(
    store: Store, worker: WorkerStore, redis: Redis, field: str, value: str
) -> None:
    held = await started(store, worker)
    await redis.hset(keys.SUMMARY + held.id, field, value)
    with pytest.raises(Fenced, match="later release"):
        await held.journal.look()
