"""Ratings are journaled in any status, end no stream, and change nothing else."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from redis.asyncio import Redis

from app.contract.errors import Conflict, IdempotencyMismatch, RefinementNotFound
from app.contract.events import EventType
from app.contract.ratings import Rated
from app.contract.status import Status
from app.service.watching import Shutdown, Watching
from app.store import Addition, Fenced, Store, WorkerStore
from app.store.creation import Creation, Enqueuer
from app.store.redis import keys
from app.store.redis.codec import decode_sums
from app.store.redis.committer import Committer
from app.store.redis.connection import listening_client, worker_client
from app.store.redis.keys import Word
from app.store.redis.scripts import MOST_RATINGS
from app.store.wakeups import Wakeups
from tests.store.store_harness import (
    BEST,
    BROKEN,
    COMPLETED,
    FAILED,
    JUDGED,
    SUCCEEDED,
    TENANT,
    HeldClaim,
    ListQueue,
    claim,
    everything,
    iteration,
    kinds,
    recorded,
    started,
    step,
)

GOOD = Rated(path=BEST.path, sha256=BEST.sha256, score=0.9, by="Ann")
BAD = GOOD.model_copy(update={"score": 0.1, "by": None, "note": "Stiff."})


async def judged(store: Store, worker: WorkerStore) -> HeldClaim:
    held = await started(store, worker)
    await held.journal.append([step(), iteration(held)], JUDGED)
    return held


async def succeeded(store: Store, worker: WorkerStore) -> HeldClaim:
    held = await judged(store, worker)
    await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    return held


async def test_a_running_refinement_goes_on_after_a_rating(
    store: Store, worker: WorkerStore
) -> None:
    held = await judged(store, worker)
    event, _ = await store.rate(TENANT, held.id, GOOD)
    assert (event.event, event.type, event.data) == (5, EventType.RATED, GOOD)
    state = await held.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    assert (state.status, state.last_event) == (Status.SUCCEEDED, 6)


async def test_a_rating_changes_only_the_number_of_the_last_event(
    store: Store, worker: WorkerStore
) -> None:
    held = await succeeded(store, worker)
    before = await store.snapshot(TENANT, held.id)
    await store.rate(TENANT, held.id, GOOD)
    after = await store.snapshot(TENANT, held.id)
    assert after == before.model_copy(update={"last_event": before.last_event + 1})


async def test_the_terminal_event_stays_as_it_was_sent_whatever_comes_later(
    store: Store, worker: WorkerStore
) -> None:
    held = await judged(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    sent = (await store.events(TENANT, held.id))[-1]
    await store.rate(TENANT, held.id, GOOD)
    await store.rate(TENANT, held.id, BAD)
    rated = await store.events(TENANT, held.id)
    assert rated[4] == sent
    assert [it.is_last for it in rated] == [False] * 4 + [True] * 3
    await store.retry(TENANT, held.id)
    retried = await store.events(TENANT, held.id)
    assert retried[4].json == sent.json
    assert not any(it.is_last for it in retried)
    assert (await store.events(TENANT, held.id, 4, 1))[0].json == sent.json


class MeddledCommitter(Committer):
    """Lets something happen before each summary is read, as long as there is something."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client)
        self.meddling: list[Callable[[], Awaitable[object]]] = []

    def execute(self, *command: Word) -> asyncio.Future[Any]:
        read = super().execute
        if command[0] != "HGETALL" or not self.meddling:
            return read(*command)
        meddle = self.meddling.pop(0)

        async def later() -> Any:
            await meddle()
            return await read(*command)

        return asyncio.ensure_future(later())


@pytest.mark.parametrize("then", [EventType.RATED, EventType.RETRIED])
async def test_a_terminal_event_stays_as_it_was_although_another_comes_while_it_is_read(
    store: Store, worker: WorkerStore, redis_url: str, then: EventType
) -> None:
    held = await judged(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    *_, sent = await store.events(TENANT, held.id)
    async with worker_client(redis_url) as client, aclosing(MeddledCommitter(client)) as committer:
        queue = ListQueue()
        creation = Creation(queue, committer, time.time, queue_max=9, lease_ms=9, retention_ms=9)
        reading = Store(committer, creation, Enqueuer(queue, committer, 9), 9)
        if then is EventType.RATED:
            committer.meddling = [lambda: store.rate(TENANT, held.id, GOOD)]
        else:
            committer.meddling = [lambda: store.retry(TENANT, held.id)]
        *_, ended, last = await reading.events(TENANT, held.id)
    assert (ended.json, last.type) == (sent.json, then.encode())
    assert ended.is_last == (then is EventType.RATED)


async def test_what_was_rated_after_its_failure_is_retried_and_ends_again(
    store: Store, worker: WorkerStore
) -> None:
    held = await judged(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    await store.rate(TENANT, held.id, GOOD)
    await store.retry(TENANT, held.id)
    again = await claim(worker, held.id, job=2)
    await again.journal.append([COMPLETED], SUCCEEDED, to=Status.SUCCEEDED)
    await store.rate(TENANT, held.id, BAD)
    events = await store.decoded_events(TENANT, held.id)
    assert [event.type for event in events[4:]] == [
        EventType.FAILED,
        EventType.RATED,
        EventType.RETRIED,
        EventType.RESUMED,
        EventType.COMPLETED,
        EventType.RATED,
    ]
    assert [events[n].data.last_event for n in (4, 8)] == [5, 9]  # type: ignore[union-attr]


async def test_no_worker_takes_up_what_was_rated_after_its_end(
    store: Store, worker: WorkerStore
) -> None:
    held = await succeeded(store, worker)
    await store.rate(TENANT, held.id, GOOD)
    with pytest.raises(Fenced):
        await recorded(worker, held.id)
    assert await worker.claim(held.id, f"{held.id}-2", "worker-1") is None


async def test_a_stream_ends_with_the_work_and_not_with_a_later_rating(
    store: Store, worker: WorkerStore, redis_url: str
) -> None:
    held = await succeeded(store, worker)
    for _ in range(20):  # more than are read at a time
        await store.rate(TENANT, held.id, GOOD)
    ended = 5
    async with listening_client(redis_url) as listener, Wakeups(listener) as wakeups:
        watching = Watching(store, wakeups, Shutdown())
        feed = await watching.follow(TENANT, held.id, 0)
        assert feed is not None
        assert [getattr(event, "number", None) for event in feed.first] == [1, 2, 3, 4, ended]
        assert [batch async for batch in feed.later] == []
        for after in (ended, ended + 1, ended + 20):
            assert await watching.follow(TENANT, held.id, after) is None


async def test_a_command_that_is_repeated_counts_once(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await succeeded(store, worker)
    adds = [Addition(keys.PREFIX + "sums", {"a": (1,)})]
    first, is_replayed = await store.rate(TENANT, held.id, GOOD, adds, "key")
    assert not is_replayed
    await store.rate(TENANT, held.id, BAD, adds)
    assert await store.rate(TENANT, held.id, GOOD, adds, "key") == (first, True)
    with pytest.raises(IdempotencyMismatch):
        await store.rate(TENANT, held.id, BAD, adds, "key")
    assert (await kinds(store, held.id)).count(EventType.RATED) == 2
    sums = await redis.hget(keys.PREFIX + "sums", "a")
    assert isinstance(sums, bytes)
    assert decode_sums(sums) == [2]


async def test_a_refinement_takes_a_limited_number_of_ratings(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await judged(store, worker)
    await redis.hset(keys.SUMMARY + held.id, "ratings", MOST_RATINGS - 1)
    await store.rate(TENANT, held.id, GOOD)
    with pytest.raises(Conflict, match="200 ratings"):
        await store.rate(TENANT, held.id, GOOD)


async def test_it_is_erased_with_its_ratings(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held = await succeeded(store, worker)
    await store.rate(TENANT, held.id, BAD)
    with pytest.raises(RefinementNotFound):
        await store.rate("theirs", held.id, GOOD)
    await store.erase(TENANT, held.id)
    assert "Stiff" not in str(await everything(redis))
    with pytest.raises(RefinementNotFound):
        await store.rate(TENANT, held.id, GOOD)
