"""Tenants take turns; what waits stands in line, and none of it is lost or counted twice."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis

from app.contract.errors import InvalidRequest, Overloaded
from app.contract.requests import Priority
from app.contract.status import Status
from app.settings import Settings
from app.store import Store, WorkerStore, open_store
from app.store.redis import keys
from app.store.state import Job, NewRefinement
from tests.store.store_harness import (
    BROKEN,
    FAILED,
    TENANT,
    ListQueue,
    be_up,
    claim,
    doubt,
    expire_lease,
    job_source,
    new,
    paused,
    started,
    submit,
    take,
)

QUEUE = ListQueue.key


@pytest.fixture
async def full(settings: Settings, redis: Redis) -> None:
    """Let the only worker have no free slots, unlike `settings`."""
    await redis.hset(keys.SLOTS, "worker-1", "0")


def of(tenant: str, priority: Priority) -> NewRefinement:
    refinement = new(tenant)
    request = refinement.request.model_copy(update={"priority": priority})
    return replace(refinement, request=request)


async def fill(store: Store, tenant: str, count: int, priority: Priority = "interactive") -> None:
    for _ in range(count):
        await store.create(of(tenant, priority), None)


async def tenants_of(store: Store, jobs: list[str]) -> list[str]:
    """Return whose refinements these are."""
    found = []
    for job in jobs:
        owner = await store._committer.execute(
            "HGET", keys.SUMMARY + job.rpartition("-")[0], "tenant"
        )
        found.append(owner.decode())
    return found


@pytest.mark.usefixtures("full")
async def test_a_tenant_with_one_is_next_though_another_has_many(
    store: Store, redis: Redis
) -> None:
    await fill(store, "many", 300)
    assert len(await take(redis, 1)) == 1
    await submit(store, "one")
    assert await tenants_of(store, await take(redis, 2)) == ["many", "one"]


@pytest.mark.usefixtures("full")
async def test_tenants_get_slots_by_their_weights(store: Store, redis: Redis) -> None:
    for tenant in ("heavy", "plain", "light"):
        await fill(store, tenant, 30)
    source = job_source(heavy=2, light=0.5)
    taken = [it for _ in range(21) for it in await take(redis, 1, source)]
    assert Counter(await tenants_of(store, taken)) == {"heavy": 12, "plain": 6, "light": 3}


@pytest.mark.usefixtures("full")
async def test_one_who_always_submits_a_single_one_gets_no_more_than_a_share(
    store: Store, redis: Redis
) -> None:
    await fill(store, "many", 30)
    taken = []
    for _ in range(12):
        if not await redis.exists(keys.LINE + "single"):
            await submit(store, "single")
        taken += await take(redis, 1)
    assert Counter(await tenants_of(store, taken)) == {"many": 6, "single": 6}


@pytest.mark.usefixtures("full")
async def test_an_interactive_one_goes_before_its_tenants_batch(store: Store, redis: Redis) -> None:
    await fill(store, TENANT, 20, "batch")
    urgent, later = await submit(store), await submit(store)
    assert (await take(redis, 3))[:2] == [f"{urgent}-1", f"{later}-1"]
    assert await redis.get(keys.LOW_PRIORITY) == b"19"


async def test_no_more_jobs_go_to_the_queue_than_there_are_free_slots(
    store: Store, redis: Redis
) -> None:
    await redis.hset(keys.SLOTS, mapping={"worker-1": "2", "worker-2": "1"})
    await fill(store, TENANT, 9)
    assert await redis.llen(QUEUE) == 3
    assert await redis.zcard(keys.LINE + TENANT) == 6


async def test_those_in_line_go_before_a_newcomer_although_a_slot_is_free(
    store: Store, redis: Redis
) -> None:
    await redis.hset(keys.SLOTS, "worker-1", "0")
    first = await submit(store)
    await redis.hset(keys.SLOTS, "worker-1", "1")
    await submit(store)
    assert (await take(redis, 1)) == [f"{first}-1"]


@pytest.mark.usefixtures("full")
async def test_a_worker_that_takes_wakes_others_with_free_slots(store: Store, redis: Redis) -> None:
    await fill(store, TENANT, 9)
    await redis.hset(keys.SLOTS, "worker-2", "3")
    assert len(await take(redis, 2)) == 2
    assert await redis.llen(QUEUE) == 1


async def test_without_a_worker_all_stand_in_line(store: Store, redis: Redis) -> None:
    await redis.delete(keys.SLOTS)
    await fill(store, TENANT, 9)
    await submit(store, "another")
    assert await redis.llen(QUEUE) == 0
    assert Counter(await tenants_of(store, await take(redis, 2))) == {TENANT: 1, "another": 1}


async def test_what_an_earlier_release_put_into_the_queue_is_taken_first(
    store: Store, redis: Redis
) -> None:
    await redis.hset(keys.SLOTS, "worker-1", "0")
    await submit(store)
    await redis.rpush(QUEUE, "ref_earlier-1")
    assert (await take(redis, 1)) == ["ref_earlier-1"]


@pytest.mark.usefixtures("full")
async def test_what_is_in_line_and_claimed_canceled_or_erased_leaves_it(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    ids = [(await store.create(of(TENANT, "batch"), None)).id for _ in range(3)]
    await claim(worker, ids[0])  # a job that was delivered twice
    await store.cancel(TENANT, ids[1])
    await store.erase(TENANT, ids[2])
    assert await redis.exists(keys.LINE + TENANT) == 0
    assert await redis.exists(keys.LOW_PRIORITY, keys.TURNS) == 0
    assert await take(redis, 5) == []


@pytest.mark.usefixtures("full")
async def test_what_an_earlier_release_ended_in_line_is_passed_over(
    store: Store, redis: Redis
) -> None:
    ended, waits = await submit(store), await submit(store)
    await redis.hset(keys.SUMMARY + ended, "status", "canceled")
    assert await take(redis, 1) == [f"{waits}-1"]


@pytest.mark.usefixtures("full")
async def test_one_that_is_missing_in_its_line_is_found_and_one_in_line_is_left_there(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    lost, waits = await submit(store), await submit(store)
    for refinement_id in (lost, waits):
        await doubt(redis, refinement_id)
    await redis.zrem(keys.LINE + TENANT, lost)
    assert await worker.recover(include_queued=True) == 1
    assert await worker.recover(include_queued=True) == 0
    assert await redis.llen(QUEUE) == 0
    assert await take(redis, 5) == [f"{lost}-2", f"{waits}-1"]  # by age


@pytest.mark.usefixtures("full")
async def test_an_admitted_job_that_is_lost_is_found(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    lost = await submit(store)
    await take(redis, 1)
    await doubt(redis, lost)
    await redis.hset(keys.SLOTS, "worker-1", "0")
    assert await worker.recover(include_queued=True) == 1
    assert await take(redis, 1) == [f"{lost}-2"]


@pytest.mark.usefixtures("full")
async def test_a_retry_and_a_reviewed_one_wait_for_their_tenants_turn(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    failed, reviewed = await started(store, worker), await paused(store, worker)
    await failed.journal.append([FAILED], BROKEN, to=Status.FAILED)
    await submit(store, "another")
    await store.retry(TENANT, failed.id)
    await store.finish(TENANT, reviewed.id)
    assert await redis.lrange(QUEUE, 0, -1) == []
    assert await tenants_of(store, await take(redis, 3)) == ["another", TENANT, TENANT]


@pytest.mark.usefixtures("full")
async def test_what_a_dead_worker_held_does_not_stand_in_line_again(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await fill(store, TENANT, 3)
    await expire_lease(redis, held.id)
    assert await worker.recover(include_queued=False) == 1
    assert await take(redis, 1) == [f"{held.id}-2"]


async def test_a_worker_that_left_or_died_has_no_free_slots(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await redis.hset(keys.SLOTS, f"holder of {held.id}", "7")
    await expire_lease(redis, held.id)
    await worker.recover(include_queued=False)
    assert await redis.hkeys(keys.SLOTS) == [b"worker-1"]
    await worker.leave()
    assert await redis.exists(keys.SLOTS) == 0


async def test_the_slots_of_a_worker_that_dies_after_its_lease_has_expired_are_forgotten(
    worker: WorkerStore, redis: Redis
) -> None:
    await redis.delete(keys.SLOTS)
    await take(redis, 7, job_source("stood still"))
    await redis.zadd(keys.WORKERS, {"stood still": 1}, xx=True)
    await be_up(redis)
    await worker.recover(include_queued=False)
    assert await redis.exists(keys.SLOTS) == 0


async def test_the_bound_counts_what_is_in_line_and_a_batch_keeps_no_interactive_one_out(
    settings: Settings, queue: ListQueue, redis: Redis
) -> None:
    await redis.hset(keys.SLOTS, "worker-1", "1")
    async with open_store(settings.model_copy(update={"queue_max": 4}), queue) as store:
        await fill(store, TENANT, 2)
        await fill(store, TENANT, 2, "batch")
        with pytest.raises(Overloaded):
            await fill(store, TENANT, 1, "batch")
        await fill(store, TENANT, 2)
        with pytest.raises(Overloaded):
            await fill(store, "another", 1)
    assert await redis.zcard(keys.WAITING) == 6


async def in_an_hour(redis: Redis, hours: float = 1) -> NewRefinement:
    seconds, _ = await redis.time()
    at = datetime.fromtimestamp(seconds, UTC) + timedelta(hours=hours)
    refinement = new()
    request = refinement.request.model_copy(update={"start_after": at})
    return replace(refinement, request=request)


async def come(redis: Redis, refinement_id: str) -> None:
    """Let the time have come at which a refinement may start."""
    await redis.hset(keys.SUMMARY + refinement_id, "start_after", "1")
    await redis.zadd(keys.DUE, {refinement_id: 1})
    await be_up(redis)


async def test_one_that_starts_later_is_in_the_queue_when_its_time_has_come(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    later = await in_an_hour(redis)
    created = await store.create(later, None)
    assert created.snapshot.status is Status.QUEUED
    assert created.snapshot.start_after == later.request.start_after
    await be_up(redis)
    assert await worker.recover(include_queued=True) == 0
    assert (await store.administration.waiting(), await take(redis, 1)) == (0, [])
    await worker.enqueuer.enqueue([Job.numbered(created.id, 1)])  # as a batch does
    assert (await store.administration.waiting(), await take(redis, 1)) == (0, [])
    await come(redis, created.id)
    assert await worker.recover(include_queued=False) == 1
    assert await take(redis, 1) == [f"{created.id}-2"]


async def test_one_that_starts_later_can_be_canceled_and_erased(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    canceled, erased = [(await store.create(await in_an_hour(redis), None)).id for _ in range(2)]
    await store.cancel(TENANT, canceled)
    await store.erase(TENANT, erased)
    assert (await store.snapshot(TENANT, canceled)).status is Status.CANCELED
    assert await redis.zscore(keys.DUE, erased) is None


async def test_a_time_to_start_that_is_past_is_now_and_one_far_away_is_refused(
    store: Store, redis: Redis
) -> None:
    await store.create(await in_an_hour(redis, -1), None)
    assert await redis.llen(QUEUE) == 1
    with pytest.raises(InvalidRequest, match="30 days") as refused:
        await store.create(await in_an_hour(redis, 31 * 24), None)
    assert refused.value.errors[0].pointer == "/start_after"
