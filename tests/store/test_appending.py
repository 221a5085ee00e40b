"""An append happens whole, once, in order, and only while the claim is in force."""

import asyncio
from typing import cast

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from app.contract.events import EventType
from app.contract.limits import LimitsChange
from app.contract.status import Status, StopReason
from app.store import Fenced, Fields, Journal, StaleLimits, Store, WorkerStore
from app.store.redis import keys
from app.store.redis.scripts import ERASED_MS
from tests.store.store_harness import (
    BEST,
    BROKEN,
    CANCELED,
    COMPLETED,
    FAILED,
    JUDGED,
    RESULT,
    SUCCEEDED,
    TENANT,
    FlakyCommitter,
    claim,
    copied,
    expire_lease,
    iteration,
    kinds,
    plain,
    recorded,
    restore,
    started,
    step,
    stopping,
    under_way,
)


async def test_entries_of_one_append_are_numbered_one_after_the_other(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    state = await held.journal.append([step("a"), step("b")])
    assert state.last_event == 4
    assert await kinds(store, held.id) == [
        EventType.QUEUED,
        EventType.STARTED,
        EventType.STEP_COMPLETED,
        EventType.STEP_COMPLETED,
    ]


async def test_only_the_fields_that_are_given_change(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    await held.journal.append([iteration(held)], JUDGED)
    await held.journal.append([under_way("iterations/2/revise")], Fields(phase=("a", "b")))
    snapshot = await store.snapshot(TENANT, held.id)
    assert (snapshot.phase, snapshot.best, snapshot.scores) == (("a", "b"), BEST, JUDGED.scores)


async def test_result_and_outcome_are_shown_once_it_has_ended(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    await held.journal.append([iteration(held)], JUDGED)
    running = await store.snapshot(TENANT, held.id)
    await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    ended = await store.snapshot(TENANT, held.id)
    assert (running.result, running.outcome) == (None, None)
    assert (ended.result, ended.outcome) == (RESULT, "passed")
    assert ended.stop_reason is StopReason.THRESHOLD_MET
    assert ended.phase == ()


async def test_the_terminal_event_carries_the_final_snapshot(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    events = await store.decoded_events(TENANT, held.id)
    assert events[-1].type is EventType.FAILED
    assert events[-1].data == await store.snapshot(TENANT, held.id)


async def test_a_move_that_the_table_does_not_list_writes_nothing(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    with pytest.raises(ResponseError, match="MOVE running to canceled"):
        await held.journal.append([CANCELED], to=Status.CANCELED)
    assert (await held.journal.append([step()])).last_event == 3


@pytest.mark.parametrize("to", [None, Status.PAUSED])
async def test_a_terminal_entry_needs_a_terminal_status(
    store: Store, worker: WorkerStore, to: Status | None
) -> None:
    held = await started(store, worker)
    with pytest.raises(ValueError, match="terminal"):
        await held.journal.append([COMPLETED], to=to)


async def test_who_lost_the_claim_is_fenced(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    first = await started(store, worker)
    await expire_lease(redis, first.id)
    second = await claim(worker, first.id, job=2)
    with pytest.raises(Fenced):
        await first.journal.append([step()])
    with pytest.raises(Fenced):
        await first.journal.look()
    assert (await second.journal.append([step()])).last_event == 4


async def test_an_expired_lease_that_was_not_taken_still_writes(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    assert (await held.journal.append([step()])).last_event == 3


async def test_nothing_is_written_after_the_end(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    with pytest.raises(Fenced):
        await held.journal.append([step()])


async def test_what_was_erased_stays_erased(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await store.erase(TENANT, held.id)
    with pytest.raises(Fenced):
        await held.journal.append([step()])
    left = cast("list[bytes]", await redis.keys(f"*{held.id}*"))
    assert [plain(it) for it in left] == [(keys.ERASED + held.id).encode()]
    assert 0 < await redis.pttl(keys.ERASED + held.id) <= ERASED_MS


async def test_an_append_whose_place_a_command_has_taken_is_written_again(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    names = [keys.SUMMARY + held.id, keys.JOURNAL + held.id]
    synced = [await redis.dump(name) for name in names]
    await held.journal.append([step()])
    for name, value in zip(names, synced, strict=True):
        assert value is not None
        await redis.restore(name, 0, value, replace=True)  # as a restart without the AOF's end does
    await store.change(TENANT, held.id, LimitsChange(threshold=0.5))
    await held.journal.append([step("iterations/2/critique")])
    assert await kinds(store, held.id) == [
        EventType.QUEUED,
        EventType.STARTED,
        EventType.CHANGED,
        EventType.STEP_COMPLETED,
        EventType.STEP_COMPLETED,
    ]


async def test_an_append_under_limits_that_changed_writes_nothing(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    await store.change(TENANT, held.id, LimitsChange(threshold=0.5))
    with pytest.raises(StaleLimits) as stale:
        await held.journal.append([iteration(held)], JUDGED, limits_seq=1)
    assert (stale.value.state.limits.threshold, stale.value.state.limits_seq) == (0.5, 2)
    state = await held.journal.append([iteration(held)], JUDGED, limits_seq=2)
    assert state.last_event == 4


async def test_every_append_brings_the_limits_in_force(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    await store.change(TENANT, held.id, LimitsChange(threshold=0.5))
    for key in ("a", "b"):
        state = await held.journal.append([step(key)])
        assert (state.limits.threshold, state.limits_seq) == (0.5, 2)


async def test_only_the_first_reason_to_stop_is_journaled(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    first = await held.journal.append([stopping(StopReason.DEADLINE), step("a")])
    second = await held.journal.append([stopping(StopReason.BUDGET_EXHAUSTED), step("b")])
    assert (first.stopping, second.stopping) == (StopReason.DEADLINE, StopReason.DEADLINE)
    assert (await kinds(store, held.id)).count(EventType.STOPPING) == 1
    assert second.last_event == 5


@pytest.mark.parametrize("to", [Status.SUCCEEDED, Status.FAILED])
async def test_whatever_ends_while_canceling_is_canceled(
    store: Store, worker: WorkerStore, to: Status
) -> None:
    held = await started(store, worker)
    await held.journal.append([iteration(held)], JUDGED)
    await store.cancel(TENANT, held.id)
    entry, fields = (COMPLETED, SUCCEEDED) if to is Status.SUCCEEDED else (FAILED, BROKEN)
    state = await held.journal.append([step(), entry], fields, to=to)
    snapshot = await store.snapshot(TENANT, held.id)
    assert state.status is snapshot.status is Status.CANCELED
    assert (snapshot.stop_reason, snapshot.error) == (StopReason.CANCELED, None)
    assert (snapshot.result, snapshot.outcome) == (RESULT, "canceled")
    assert (await kinds(store, held.id))[-1] is EventType.CANCELED


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_an_append_whose_answer_was_lost_can_be_made_again_and_happens_once(
    store: Store, worker: WorkerStore, flaky: FlakyCommitter, lost: str
) -> None:
    held = await started(store, worker)
    journal = Journal(held.claimed, flaky)
    flaky.lose = [lost, lost]
    for _ in range(2):
        with pytest.raises(RedisConnectionError):
            await journal.append([step("a")])
    assert (await journal.append([step("a")])).last_event == 3
    assert (await journal.append([step("b")])).last_event == 4


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_an_append_whose_answer_was_lost_happens_before_any_other(
    store: Store, worker: WorkerStore, flaky: FlakyCommitter, lost: str
) -> None:
    held = await started(store, worker)
    journal = Journal(held.claimed, flaky)
    flaky.lose = [lost]
    with pytest.raises(RedisConnectionError):
        await journal.append([step("a")])
    await journal.append([step("b")])
    found = await recorded(worker, held.id)
    assert [getattr(event.data, "key", None) for event in found[2:]] == ["a", "b"]


async def test_a_terminal_append_whose_answer_was_lost_is_answered_as_the_first_time(
    store: Store, worker: WorkerStore, flaky: FlakyCommitter
) -> None:
    held = await started(store, worker)
    journal = Journal(held.claimed, flaky)
    flaky.lose = ["answer"]
    with pytest.raises(RedisConnectionError):
        await journal.append([FAILED], BROKEN, to=Status.FAILED)
    state = await journal.append([FAILED], BROKEN, to=Status.FAILED)
    assert (state.status, state.last_event) == (Status.FAILED, 3)


async def test_an_append_that_redis_refused_leaves_no_trace(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    used = (await redis.info("memory"))["used_memory"]
    await redis.config_set("maxmemory", used // 2)
    try:
        with pytest.raises(ResponseError, match="maxmemory"):
            await held.journal.append([step("a")])
    finally:
        await redis.config_set("maxmemory", 0)
    assert (await held.journal.append([step("b")])).last_event == 3


async def test_an_append_whose_caller_was_cancelled_happens_before_any_other(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    appending = asyncio.create_task(held.journal.append([step("a")]))
    await asyncio.sleep(0)
    appending.cancel()
    state = await held.journal.append([step("b")])
    assert state.last_event == 4
    found = await recorded(worker, held.id)
    assert [getattr(event.data, "key", None) for event in found[2:]] == ["a", "b"]


async def test_a_hundred_appends_at_once_are_all_there(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    await asyncio.gather(*(held.journal.append([step(f"s/{n}")]) for n in range(100)))
    found = await recorded(worker, held.id)
    assert [event.event for event in found] == list(range(1, 103))
    done = {getattr(event.data, "key", None) for event in found[2:]}
    assert done == {f"s/{n}" for n in range(100)}


async def test_a_text_comes_back_as_it_went_in(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    text = 'tab\t quote" back\\slash \0 nul \u2028 line 🙂 ' + "é" * 200_000
    await held.journal.append([step("a", text)])
    assert (await recorded(worker, held.id))[2].data == step("a", text).data


async def test_what_a_failover_has_lost_is_written_again_in_order(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await held.journal.append([step("a")])
    copy = await copied(redis)
    await held.journal.append([step("b"), iteration(held)], JUDGED)
    await held.journal.append([step("c")])
    whole = [event.json for event in await store.events(TENANT, held.id)]
    await restore(redis, copy)
    await held.journal.append([step("d")])
    again = await store.decoded_events(TENANT, held.id)
    assert [getattr(event.data, "key", None) for event in again[2:]] == ["a", "b", None, "c", "d"]
    assert len(await kinds(store, held.id)) == len(whole) + 1
    assert (await store.snapshot(TENANT, held.id)).best == BEST


async def test_a_command_given_after_the_failover_stays(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    copy = await copied(redis)
    await held.journal.append([step("a")])
    await held.journal.append([step("b")])
    await restore(redis, copy)
    await store.cancel(TENANT, held.id)
    state = await held.journal.append([step("c")])
    assert state.status is Status.CANCELING
    assert len(await kinds(store, held.id)) == 6


async def test_what_was_lost_is_not_written_again_after_another_claim(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    copy = await copied(redis)
    await held.journal.append([step("a")])
    await restore(redis, copy)
    await expire_lease(redis, held.id)
    await claim(worker, held.id, job=2)
    before = await kinds(store, held.id)
    with pytest.raises(Fenced):
        await held.journal.append([step("b")])
    assert await kinds(store, held.id) == before


async def test_a_worker_that_no_longer_has_what_was_lost_is_fenced_out(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    copy = await copied(redis)
    await held.journal.append([step("a")])
    held.journal._kept.clear()  # as after a minute
    await restore(redis, copy)
    with pytest.raises(Fenced):
        await held.journal.append([step("b")])
    assert len(await kinds(store, held.id)) == 2
