"""Cancel, finish, change and erase: what the script sees first wins."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis

from app.contract.errors import Conflict, RefinementNotFound
from app.contract.events import EventType
from app.contract.limits import LimitsChange
from app.contract.status import Status, StopReason
from app.store import Fenced, Store, WorkerStore
from app.store.redis import keys
from tests.store.store_harness import (
    BROKEN,
    CANCELED,
    FAILED,
    JUDGED,
    RESULT,
    TENANT,
    ListQueue,
    claim,
    everything,
    expire_lease,
    iteration,
    kinds,
    new,
    started,
    step,
    submit,
)

CHANGE = LimitsChange(threshold=0.5)

Command = Callable[[Store, str, str], Awaitable[object]]
COMMANDS: list[Command] = [
    lambda store, tenant, refinement_id: store.cancel(tenant, refinement_id),
    lambda store, tenant, refinement_id: store.finish(tenant, refinement_id),
    lambda store, tenant, refinement_id: store.change(tenant, refinement_id, CHANGE),
]
ERASE: Command = lambda store, tenant, refinement_id: store.erase(tenant, refinement_id)  # noqa: E731


@pytest.mark.parametrize("command", [*COMMANDS, ERASE])
async def test_a_command_to_another_tenants_refinement_finds_nothing(
    store: Store, command: Command
) -> None:
    refinement_id = await submit(store)
    for tenant, unknown in (("other", refinement_id), (TENANT, "ref_unknown")):
        with pytest.raises(RefinementNotFound):
            await command(store, tenant, unknown)
    assert (await store.snapshot(TENANT, refinement_id)).last_event == 1


async def test_a_command_that_is_repeated_and_changes_nothing_keeps_nothing(
    store: Store, redis: Redis
) -> None:
    changed, canceled = await submit(store), await submit(store)
    await store.change(TENANT, changed, CHANGE)
    await store.cancel(TENANT, canceled)
    for _ in range(3):
        await store.change(TENANT, changed, CHANGE)
        await store.cancel(TENANT, canceled)
    assert await redis.hlen(keys.GIVEN + changed) == await redis.hlen(keys.GIVEN + canceled) == 1
    await store.cancel(TENANT, canceled, "client's id")
    assert await redis.hlen(keys.GIVEN + canceled) == 2


async def test_what_waits_is_canceled_at_once(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await submit(store)
    snapshot = await store.cancel(TENANT, refinement_id)
    assert (snapshot.status, snapshot.stop_reason) == (Status.CANCELED, StopReason.CANCELED)
    assert snapshot.ended_at is not None
    assert await kinds(store, refinement_id) == [EventType.QUEUED, EventType.CANCELED]
    assert await redis.zscore(keys.WAITING, refinement_id) is None
    assert await worker.claim(refinement_id, f"{refinement_id}-1", "worker-1") is None


async def test_what_runs_is_canceled_once_its_worker_has_stopped(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    assert (await store.cancel(TENANT, held.id)).status is Status.CANCELING
    assert (await held.journal.append([step()])).status is Status.CANCELING
    assert (await held.journal.append([CANCELED], to=Status.CANCELED)).status is Status.CANCELED


@pytest.mark.parametrize("lost", ["expired", "handed back"])
async def test_what_no_worker_has_is_canceled_at_once(
    store: Store, worker: WorkerStore, redis: Redis, lost: str
) -> None:
    held = await started(store, worker)
    await held.journal.append([iteration(held)], JUDGED)
    if lost == "expired":
        await expire_lease(redis, held.id)
    else:
        await worker.hand_back(held.id, held.claimed.nonce)
    snapshot = await store.cancel(TENANT, held.id)
    assert (snapshot.status, snapshot.result) == (Status.CANCELED, RESULT)
    with pytest.raises(Fenced):
        await held.journal.append([step()])
    assert (await kinds(store, held.id))[-2:] == [EventType.CANCELING, EventType.CANCELED]


async def test_cancelling_again_is_answered_again(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    for _ in range(2):
        assert (await store.cancel(TENANT, held.id)).status is Status.CANCELING
    await held.journal.append([CANCELED], to=Status.CANCELED)
    assert (await store.cancel(TENANT, held.id)).status is Status.CANCELED
    assert (await kinds(store, held.id)).count(EventType.CANCELING) == 1


async def test_finish_stops_it_when_a_draft_was_judged(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    await held.journal.append([iteration(held)], JUDGED)
    await store.finish(TENANT, held.id)
    state = await held.journal.look()
    assert (state.stopping, state.finish_requested) == (StopReason.FINISHED_EARLY, False)
    assert (await kinds(store, held.id))[-1] is EventType.STOPPING


async def test_finish_waits_for_the_first_judged_draft(store: Store, worker: WorkerStore) -> None:
    refinement_id = await submit(store)
    await store.finish(TENANT, refinement_id)
    held = await claim(worker, refinement_id)
    assert (held.claimed.state.stopping, held.claimed.state.finish_requested) == (None, True)
    assert await kinds(store, refinement_id) == [EventType.QUEUED, EventType.STARTED]


async def test_finishing_again_journals_nothing_more(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    await held.journal.append([iteration(held)], JUDGED)
    await asyncio.gather(*(store.finish(TENANT, held.id) for _ in range(20)))
    assert (await kinds(store, held.id)).count(EventType.STOPPING) == 1


async def test_changed_limits_are_in_force_and_journaled(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    limits = await store.change(TENANT, held.id, LimitsChange(max_iterations=7, threshold=0.5))
    snapshot = await store.snapshot(TENANT, held.id)
    assert (snapshot.max_iterations, snapshot.threshold) == (7, 0.5)
    assert (await held.journal.look()).limits == limits
    assert (await kinds(store, held.id))[-1] is EventType.CHANGED


async def test_changes_at_once_lose_nothing_of_each_other(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    changes = [
        LimitsChange(threshold=0.5),
        LimitsChange(max_iterations=9),
        LimitsChange(max_seconds=5),
        LimitsChange(max_tokens=1_000),
        LimitsChange(max_cost_usd=2.5),
    ]
    await asyncio.gather(*(store.change(TENANT, held.id, change) for change in changes))
    limits = (await held.journal.look()).limits
    for change in changes:
        assert change.applied_to(limits) == limits
    assert (await kinds(store, held.id)).count(EventType.CHANGED) == 5


async def test_a_command_repeated_with_its_own_id_is_answered_as_the_first_time(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    await store.finish(TENANT, held.id, "finish-1")
    limits = await store.change(TENANT, held.id, CHANGE, "change-1")
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    assert (await store.finish(TENANT, held.id, "finish-1")).status is Status.FAILED
    assert await store.change(TENANT, held.id, CHANGE, "change-1") == limits
    with pytest.raises(Conflict):
        await store.finish(TENANT, held.id, "finish-2")


async def test_erasing_leaves_nothing_behind(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    kept = await submit(store, colour="blue")
    before = await everything(redis)
    created = await store.create(new(colour="red", ticket="ä=ö"), "key")
    assert len(await redis.keys("*")) > len(before)
    await store.erase(TENANT, created.id)
    await redis.lrem(ListQueue.key, 1, f"{created.id}-1")
    assert await everything(redis) == before
    assert (await store.snapshot(TENANT, kept)).id == kept


async def test_an_erased_key_makes_a_new_refinement(store: Store) -> None:
    first = await store.create(new(), "key")
    await store.erase(TENANT, first.id)
    second = await store.create(new(), "key")
    assert (second.replayed, second.id == first.id) == (False, False)


async def test_erasing_spares_the_record_of_a_key_that_was_used_anew(
    store: Store, redis: Redis
) -> None:
    first = await store.create(new(), "key")
    await redis.delete(keys.idempotency(TENANT, "key"))  # a day has gone by
    second = await store.create(new(), "key")
    await store.erase(TENANT, first.id)
    assert (await store.create(new(), "key")).id == second.id
