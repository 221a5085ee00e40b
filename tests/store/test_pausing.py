"""A paused refinement holds no worker, and goes on with a person's word or its time-out."""

from datetime import timedelta
from typing import cast

import pytest
from redis.asyncio import Redis

from app.contract.errors import Conflict, IdempotencyMismatch, RefinementNotFound
from app.contract.events import EventType, Resumed, Stopping
from app.contract.limits import LimitsChange
from app.contract.reviews import OnTimeout, ReviewDecision, Reviewed
from app.contract.snapshot import Snapshot
from app.contract.status import Status, StopReason
from app.settings import Settings
from app.store import Fenced, Fields, Store, WorkerStore, open_store
from app.store.redis import keys
from tests.store.store_harness import (
    COMPLETED,
    JUDGED,
    RESULT,
    SUCCEEDED,
    TENANT,
    ListQueue,
    RefusedQueue,
    claim,
    doubt,
    expire_review,
    iteration,
    kinds,
    pause,
    paused,
    recorded,
    started,
    step,
    stopping,
)

APPROVED = ReviewDecision(action="approve")


async def last_job(redis: Redis) -> bytes:
    [job] = cast("list[bytes]", await redis.lrange(ListQueue.key, -1, -1))
    return job


async def test_what_is_paused_tells_what_is_asked_and_until_when(
    store: Store, worker: WorkerStore
) -> None:
    held = await paused(store, worker, timeout_s=90.5)
    snapshot = await store.snapshot(TENANT, held.id)
    assert (snapshot.status, snapshot.best) == (Status.PAUSED, JUDGED.best)
    assert snapshot.review is not None
    assert (snapshot.review.key, snapshot.review.path) == ("iterations/1/review", "iterations/1")
    assert snapshot.review.deadline - snapshot.review.asked_at == timedelta(seconds=90.5)
    assert (await kinds(store, held.id))[-1] is EventType.PAUSED


async def test_what_is_paused_holds_no_worker(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await paused(store, worker)
    assert await redis.hmget(keys.SUMMARY + held.id, "holder", "claimant") == [None] * 2
    with pytest.raises(Fenced):
        await held.journal.look()
    with pytest.raises(Fenced):
        await held.journal.append([step()])
    assert await worker.claim(held.id, f"{held.id}-2", "worker-1") is None


async def test_a_review_puts_it_back_into_the_queue(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await paused(store, worker)
    word = ReviewDecision(action="revise", feedback='Say "weeks", not „days“: 🙂', score=0.25)
    snapshot = await store.review(TENANT, held.id, word)
    assert (snapshot.status, snapshot.review, snapshot.phase) == (Status.QUEUED, None, ())
    assert await last_job(redis) == f"{held.id}-2".encode()
    again = await claim(worker, held.id, job=2)
    *_, said, resumed = [it.data for it in await recorded(worker, held.id)]
    assert said == Reviewed(
        key="iterations/1/review",
        action="revise",
        feedback=word.feedback,
        score=0.25,
        by="reviewer",
    )
    assert resumed == Resumed(token=2, replayed=2)
    await again.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    assert (await store.snapshot(TENANT, held.id)).result == RESULT


async def test_a_text_that_replaces_another_comes_back_as_it_was_sent(
    store: Store, worker: WorkerStore
) -> None:
    held = await paused(store, worker)
    text = 'Zeile 1\n"quoted" \\ 🙂 \u0000 end'
    await store.review(TENANT, held.id, ReviewDecision(action="replace", draft=text))
    said = (await recorded(worker, held.id))[-1].data
    assert isinstance(said, Reviewed)
    assert said.draft == text


async def test_a_job_that_is_lost_after_the_review_is_missed_by_an_idle_worker(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await paused(store, worker)
    await store.review(TENANT, held.id, APPROVED)
    await redis.delete(ListQueue.key)
    await doubt(redis, held.id)
    assert await worker.recover(include_queued=True) == 1
    assert (await claim(worker, held.id, job=3)).token == 2


async def test_a_review_holds_though_its_job_could_not_be_posted(
    store: Store, worker: WorkerStore, redis: Redis, settings: Settings
) -> None:
    held = await paused(store, worker)
    async with open_store(settings, RefusedQueue()) as api:
        assert (await api.review(TENANT, held.id, APPROVED)).status is Status.QUEUED
    assert await redis.zscore(keys.WAITING, held.id) is not None


async def test_time_spent_paused_is_not_counted(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await paused(store, worker)
    key = keys.SUMMARY + held.id
    for field in ("started_at", "paused_at"):  # both happened an hour earlier
        await redis.hincrby(key, field, -3_600_000)
    await store.review(TENANT, held.id, APPROVED)
    second = await claim(worker, held.id, job=2)
    counted_s = second.claimed.elapsed_s
    assert counted_s < 3_000
    await pause(second, key="iterations/2/review")
    for field in ("started_at", "paused_at"):
        await redis.hincrby(key, field, -3_600_000)
    await store.review(TENANT, held.id, APPROVED)
    counted_s = (await claim(worker, held.id, job=3)).claimed.elapsed_s
    assert counted_s < 3_000


@pytest.mark.parametrize("is_asked", [True, False])
async def test_only_the_review_that_is_pending_is_taken(
    store: Store, worker: WorkerStore, is_asked: bool
) -> None:
    held = await (paused if is_asked else started)(store, worker)
    other = ReviewDecision(action="approve", path="iterations/7/review")
    with pytest.raises(Conflict, match="iterations/1/review" if is_asked else "not waiting"):
        await store.review(TENANT, held.id, other)
    assert EventType.REVIEWED not in await kinds(store, held.id)


async def test_a_review_of_what_has_ended_comes_too_late(store: Store, worker: WorkerStore) -> None:
    held = await paused(store, worker)
    await store.cancel(TENANT, held.id)
    with pytest.raises(Conflict, match="ended"):
        await store.review(TENANT, held.id, APPROVED)


async def test_a_review_of_another_tenants_refinement_finds_nothing(
    store: Store, worker: WorkerStore
) -> None:
    held = await paused(store, worker)
    with pytest.raises(RefinementNotFound):
        await store.review("other", held.id, APPROVED)


async def test_a_review_that_is_repeated_with_its_id_is_answered_again(
    store: Store, worker: WorkerStore
) -> None:
    held = await paused(store, worker)
    for _ in range(2):
        assert (await store.review(TENANT, held.id, APPROVED, "r1")).status is Status.QUEUED
    await claim(worker, held.id, job=2)
    assert (await store.review(TENANT, held.id, APPROVED, "r1")).status is Status.RUNNING
    for other in (
        ReviewDecision(action="reject"),
        ReviewDecision(action="approve", path="iterations/1/review"),
    ):
        with pytest.raises(IdempotencyMismatch):
            await store.review(TENANT, held.id, other, "r1")
    with pytest.raises(Conflict):
        await store.review(TENANT, held.id, APPROVED, "r2")
    assert (await kinds(store, held.id)).count(EventType.REVIEWED) == 1


async def test_finish_puts_what_is_paused_into_the_queue_to_end(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await paused(store, worker)
    assert (await store.finish(TENANT, held.id)).status is Status.QUEUED
    assert (await kinds(store, held.id))[-2:] == [EventType.PAUSED, EventType.STOPPING]
    assert await last_job(redis) == f"{held.id}-2".encode()
    again = await claim(worker, held.id, job=2)
    assert again.claimed.state.stopping is StopReason.FINISHED_EARLY


async def test_what_is_paused_is_canceled_at_once(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await paused(store, worker, timeout_s=0.001)
    snapshot = await store.cancel(TENANT, held.id)
    assert (snapshot.status, snapshot.result) == (Status.CANCELED, RESULT)
    assert snapshot.review is None
    assert await worker.recover(include_queued=False) == 0


async def test_limits_change_while_it_is_paused(store: Store, worker: WorkerStore) -> None:
    held = await paused(store, worker)
    await store.change(TENANT, held.id, LimitsChange(max_iterations=9))
    assert (await store.snapshot(TENANT, held.id)).status is Status.PAUSED
    await store.review(TENANT, held.id, APPROVED)
    assert (await claim(worker, held.id, job=2)).claimed.state.limits.max_iterations == 9


async def test_what_is_paused_is_listed_and_can_be_erased(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await paused(store, worker)
    page = await store.page(TENANT, status=Status.PAUSED)
    assert [it.id for it in page.data] == [held.id]
    await store.erase(TENANT, held.id)
    assert await redis.zscore(keys.DUE, held.id) is None
    assert (await store.page(TENANT, status=Status.PAUSED)).data == ()


@pytest.mark.parametrize(
    ("on_timeout", "said"),
    [
        ("finish", Stopping(reason=StopReason.FINISHED_EARLY)),
        ("approve", Reviewed(key="iterations/1/review", action="approve", by="timeout")),
        ("reject", Reviewed(key="iterations/1/review", action="reject", by="timeout")),
    ],
)
async def test_a_review_that_times_out_takes_the_agreed_action(
    store: Store,
    worker: WorkerStore,
    redis: Redis,
    on_timeout: OnTimeout,
    said: Stopping | Reviewed,
) -> None:
    held = await paused(store, worker, on_timeout=on_timeout)
    assert await worker.recover(include_queued=False) == 0
    await expire_review(redis, held.id)
    assert await worker.recover(include_queued=False) == 1
    assert (await store.snapshot(TENANT, held.id)).status is Status.QUEUED
    assert (await recorded(worker, held.id))[-1].data == said
    assert await last_job(redis) == f"{held.id}-2".encode()
    again = await claim(worker, held.id, job=2)
    assert again.claimed.resumed
    fields = Fields(stop_reason=StopReason.REJECTED, best_passed=False)
    await again.journal.append([COMPLETED], fields, to=Status.SUCCEEDED)
    why = (await store.snapshot(TENANT, held.id)).reason
    assert (why == "No reviewer decided in time.") is (on_timeout != "finish")


async def test_a_time_out_whose_job_is_never_posted_is_missed_by_an_idle_worker(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await paused(store, worker)
    await expire_review(redis, held.id)
    await worker.check_due(100, include_queued=False)
    assert await worker.check_due(100, include_queued=False) == (0, ())
    await doubt(redis, held.id)
    assert await worker.recover(include_queued=True) == 1


@pytest.mark.parametrize("why", ["finish", "cancel", "stopping before", "stopping with it"])
async def test_no_review_is_asked_for_of_what_ends_anyway(
    store: Store, worker: WorkerStore, why: str
) -> None:
    held = await started(store, worker)
    if why == "finish":
        await store.finish(TENANT, held.id)
    elif why == "cancel":
        await store.cancel(TENANT, held.id)
    elif why == "stopping before":
        await held.journal.append([stopping()])
    entries = [stopping()] if why == "stopping with it" else []
    state = await pause(held, *entries)
    assert state.status is (Status.CANCELING if why == "cancel" else Status.RUNNING)
    assert (state.stopping is not None) == why.startswith("stopping")
    assert EventType.PAUSED not in await kinds(store, held.id)
    assert (await store.snapshot(TENANT, held.id)).best == JUDGED.best  # the rest was written
    await held.journal.append([step("more")])  # it is still this worker's


async def test_what_only_asks_for_a_review_writes_nothing_when_it_ends_anyway(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    await held.journal.append([iteration(held)], JUDGED)
    await store.finish(TENANT, held.id)
    before = await store.snapshot(TENANT, held.id)
    await pause(held, alone=True)
    assert await store.snapshot(TENANT, held.id) == before


async def test_a_pause_burns_no_attempt(store: Store, worker: WorkerStore) -> None:
    held = await started(store, worker)
    for number in range(1, 6):
        await pause(held, key=f"iterations/{number}/review", alone=True)
        await store.review(TENANT, held.id, APPROVED)
        held = await claim(worker, held.id, job=number + 1)
        assert held.claimed.attempt == 1


def is_shown(snapshot: Snapshot) -> bool:
    return snapshot.review is not None


async def test_a_review_is_shown_only_while_it_is_pending(
    store: Store, worker: WorkerStore
) -> None:
    held = await started(store, worker)
    assert not is_shown(await store.snapshot(TENANT, held.id))
    await pause(held)
    assert is_shown(await store.snapshot(TENANT, held.id))
    assert not is_shown(await store.finish(TENANT, held.id))
