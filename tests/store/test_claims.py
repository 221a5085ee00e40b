"""One worker at a time has a refinement; what a lost worker had is given to another."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from app.contract.errors import RefinementNotFound
from app.contract.events import EventType, Resumed, Started
from app.contract.limits import LimitsChange
from app.contract.snapshot import Failure
from app.contract.status import Status, StopReason
from app.settings import Settings
from app.store import Fenced, Fields, Store, Suspected, WorkerStore, open_worker_store
from app.store.redis import keys
from tests.store.store_harness import (
    BROKEN,
    FAILED,
    JUDGED,
    RESULT,
    TENANT,
    HeldClaim,
    ListQueue,
    be_up,
    claim,
    expire_lease,
    failed_step,
    give_to,
    iteration,
    kinds,
    recorded,
    started,
    step,
    submit,
    under_way,
)


async def test_the_first_claim_starts_it(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    snapshot = await store.snapshot(TENANT, held.id)
    assert (held.token, held.claimed.resumed, held.claimed.attempt) == (1, False, 1)
    assert (snapshot.status, snapshot.started_at is None) == (Status.RUNNING, False)
    assert (await recorded(worker, held.id))[-1].data == Started(token=1)


async def test_a_job_that_is_delivered_a_hundred_times_runs_once(
    store: Store, worker: WorkerStore
) -> None:
    refinement_id = await submit(store)
    claims = await asyncio.gather(
        *(worker.claim(refinement_id, f"{refinement_id}-1", f"nonce-{n}") for n in range(100))
    )
    assert sum(claimed is not None for claimed in claims) == 1
    assert await kinds(store, refinement_id) == [EventType.QUEUED, EventType.STARTED]


async def test_a_job_that_is_delivered_twice_to_one_worker_runs_once(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    assert await worker.claim(held.id, f"{held.id}-1", "worker-1") is None
    assert await kinds(store, held.id) == [EventType.QUEUED, EventType.STARTED]


async def test_what_another_worker_has_is_refused(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    assert await worker.claim(held.id, f"{held.id}-2", "worker-1") is None


async def test_what_is_unknown_or_has_ended_is_refused(store: Store, worker: WorkerStore) -> None:
    assert await worker.claim("ref_unknown", "ref_unknown-1", "worker-1") is None
    held = await started(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    assert await worker.claim(held.id, f"{held.id}-1", "worker-1") is None


async def test_what_is_canceling_is_refused(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await store.cancel(TENANT, held.id)
    await expire_lease(redis, held.id)
    assert await worker.claim(held.id, f"{held.id}-2", "worker-1") is None


async def test_a_later_claim_resumes_and_counts_what_is_recorded(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    first = await started(store, worker)
    await first.journal.append([under_way("a", "b")])
    await first.journal.append([step("a"), failed_step("b"), iteration(first)], JUDGED)
    await first.journal.append([step("c")])
    await expire_lease(redis, first.id)
    second = await claim(worker, first.id, job=2)
    assert (second.token, second.claimed.resumed) == (2, True)
    assert (await recorded(worker, first.id))[-1].data == Resumed(token=2, replayed=3)


async def test_a_resumed_refinement_keeps_its_start_and_has_nothing_under_way(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    first = await started(store, worker)
    before = await store.snapshot(TENANT, first.id)
    await first.journal.append([under_way("a")], Fields(phase=("a",)))
    await expire_lease(redis, first.id)
    await claim(worker, first.id, job=2)
    after = await store.snapshot(TENANT, first.id)
    assert (after.started_at, after.phase) == (before.started_at, ())


async def test_the_time_since_the_start_goes_on_over_claims(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    first = await started(store, worker)
    key = keys.SUMMARY + first.id
    await redis.hincrby(key, "started_at", -60_000)
    await expire_lease(redis, first.id)
    second = await claim(worker, first.id, job=2)
    since_start_s = second.claimed.elapsed_s
    assert 60 <= since_start_s < 120


async def test_claims_without_a_step_are_counted_and_alone_end_nothing(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    for attempt in range(2, 9):
        await held.journal.append([under_way("a")])
        await expire_lease(redis, held.id)
        held = await claim(worker, held.id, job=attempt)
        assert held.claimed.attempt == attempt


async def test_a_suspect_is_left_to_a_process_of_its_own_and_due_after_a_lease(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    assert (await worker.recover(include_queued=False), worker.orphaned) == (1, 1)
    before = await kinds(store, held.id)
    with pytest.raises(Suspected):
        await worker.claim(held.id, f"{held.id}-2", "worker-1", takes_suspects=False)
    assert await kinds(store, held.id) == before
    assert await worker.recover(include_queued=True) == 0
    await redis.zadd(keys.DUE, {held.id: 1})
    assert (await worker.recover(include_queued=False), worker.orphaned) == (1, 1)
    assert (await claim(worker, held.id, job=3)).claimed.attempt == 2


async def test_what_was_handed_back_or_journaled_a_step_is_no_suspect(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    handed_back, progressed = [await started(store, worker) for _ in range(2)]
    await worker.hand_back(handed_back.id, handed_back.claimed.nonce)
    await progressed.journal.append([step()])
    await expire_lease(redis, progressed.id)
    for held in (handed_back, progressed):
        job = f"{held.id}-2"
        assert await worker.claim(held.id, job, "worker-1", takes_suspects=False) is not None


async def at_attempt(store: Store, worker: WorkerStore, redis: Redis, attempt: int) -> HeldClaim:
    """A refinement of which nothing was journaled since so many claims."""
    held = await started(store, worker)
    for job in range(2, attempt + 1):
        await expire_lease(redis, held.id)
        held = await claim(worker, held.id, job)
    return held


WHY = 'killed by "signal 9"'


async def test_the_third_attempt_of_a_process_that_died_ends_as_poisoned(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await at_attempt(store, worker, redis, 3)
    assert await worker.blame(held.id, "worker-1", WHY)
    snapshot = await store.snapshot(TENANT, held.id)
    assert (snapshot.status, snapshot.stop_reason) == (Status.FAILED, StopReason.ERROR)
    assert snapshot.error == Failure(code="poisoned", detail=WHY)
    assert (await kinds(store, held.id))[-1] is EventType.FAILED
    assert await worker.blame(held.id, "worker-1", WHY)
    with pytest.raises(Fenced):
        await held.journal.append([step()])


@pytest.mark.parametrize(("attempt", "why"), [(2, WHY), (3, None), (9, None)])
async def test_too_few_attempts_or_other_suspects_beside_it_only_give_up_the_claim(
    store: Store, worker: WorkerStore, redis: Redis, attempt: int, why: str | None
) -> None:
    held = await at_attempt(store, worker, redis, attempt)
    assert not await worker.blame(held.id, "worker-1", why)
    with pytest.raises(Fenced):
        await held.journal.append([step()])
    assert await worker.recover(include_queued=True) == 0
    assert (await claim(worker, held.id, job=99)).claimed.attempt == attempt + 1


async def test_a_step_since_the_claim_is_evidence_for_it(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await at_attempt(store, worker, redis, 3)
    await held.journal.append([step()])
    assert not await worker.blame(held.id, "worker-1", WHY)
    assert (await claim(worker, held.id, job=99)).claimed.attempt == 1


async def test_what_another_worker_has_is_not_blamed(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await at_attempt(store, worker, redis, 3)
    assert not await worker.blame(held.id, "another", WHY)
    assert (await held.journal.append([step()])).status is Status.RUNNING
    await store.erase(TENANT, held.id)
    assert await worker.blame(held.id, "worker-1", WHY)


async def test_what_was_to_be_canceled_is_canceled_when_its_process_died(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await at_attempt(store, worker, redis, 3)
    await store.cancel(TENANT, held.id)
    assert not await worker.blame(held.id, "worker-1", WHY)
    await worker.recover(include_queued=False)
    assert (await store.snapshot(TENANT, held.id)).status is Status.CANCELED


async def test_a_step_makes_the_attempts_count_from_the_beginning(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    for job in range(2, 6):
        await held.journal.append([step(f"s/{job}")])
        await expire_lease(redis, held.id)
        held = await claim(worker, held.id, job)
        assert held.claimed.attempt == 1


async def test_a_poisoned_refinement_shows_what_was_paid_for(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await held.journal.append([iteration(held)], JUDGED)
    for job in range(2, 5):
        await expire_lease(redis, held.id)
        await worker.claim(held.id, f"{held.id}-{job}", "worker-1")
    await worker.blame(held.id, "worker-1", WHY)
    snapshot = await store.snapshot(TENANT, held.id)
    assert (snapshot.status, snapshot.result) == (Status.FAILED, RESULT)


async def test_handing_back_burns_no_attempt_and_queues_it_again(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    for job in range(2, 8):
        await worker.hand_back(held.id, held.claimed.nonce)
        assert (await redis.lrange(ListQueue.key, -1, -1)) == [f"{held.id}-{job}".encode()]
        held = await claim(worker, held.id, job)
        assert held.claimed.attempt == 1
    assert (await store.snapshot(TENANT, held.id)).status is Status.RUNNING


async def test_who_has_handed_back_is_fenced(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    await worker.hand_back(held.id, held.claimed.nonce)
    with pytest.raises(Fenced):
        await held.journal.append([step()])
    with pytest.raises(Fenced):
        await held.journal.look()


async def test_only_the_holder_can_hand_back(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    first = await started(store, worker)
    await expire_lease(redis, first.id)
    second = await claim(worker, first.id, job=2)
    await worker.hand_back(first.id, first.claimed.nonce)
    assert (await second.journal.look()).status is Status.RUNNING


async def test_renewing_keeps_everything_that_the_worker_holds(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = [await started(store, worker) for _ in range(3)]
    await redis.zadd(keys.WORKERS, {"worker-1": 1})
    assert await worker.renew() == {}
    await be_up(redis)
    assert await worker.recover(include_queued=True) == 0
    for one in held:
        assert await worker.claim(one.id, f"{one.id}-2", "worker-2") is None


async def test_renewing_names_what_is_lost(
    store: Store, worker: WorkerStore, settings: Settings, queue: ListQueue, redis: Redis
) -> None:
    taken, recovered, erased = [await started(store, worker) for _ in range(3)]
    await started(store, worker)
    await redis.zadd(keys.WORKERS, {"worker-1": 1})
    async with open_worker_store(settings, queue, "worker-2") as other:
        assert await other.claim(taken.id, f"{taken.id}-2", "worker-2") is None  # too soon
        await be_up(redis)
        assert await other.claim(taken.id, f"{taken.id}-2", "worker-2")
        await store.erase(TENANT, erased.id)
        await redis.srem(keys.HELD + "worker-1", *[it.id for it in (erased, taken)])
        await be_up(redis)
        assert await other.recover(include_queued=False) == 2
    assert {taken.id, recovered.id, erased.id} < set(await worker.renew())


async def test_a_worker_that_leaves_gives_up_what_it_holds_at_once(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await worker.leave()
    await be_up(redis)
    assert await worker.recover(include_queued=False) == 1
    assert (await claim(worker, held.id, job=2)).token == 2


async def test_renewing_names_what_a_command_changed_until_it_was_read(
    store: Store, worker: WorkerStore
) -> None:
    canceled, finished, changed = [await started(store, worker) for _ in range(3)]
    held = {canceled.id, finished.id, changed.id}
    await store.cancel(TENANT, canceled.id)
    await store.finish(TENANT, finished.id)
    await store.change(TENANT, changed.id, LimitsChange(threshold=0.1))
    news = await worker.renew()
    assert set(news) == held
    await store.change(TENANT, changed.id, LimitsChange(threshold=0.2))
    again = await worker.renew(news)
    assert set(again) == {changed.id}
    assert (await canceled.journal.look()).status is Status.CANCELING
    assert (await finished.journal.look()).finish_requested
    assert (await changed.journal.append([step()])).limits.threshold == 0.2
    assert await worker.renew(again) == {}


async def test_a_worker_counts_while_it_gives_signs_of_life(
    store: Store, worker: WorkerStore, settings: Settings, queue: ListQueue, redis: Redis
) -> None:
    async with open_worker_store(settings, queue, "worker-2") as other:
        await worker.renew()
        await other.renew()
        assert await store.administration.workers() == 2
        await other.leave()
        assert await store.administration.workers() == 1
    await redis.zadd(keys.WORKERS, {"worker-1": 1})
    assert await store.administration.workers() == 0


async def test_what_has_ended_since_the_claim_is_not_worked_on(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    await store.cancel(TENANT, held.id)
    with pytest.raises(Fenced):
        await worker.load(held.id)
    await store.erase(TENANT, held.id)
    with pytest.raises(RefinementNotFound):
        await worker.load(held.id)


async def two_claims_with_one_token(
    store: Store, worker: WorkerStore, redis: Redis
) -> tuple[HeldClaim, HeldClaim]:
    """Return a claim that Redis has forgotten, and the next one."""
    refinement_id = await submit(store)
    names = [keys.SUMMARY + refinement_id, keys.JOURNAL + refinement_id]
    copies: list[Any] = [await redis.dump(name) for name in names]
    forgotten = await claim(worker, refinement_id)
    for name, copy in zip(names, copies, strict=True):  # Redis restarts from an older copy
        await redis.restore(name, 0, copy, replace=True)
    claimed = await claim(worker, refinement_id)
    assert claimed.token == forgotten.token
    return forgotten, claimed


async def test_of_two_claims_with_one_token_the_forgotten_one_is_fenced(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    forgotten, claimed = await two_claims_with_one_token(store, worker, redis)
    with pytest.raises(Fenced):
        await forgotten.journal.append([step()])
    await claimed.journal.append([step()])


async def test_a_forgotten_claim_cannot_hand_back_another_with_the_same_token(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    forgotten, claimed = await two_claims_with_one_token(store, worker, redis)
    await worker.hand_back(forgotten.id, forgotten.claimed.nonce)
    assert await redis.hget(keys.SUMMARY + claimed.id, "holder") == b"worker-1"
    await claimed.journal.append([step()])


async def test_what_a_worker_held_whose_process_has_ended_is_due_at_once(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    gone, living = [await started(store, worker) for _ in range(2)]
    await give_to(redis, gone.id, "gone", until_ms=10**15)
    await redis.delete(keys.UP)  # not even a lease is waited for after an outage
    assert await worker.recover(include_queued=False, is_gone=lambda name: name == "gone") == 1
    assert (await claim(worker, gone.id, job=2)).claimed.resumed
    assert await redis.hget(keys.SUMMARY + living.id, "holder") == b"worker-1"
