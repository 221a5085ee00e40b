"""Whoever goes missing is found: what is due is queued again, ended or swept."""

from typing import cast

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from app.contract.errors import RefinementNotFound
from app.contract.status import Status, StopReason
from app.settings import Settings
from app.store import Store, WorkerStore, open_worker_store
from app.store.redis import keys
from app.store.state import Job
from tests.store.store_harness import (
    BROKEN,
    FAILED,
    TENANT,
    ListQueue,
    RefusedQueue,
    be_up,
    claim,
    doubt,
    everything,
    expire_lease,
    expire_retention,
    new,
    started,
    step,
    submit,
)
from tests.waiting import LEASE_S

LEASE_MS = round(LEASE_S * 1000)


async def test_a_lost_workers_refinement_is_queued_again_and_resumed(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    assert await worker.recover(include_queued=False) == 0
    await expire_lease(redis, held.id)
    assert await worker.recover(include_queued=False) == 1
    assert await redis.lrange(ListQueue.key, -1, -1) == [f"{held.id}-2".encode()]
    assert (await claim(worker, held.id, job=2)).token == 2


async def test_what_was_queued_again_is_not_queued_once_more(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    await worker.recover(include_queued=False)
    await redis.zadd(keys.DUE, {held.id: 1}, xx=True)  # much time goes by while all are busy
    assert await worker.recover(include_queued=False) == 0


async def test_what_was_taken_but_never_posted_is_due_again_after_a_lease(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    assert await worker.check_due(100, include_queued=False) == (1, (Job(held.id, f"{held.id}-2"),))
    assert await worker.check_due(100, include_queued=False) == (0, ())
    await redis.zadd(keys.DUE, {held.id: 1}, xx=True)
    assert await worker.check_due(100, include_queued=False) == (1, (Job(held.id, f"{held.id}-3"),))


async def test_posting_what_a_worker_has_already_leaves_its_lease_alone(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await worker.enqueuer.enqueue([Job(held.id, f"{held.id}-2")])
    assert await redis.zscore(keys.WAITING, held.id) is None
    await expire_lease(redis, held.id)
    assert await worker.recover(include_queued=False) == 1


async def test_a_lost_workers_canceling_refinement_is_canceled(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await store.cancel(TENANT, held.id)
    await expire_lease(redis, held.id)
    assert await worker.recover(include_queued=False) == 0
    snapshot = await store.snapshot(TENANT, held.id)
    assert (snapshot.status, snapshot.stop_reason) == (Status.CANCELED, StopReason.CANCELED)


async def test_a_queued_one_is_doubted_only_by_a_worker_that_found_the_queue_empty(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await submit(store)
    assert await worker.recover(include_queued=True) == 0
    await doubt(redis, refinement_id)
    assert await worker.recover(include_queued=False) == 0
    assert await worker.recover(include_queued=True) == 1
    assert await worker.recover(include_queued=True) == 0
    assert (await claim(worker, refinement_id, job=2)).token == 1


async def test_one_that_later_ones_have_overtaken_is_found_though_all_are_busy(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    lost, later = await submit(store), await submit(store)
    await doubt(redis, lost)
    await claim(worker, later)
    assert await worker.recover(include_queued=False) == 1
    assert await redis.lrange(ListQueue.key, -1, -1) == [f"{lost}-2".encode()]


async def test_one_that_was_overtaken_by_little_may_be_on_its_way_to_a_worker(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    slow, quick = await submit(store), await submit(store)
    await redis.zadd(keys.WAITING, {slow: 1, quick: 1_000})
    await claim(worker, quick)
    assert await worker.recover(include_queued=False) == 0


async def test_a_worker_that_comes_back_before_its_refinement_was_taken_keeps_it(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await redis.zadd(keys.WORKERS, {"worker-1": 1})
    await worker.renew()
    await be_up(redis)
    assert await worker.recover(include_queued=False) == 0
    await held.journal.append([step()])


async def test_nothing_is_taken_until_workers_have_reached_redis_for_half_a_lease(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    await redis.hincrby(keys.UP, "seen", -LEASE_MS)  # an outage as long as a lease
    assert await worker.recover(include_queued=False) == 0
    await redis.hincrby(keys.UP, "since", -LEASE_MS // 2)
    assert await worker.recover(include_queued=False) == 1


async def test_no_lease_outlasts_a_clock_that_was_set_back(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    name, hour_ms = f"holder of {held.id}", 3_600_000
    seconds, _ = await redis.time()
    await redis.zadd(keys.WORKERS, {name: seconds * 1000 + hour_ms})
    await redis.hset(keys.UP, "seen", seconds * 1000 + hour_ms)
    await worker.recover(include_queued=False)
    expires = await redis.zscore(keys.WORKERS, name)
    assert expires is not None
    seconds, _ = await redis.time()
    assert expires < (seconds + 1) * 1000 + LEASE_MS


async def test_batches_and_webhooks_wait_no_longer_for_a_clock_that_was_set_back(
    worker: WorkerStore, redis: Redis
) -> None:
    hour_later = ((await redis.time())[0] + 3_600) * 1000
    for name in (keys.BATCHES, keys.OUTBOX):
        await redis.zadd(name, {"due": hour_later - 1_000, "later": hour_later + 60_000})
    await redis.hset(keys.UP, "seen", hour_later)
    await worker.recover(include_queued=False)
    seconds, _ = await redis.time()
    for name in (keys.BATCHES, keys.OUTBOX):
        due, later = cast("list[float]", await redis.zmscore(name, ["due", "later"]))
        assert due <= (seconds + 1) * 1000
        assert later == due + 61_000


async def test_what_was_handed_back_but_not_posted_is_due_at_once(
    store: Store, worker: WorkerStore, settings: Settings, redis: Redis
) -> None:
    held = await started(store, worker)
    async with open_worker_store(settings, RefusedQueue(), "worker-2") as leaving:
        with pytest.raises(ResponseError):
            await leaving.hand_back(held.id, held.claimed.nonce)
    await be_up(redis)
    assert await worker.recover(include_queued=False) == 1


async def test_a_claim_by_an_older_job_overtakes_no_other(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    waiting, twice = await submit(store), await submit(store)
    await doubt(redis, twice)
    await worker.recover(include_queued=True)
    await doubt(redis, waiting)
    await claim(worker, twice, job=1)
    assert await worker.recover(include_queued=False) == 0


async def test_what_has_expired_is_swept_with_everything_derived_from_it(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    before = await everything(redis)
    created = await store.create(new(ticket="4711"), "key")
    held = await claim(worker, created.id)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    await worker.recover(include_queued=False)
    assert (await store.snapshot(TENANT, held.id)).status is Status.FAILED
    await expire_retention(redis, held.id)
    await worker.recover(include_queued=False)
    with pytest.raises(RefinementNotFound):
        await store.snapshot(TENANT, held.id)
    of_tenant = await redis.keys(keys.PROMPT_NONCE + "*")
    outlives_it = await redis.keys(keys.STATISTICS + "*")
    await redis.delete(ListQueue.key, keys.OVERTAKEN, keys.WORKERS, *of_tenant, *outlives_it)
    assert await everything(redis) == before


async def test_a_full_redis_gets_room_again_and_its_workers_keep_their_leases(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    await expire_retention(redis, held.id)
    await redis.zadd(keys.TO_PACK, {"ref_gone": 1})
    await redis.zadd(keys.WORKERS, {"worker-1": 1})
    await redis.zadd(keys.BATCHES, {"batch_of_which_nothing_is_left": 1})
    await redis.config_set("maxmemory", 1)
    try:
        await worker.renew()
        await worker.recover(include_queued=False)
        await worker.feed_batches()
        await worker.count_and_pack()
    finally:
        await redis.config_set("maxmemory", 0)
    assert await redis.exists(keys.SUMMARY + held.id, keys.BATCHES, keys.TO_PACK) == 0
    assert cast("float", await redis.zscore(keys.WORKERS, "worker-1")) > 1


async def test_more_than_one_run_can_take_are_all_taken(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    running = [await started(store, worker) for _ in range(60)]
    ended = [await started(store, worker) for _ in range(60)]
    for held in ended:
        await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
        await expire_retention(redis, held.id)
    for held in running:
        await expire_lease(redis, held.id)
    assert await worker.recover(include_queued=False) == 60
    assert await redis.zcard(keys.refinement_list(TENANT)) == 60


async def test_ids_of_which_nothing_is_left_are_dropped(worker: WorkerStore, redis: Redis) -> None:
    await redis.zadd(keys.DUE, {"ref_gone": 1})
    await redis.zadd(keys.WAITING, {"ref_gone": 1})
    await be_up(redis)
    assert await worker.recover(include_queued=True) == 0
    assert await redis.exists(keys.DUE, keys.WAITING) == 0
