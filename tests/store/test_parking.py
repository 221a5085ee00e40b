"""Refinements that wait for a model without a worker, and limits of time that nobody holds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from redis.asyncio import Redis

from app.contract.errors import Conflict, InvalidRequest
from app.contract.events import EventType, Stopping
from app.contract.limits import LimitsChange
from app.contract.models import ModelChoice
from app.contract.status import Status, StopReason
from app.contract.waiting import WaitReason
from app.store import Fenced, Store, WorkerStore
from app.store.redis import keys
from app.store.state import NewRefinement
from tests.store.store_harness import (
    BROKEN,
    FAILED,
    JUDGED,
    MODEL,
    TENANT,
    HeldClaim,
    ListQueue,
    be_up,
    claim,
    everything,
    expire_lease,
    expire_wait,
    iteration,
    kinds,
    new,
    park,
    paused,
    recorded,
    started,
    step,
    stopping,
    submit,
    waiting,
)

OTHER = "anthropic:claude-haiku-4-5"


async def parked(
    store: Store,
    worker: WorkerStore,
    models: tuple[str, ...] = (MODEL,),
    reason: WaitReason = "rate_limited",
) -> str:
    held = await started(store, worker)
    assert (await park(held, models=models, reason=reason)).is_parked
    return held.id


async def front(redis: Redis) -> list[str]:
    jobs = cast("Sequence[bytes]", await redis.lrange(ListQueue.key, 0, -1))
    return [job.decode() for job in jobs]


async def test_a_parked_one_is_running_and_held_by_nobody(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    state = await park(held)
    assert (state.status, state.is_parked) == (Status.RUNNING, True)
    snapshot = await store.snapshot(TENANT, held.id)
    assert (snapshot.status, snapshot.waiting) == (Status.RUNNING, waiting())
    assert await redis.hmget(keys.SUMMARY + held.id, "holder", "attempt") == [None, b"0"]
    assert await redis.zscore(keys.WORKERS, "worker-1") is not None
    assert await worker.held() == set()
    with pytest.raises(Fenced):
        await held.journal.append([step()])


async def test_parking_that_is_sent_twice_happens_once(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await started(store, worker)
    await park(held)
    before = await everything(redis)
    held.journal._done -= 1
    assert (await park(held)).is_parked
    assert await everything(redis) == before


async def test_no_job_but_that_of_a_permit_claims_it(store: Store, worker: WorkerStore) -> None:
    refinement_id = await parked(store, worker)
    assert await worker.claim(refinement_id, f"{refinement_id}-1", "worker-1") is None
    assert await worker.resume_parked(MODEL, 5) == 1
    held = await claim(worker, refinement_id, job=2)
    assert (held.claimed.permit, held.claimed.attempt) == (MODEL, 1)
    assert (await store.snapshot(TENANT, refinement_id)).waiting == waiting()


async def test_a_permit_is_that_of_one_claim(store: Store, worker: WorkerStore) -> None:
    refinement_id = await parked(store, worker)
    await worker.resume_parked(MODEL, 1)
    held = await claim(worker, refinement_id, job=2)
    await worker.hand_back(refinement_id, held.claimed.nonce)
    assert (await claim(worker, refinement_id, job=3)).claimed.permit is None


async def test_its_job_goes_before_all_others(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    first, second = await parked(store, worker), await parked(store, worker)
    await redis.delete(ListQueue.key)
    queued = await submit(store)
    assert await worker.resume_parked(MODEL, 2) == 2
    assert await front(redis) == [f"{first}-2", f"{second}-2", f"{queued}-1"]


async def test_a_job_at_the_front_overtakes_nobody(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await parked(store, worker)
    queued = await submit(store)
    await redis.zadd(keys.WAITING, {queued: 1})
    await worker.resume_parked(MODEL, 1)
    await claim(worker, refinement_id, job=2)
    assert await worker.recover(include_queued=False) == 0


async def test_those_furthest_along_go_first_and_tenants_take_turns(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    ids: dict[str, str] = {}
    for name, tenant, steps in (
        ("a0", "a", 0), ("a2", "a", 2), ("a1", "a", 1), ("b0", "b", 0), ("b1", "b", 1)
    ):  # fmt: skip
        held = await claim(worker, await submit(store, tenant))
        await park(held, *(step(f"s/{n}") for n in range(steps)))
        ids[held.id] = name
    await redis.delete(ListQueue.key)
    for _ in range(5):
        assert await worker.resume_parked(MODEL, 1) == 1
    taken = [ids[job.rpartition("-")[0]] for job in reversed(await front(redis))]
    assert taken == ["a2", "b1", "a1", "b0", "a0"]


@pytest.mark.parametrize(
    ("reason", "taken"),
    [("error", ["far", "near", "far"]), ("rate_limited", ["far", "far", "far"])],
)
async def test_a_call_that_fails_again_and_again_is_not_every_probe(
    reason: WaitReason, taken: list[str], store: Store, worker: WorkerStore, redis: Redis
) -> None:
    ids: dict[str, str] = {}
    for name, steps in (("far", 2), ("near", 0)):
        held = await claim(worker, await submit(store))
        await park(held, *(step(f"s/{n}") for n in range(steps)), reason=reason)
        ids[held.id] = name
    found, jobs = [], Counter(dict.fromkeys(ids, 1))
    for _ in taken:
        await redis.delete(ListQueue.key)
        assert await worker.resume_parked(MODEL, 1) == 1
        refinement_id = (await front(redis))[0].rpartition("-")[0]
        found.append(ids[refinement_id])
        jobs[refinement_id] += 1
        await park(await claim(worker, refinement_id, job=jobs[refinement_id]), reason=reason)
    assert found == taken


async def test_after_a_probe_in_vain_the_next_is_any_that_was_not_tried(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    ids = [await parked(store, worker, reason="error") for _ in range(40)]
    assert await worker.resume_parked(MODEL, 1) == 1
    await park(await claim(worker, ids[0], job=2), reason="error")
    await redis.delete(ListQueue.key)
    for _ in range(20):
        assert await worker.resume_parked(MODEL, 1) == 1
    taken = [job.rpartition("-")[0] for job in reversed(await front(redis))]
    assert set(taken) < set(ids[1:])
    assert taken != ids[1:21]


async def test_the_first_permit_of_several_models_takes_it(
    store: Store, worker: WorkerStore
) -> None:
    refinement_id = await parked(store, worker, (MODEL, OTHER))
    await parked(store, worker, (OTHER,))
    assert await worker.parked(9) == {MODEL: 1, OTHER: 2}
    assert await worker.parked(1) == {MODEL: 1, OTHER: 1}
    assert await worker.resume_parked(OTHER, 1) == 1
    assert await worker.parked(9) == {OTHER: 1}
    assert (await claim(worker, refinement_id, job=2)).claimed.permit == OTHER


async def test_a_permit_whose_job_was_lost_is_no_loss(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await parked(store, worker)
    await worker.resume_parked(MODEL, 1)
    await redis.delete(ListQueue.key, keys.WAITING)
    await redis.zadd(keys.DUE, {refinement_id: 1})
    await be_up(redis)
    assert await worker.recover(include_queued=False) == 1
    assert (await claim(worker, refinement_id, job=3)).claimed.permit is None


async def test_what_was_waited_does_not_count_as_played(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await parked(store, worker)
    key = keys.SUMMARY + refinement_id
    await redis.hincrby(key, "parked_at", -60_000)
    await redis.hincrby(key, "started_at", -60_000)
    await worker.resume_parked(MODEL, 1)
    claimed = (await claim(worker, refinement_id, job=2)).claimed
    played_s = claimed.elapsed_s
    assert 60 <= claimed.waited_s < 80
    assert played_s < 20


async def test_it_is_not_parked_when_it_stops_or_is_canceled(
    store: Store, worker: WorkerStore
) -> None:
    for command in (store.cancel, store.finish):
        held = await started(store, worker)
        await held.journal.append([step(), iteration(held)], JUDGED)
        await command(TENANT, held.id)
        assert not (await park(held)).is_parked
    held = await started(store, worker)
    assert not (await park(held, stopping())).is_parked
    assert await worker.parked(9) == {}


async def test_one_that_waited_for_too_long_is_stopped_and_claimed_before_others(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await parked(store, worker)
    await redis.delete(ListQueue.key)
    queued = await submit(store)
    await expire_wait(redis, refinement_id)
    assert await worker.recover(include_queued=False) == 1
    assert await front(redis) == [f"{refinement_id}-2", f"{queued}-1"]
    held = await claim(worker, refinement_id, job=2)
    assert held.claimed.state.stopping is StopReason.DEADLINE
    (stopped,) = [
        it.data for it in await recorded(worker, refinement_id) if isinstance(it.data, Stopping)
    ]
    assert stopped.limit == "max_wait_seconds"
    assert await worker.parked(9) == {}


async def test_a_limit_that_was_raised_meanwhile_counts(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await parked(store, worker)
    await expire_wait(redis, refinement_id)
    await store.change(TENANT, refinement_id, LimitsChange(max_wait_seconds=90_000))
    await redis.zadd(keys.DUE, {refinement_id: 1})
    assert await worker.recover(include_queued=False) == 0
    due = await redis.zscore(keys.DUE, refinement_id)
    seconds, _ = await redis.time()
    assert due is not None
    assert 3_500 < due / 1000 - seconds < 3_700


@pytest.mark.parametrize("how", ["cancel", "erase"])
async def test_commands_need_no_worker(
    store: Store, worker: WorkerStore, redis: Redis, how: str
) -> None:
    refinement_id = await parked(store, worker, (MODEL, OTHER))
    if how == "erase":
        await store.erase(TENANT, refinement_id)
    else:
        canceled = await store.cancel(TENANT, refinement_id)
        assert (canceled.status, canceled.waiting) == (Status.CANCELED, None)
    left = cast("list[bytes]", await redis.keys(keys.PARKED + "*"))
    assert left == []
    assert await worker.resume_parked(MODEL, 1) == 0


async def test_a_retry_begins_without_waits(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await parked(store, worker)
    await worker.resume_parked(MODEL, 1)
    held = await claim(worker, refinement_id, job=2)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    await redis.hset(keys.SUMMARY + refinement_id, "waited_ms", 80_000_000)
    assert (await store.retry(TENANT, refinement_id)).waiting is None
    claimed = (await claim(worker, refinement_id, job=3)).claimed
    counted_s = claimed.elapsed_s
    assert (claimed.waited_s, round(counted_s, -1)) == (0, 0)


async def deadline_passes(redis: Redis, refinement_id: str) -> None:
    await redis.hset(keys.SUMMARY + refinement_id, "deadline", 1)
    await redis.zadd(keys.DEADLINES, {refinement_id: 1})
    await be_up(redis)


async def redis_time(redis: Redis) -> datetime:
    seconds, _ = await redis.time()
    return datetime.fromtimestamp(seconds, UTC)


def due_at(deadline: datetime) -> NewRefinement:
    given = new()
    return replace(given, request=given.request.model_copy(update={"deadline": deadline}))


async def with_deadline(store: Store, redis: Redis) -> str:
    deadline = await redis_time(redis) + timedelta(hours=1)
    return (await store.create(due_at(deadline), None)).id


async def test_a_deadline_must_be_ahead_and_near(store: Store, redis: Redis) -> None:
    now = await redis_time(redis)
    for away, why in ((timedelta(0), "future"), (timedelta(days=31), "30 days")):
        with pytest.raises(InvalidRequest, match=why) as refused:
            await store.create(due_at(now + away), None)
        assert refused.value.errors[0].pointer == "/deadline"
    assert await redis.keys(keys.SUMMARY + "*") == []


async def test_a_deadline_ends_what_no_worker_has_taken(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await with_deadline(store, redis)
    await deadline_passes(redis, refinement_id)
    assert await worker.recover(include_queued=False) == 0
    failed = await store.snapshot(TENANT, refinement_id)
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (Status.FAILED, "nothing_judged")
    assert await kinds(store, refinement_id) == [
        EventType.QUEUED, EventType.STOPPING, EventType.FAILED
    ]  # fmt: skip
    assert await worker.claim(refinement_id, f"{refinement_id}-1", "worker-1") is None


async def is_stopped_by_its_deadline(worker: WorkerStore, redis: Redis, held: HeldClaim) -> None:
    await deadline_passes(redis, held.id)
    jobs = await redis.hget(keys.SUMMARY + held.id, "jobs")
    assert await worker.recover(include_queued=False) == 1
    again = await claim(worker, held.id, job=int(jobs or 0) + 1)
    assert again.claimed.state.stopping is StopReason.DEADLINE


async def test_a_deadline_ends_waits_and_reviews(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await claim(worker, await with_deadline(store, redis))
    assert held.claimed.left_s is not None
    assert 3_500 < held.claimed.left_s <= 3_600
    await park(held)
    await is_stopped_by_its_deadline(worker, redis, held)
    asked = await paused(store, worker)
    await is_stopped_by_its_deadline(worker, redis, asked)


async def test_a_worker_ends_by_itself_what_it_holds_at_its_deadline(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await claim(worker, await with_deadline(store, redis))
    await deadline_passes(redis, held.id)
    assert await worker.recover(include_queued=False) == 0
    assert await redis.zscore(keys.DEADLINES, held.id) is not None
    await expire_lease(redis, held.id)
    await redis.zadd(keys.DEADLINES, {held.id: 1})
    assert await worker.recover(include_queued=False) >= 1
    await held_back_is_gone(store, held)


async def held_back_is_gone(store: Store, held: HeldClaim) -> None:
    with pytest.raises(Fenced):
        await held.journal.append([step()])
    assert EventType.STOPPING in await kinds(store, held.id)


async def test_a_retry_lifts_a_deadline_that_has_passed(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await with_deadline(store, redis)
    await deadline_passes(redis, refinement_id)
    await worker.recover(include_queued=False)
    await store.retry(TENANT, refinement_id)
    assert (await claim(worker, refinement_id, job=2)).claimed.left_s is None
    with pytest.raises(Conflict):
        await store.retry(TENANT, refinement_id)


EDITOR = "offline:editor"
"""The model of both seats of what `submit` submits."""


async def test_one_that_is_parked_before_it_began_is_queued_as_before(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    await be_up(redis)
    refinement_id = await submit(store)
    before = await store.snapshot(TENANT, refinement_id)
    assert await worker.park_queued(refinement_id, [EDITOR], 10)
    assert await store.snapshot(TENANT, refinement_id) == before
    assert await worker.claim(refinement_id, f"{refinement_id}-1", "worker-1") is None
    assert await worker.recover(include_queued=True) == 0
    assert await worker.parked(9) == {EDITOR: 1}
    assert await worker.resume_parked(EDITOR, 1) == 1
    held = await claim(worker, refinement_id, job=2)
    assert (held.claimed.permit, held.claimed.attempt, held.claimed.waited_s) == (EDITOR, 1, 0)
    assert await redis.exists(keys.PARKED_QUEUED) == 0


async def test_only_a_queued_one_without_a_permit_is_parked_before_it_began(
    store: Store, worker: WorkerStore
) -> None:
    running = await started(store, worker)
    assert not await worker.park_queued(running.id, [EDITOR], 10)
    resumed = await submit(store)
    await worker.park_queued(resumed, [EDITOR], 10)
    await worker.resume_parked(EDITOR, 1)
    assert not await worker.park_queued(resumed, [EDITOR], 10)
    assert not await worker.park_queued("ref_unknown", [EDITOR], 10)


async def test_a_queued_one_is_parked_when_no_model_of_a_seat_would_do(
    store: Store, worker: WorkerStore
) -> None:
    backed = ModelChoice(model=MODEL, fallbacks=(OTHER,))
    choices = {"generator": ModelChoice(model=EDITOR), "critic": backed}
    it = (await store.create(replace(new(), models=choices), None)).id
    assert not await worker.park_queued(it, [MODEL], 10)
    assert await worker.park_queued(it, [OTHER, MODEL], 10)
    assert await worker.parked(9) == {MODEL: 1, OTHER: 1}


async def test_no_more_queued_ones_are_parked_than_allowed(
    store: Store, worker: WorkerStore
) -> None:
    first, second = await submit(store), await submit(store)
    assert await worker.park_queued(first, [EDITOR], 1)
    assert not await worker.park_queued(second, [EDITOR], 1)
    await worker.resume_parked(EDITOR, 1)
    assert await worker.park_queued(second, [EDITOR], 1)


async def test_commands_and_limits_act_on_one_that_is_parked_before_it_began(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    await be_up(redis)
    canceled, erased, changed, finished = [await submit(store) for _ in range(4)]
    for each in (canceled, erased, changed, finished):
        assert await worker.park_queued(each, [EDITOR], 10)
    await store.cancel(TENANT, canceled)
    await store.erase(TENANT, erased)
    await store.change(TENANT, changed, LimitsChange(max_wait_seconds=1))
    await store.finish(TENANT, finished)
    assert (await store.snapshot(TENANT, canceled)).status is Status.CANCELED
    assert await worker.parked(9) == {EDITOR: 2}
    assert await worker.recover(include_queued=True) == 0
    assert await worker.resume_parked(EDITOR, 9) == 2
    for each in (changed, finished):
        assert (await claim(worker, each, job=2)).claimed.waited_s == 0
    assert await redis.exists(keys.PARKED_QUEUED) == 0


async def test_one_that_is_parked_before_it_began_fails_at_its_deadline(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    await be_up(redis)
    deadline = datetime.now(UTC) + timedelta(milliseconds=200)
    request = new().request.model_copy(update={"deadline": deadline})
    refinement_id = (await store.create(replace(new(), request=request), None)).id
    assert await worker.park_queued(refinement_id, [EDITOR], 10)
    await redis.zadd(keys.DEADLINES, {refinement_id: 1})
    await worker.recover(include_queued=False)
    ended = await store.snapshot(TENANT, refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.FAILED, StopReason.ERROR)
    assert await worker.parked(9) == {}
