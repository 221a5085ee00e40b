"""A failed refinement is queued again, and its journal keeps the ending that it had."""

import asyncio

import pytest
from redis.asyncio import Redis

from app.contract.errors import Conflict, IdempotencyMismatch, RefinementNotFound
from app.contract.events import EventType, Retried
from app.contract.limits import LimitsChange
from app.contract.snapshot import Failure, Snapshot
from app.contract.status import Status, StopReason
from app.store import Fenced, Fields, Store, WorkerStore
from app.store.redis import keys
from app.store.state import StoredEvent
from tests.store.store_harness import (
    BEST,
    COMPLETED,
    FAILED,
    JUDGED,
    SUCCEEDED,
    TENANT,
    HeldClaim,
    ListQueue,
    claim,
    everything,
    failed_step,
    iteration,
    kinds,
    recorded,
    started,
    step,
    stopping,
)

LOST = "iterations/2/critique"
UNREADABLE = Failure(code="unreadable_critique", detail="it is empty", steps=(LOST,))
UNJUDGED = Fields(stop_reason=StopReason.ERROR, error=UNREADABLE)


async def failed(store: Store, worker: WorkerStore) -> HeldClaim:
    """Return a refinement that failed at its second critique."""
    held = await started(store, worker)
    await held.journal.append([step(), iteration(held)], JUDGED)
    await held.journal.append([step(LOST), FAILED], UNJUDGED, to=Status.FAILED)
    return held


async def fail_again(worker: WorkerStore, refinement_id: str, job: int) -> None:
    again = await claim(worker, refinement_id, job)
    await again.journal.append([failed_step(LOST), FAILED], UNJUDGED, to=Status.FAILED)


async def test_a_failed_one_is_queued_and_keeps_what_it_judged(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await failed(store, worker)
    before = await store.snapshot(TENANT, held.id)
    retried = await store.retry(TENANT, held.id)
    assert (before.status, retried.status) == (Status.FAILED, Status.QUEUED)
    assert (before.result is not None, retried.result) == (True, None)
    nothing = (retried.error, retried.stop_reason, retried.ended_at, retried.expires_at)
    assert nothing == (None, None, None, None)
    assert (retried.best, retried.scores, retried.usage) == (BEST, before.scores, before.usage)
    assert retried.last_event == before.last_event + 1
    assert await redis.zscore(keys.DUE, held.id) is None
    assert await redis.zscore(keys.WAITING, held.id) is not None
    assert await redis.lrange(ListQueue.key, -1, -1) == [f"{held.id}-2".encode()]


async def test_the_entry_names_reason_limits_and_what_is_void(
    store: Store, worker: WorkerStore
) -> None:
    held = await failed(store, worker)
    await store.retry(TENANT, held.id, LimitsChange(max_tokens=9))
    await claim(worker, held.id, 2)
    *_, ended, entry, resumed = await store.decoded_events(TENANT, held.id)
    assert (ended.type, resumed.type) == (EventType.FAILED, EventType.RESUMED)
    limits = held.claimed.state.limits.model_copy(update={"max_tokens": 9})
    assert entry.data == Retried(reason=UNREADABLE, limits=limits, voided=(LOST,))
    assert resumed.data.model_dump() == {"token": 2, "replayed": 1}


async def test_the_next_claim_starts_attempts_time_and_stop_anew(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await store.finish(TENANT, held.id)
    await held.journal.append([stopping()])
    await held.journal.append([FAILED], UNJUDGED, to=Status.FAILED)
    await redis.hset(keys.SUMMARY + held.id, mapping={"started_at": 1, "attempt": 2})
    await store.retry(TENANT, held.id, LimitsChange(max_seconds=7))
    claimed = (await claim(worker, held.id, 2)).claimed
    assert (claimed.resumed, claimed.attempt, claimed.token) == (True, 1, 2)
    paused_ms = await redis.hget(keys.SUMMARY + held.id, "paused_ms")
    assert int(paused_ms or 0) > 10**12  # since 1970: none of it counts
    assert (claimed.state.stopping, claimed.state.finish_requested) == (None, False)
    assert claimed.state.limits.max_seconds == 7


@pytest.mark.parametrize("limit", range(1, 14))
async def test_every_ending_keeps_the_snapshot_that_it_had(
    store: Store, worker: WorkerStore, limit: int
) -> None:
    held = await failed(store, worker)
    endings = [await store.snapshot(TENANT, held.id)]
    for job in (2, 3):
        await store.retry(TENANT, held.id, LimitsChange(max_tokens=job))
        await fail_again(worker, held.id, job)
        endings.append(await store.snapshot(TENANT, held.id))
    found: list[StoredEvent] = []
    last: list[Snapshot] = []
    while page := await store.events(TENANT, held.id, after=len(found), limit=limit):
        found += page
    for event in await store.decoded_events(TENANT, held.id):
        assert found[event.event - 1].json.decode() == event.model_dump_json()
        last += [event.data] if isinstance(event.data, Snapshot) else []
    assert last == endings
    assert [it.number for it in found if it.is_last] == [len(found)]


async def test_a_worker_reads_the_journal_without_the_endings(
    store: Store, worker: WorkerStore
) -> None:
    held = await failed(store, worker)
    with pytest.raises(Fenced):
        await recorded(worker, held.id)
    await store.retry(TENANT, held.id)
    await claim(worker, held.id, 2)
    types = [event.type for event in await recorded(worker, held.id)]
    assert EventType.FAILED not in types
    assert types[-2:] == [EventType.RETRIED, EventType.RESUMED]


async def test_a_retry_repeated_with_its_own_id_happens_once(
    store: Store, worker: WorkerStore
) -> None:
    held = await failed(store, worker)
    change = LimitsChange(max_tokens=5)
    first = await store.retry(TENANT, held.id, change, "retry-1")
    assert await store.retry(TENANT, held.id, change, "retry-1") == first
    with pytest.raises(IdempotencyMismatch):
        await store.retry(TENANT, held.id, LimitsChange(), "retry-1")
    await fail_again(worker, held.id, 2)
    assert (await store.retry(TENANT, held.id, change, "retry-1")).status is Status.FAILED
    assert (await store.retry(TENANT, held.id, change, "retry-2")).status is Status.QUEUED
    assert (await kinds(store, held.id)).count(EventType.RETRIED) == 2


async def test_of_retries_at_once_one_takes_effect(store: Store, worker: WorkerStore) -> None:
    held = await failed(store, worker)
    retries = [store.retry(TENANT, held.id, LimitsChange(max_tokens=n)) for n in (1, 2, 3)]
    answers = await asyncio.gather(*retries, return_exceptions=True)
    assert [isinstance(it, Conflict) for it in answers].count(True) == 2
    assert (await kinds(store, held.id)).count(EventType.RETRIED) == 1


async def test_only_a_failed_one_can_be_retried(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    await held.journal.append([iteration(held), COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    with pytest.raises(Conflict, match=r"is succeeded.*can be continued"):
        await store.retry(TENANT, held.id)
    with pytest.raises(RefinementNotFound):
        await store.retry("somebody else", held.id)


async def test_the_worker_that_ended_it_writes_nothing_more(
    store: Store, worker: WorkerStore
) -> None:
    held = await failed(store, worker)
    await store.retry(TENANT, held.id)
    with pytest.raises(Fenced):
        await held.journal.append([step("late")])
    await claim(worker, held.id, 2)
    with pytest.raises(Fenced):
        await held.journal.append([step("later")])


async def test_erasing_a_retried_one_leaves_nothing_behind(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    await started(store, worker)
    await redis.delete(keys.OVERTAKEN)
    before = await everything(redis)
    held = await failed(store, worker)
    await store.retry(TENANT, held.id)
    await store.erase(TENANT, held.id)
    await redis.ltrim(ListQueue.key, 0, 0)
    await redis.delete(keys.OVERTAKEN, *await redis.keys(keys.STATISTICS + "*"))
    assert await everything(redis) == before


async def test_a_retry_that_comes_late_is_not_repeated_after_another(
    store: Store, worker: WorkerStore
) -> None:
    held = await failed(store, worker)
    for job, command in enumerate(("first", "second"), start=2):
        await store.retry(TENANT, held.id, LimitsChange(max_tokens=job), command)
        await fail_again(worker, held.id, job)
    before = await store.snapshot(TENANT, held.id)
    assert await store.retry(TENANT, held.id, LimitsChange(max_tokens=2), "first") == before
    with pytest.raises(IdempotencyMismatch):
        await store.retry(TENANT, held.id, LimitsChange(max_tokens=2), "second")
