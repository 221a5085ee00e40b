"""Watchers take events from messages, and read the journal where one may be missing."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from app.contract.events import EventType, StepDelta
from app.contract.status import Status
from app.service.watching import EventFeed, Shutdown, Watching
from app.settings import Settings
from app.store import Entry, Store, WorkerStore, open_wakeups
from app.store.live_texts import LiveTexts
from app.store.redis import keys
from app.store.redis.scripts import MOST_PUBLISHED
from app.store.state import StoredEvent
from app.store.wakeups import MOST_BUFFERED, EventBuffer, Wakeups
from tests.store.store_harness import TENANT, started, step, submit, subscribers
from tests.waiting import TIMEOUT_S

LOOK_S = 0.02


@pytest.fixture
async def wakeups(settings: Settings) -> AsyncIterator[Wakeups]:
    async with open_wakeups(settings) as wakeups:
        yield wakeups


@pytest.fixture
def watching(store: Store, wakeups: Wakeups) -> Watching:
    return Watching(store, wakeups, Shutdown())


async def follow(watching: Watching, refinement_id: str) -> EventFeed:
    feed = await watching.follow(TENANT, refinement_id, 0)
    assert feed is not None
    return feed


def numbers_of(batch: tuple[StoredEvent | StepDelta, ...]) -> list[int]:
    return [event.number for event in batch if isinstance(event, StoredEvent)]


async def numbers(feed: EventFeed, until: int) -> list[int]:
    found = numbers_of(feed.first)
    while found[-1] < until:
        found += numbers_of(await anext(feed.later))
    await feed.later.aclose()
    return found


async def calls(redis: Redis, command: str) -> int:
    stats = await redis.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


async def test_a_published_event_is_the_one_in_the_journal(
    store: Store, worker: WorkerStore, wakeups: Wakeups
) -> None:
    held = await started(store, worker)
    async with wakeups.follow(held.id) as buffer:
        assert buffer.take(2) is None
        await held.journal.append([step("a"), step("b")])
        assert await buffer.wait(TIMEOUT_S)
        assert buffer.take(2) == await store.events(TENANT, held.id, 2)


async def test_a_stream_reads_the_journal_at_its_start_and_at_its_end(
    store: Store, worker: WorkerStore, watching: Watching, redis: Redis
) -> None:
    held = await started(store, worker)
    before = await calls(redis, "xrange")
    feed = await follow(watching, held.id)
    for number in range(10):
        await held.journal.append([step(str(number))])
        assert await anext(feed.later)
    assert await calls(redis, "xrange") == before + 1
    await held.journal.append([Entry(EventType.FAILED)], to=Status.FAILED)
    assert [numbers_of(batch) async for batch in feed.later] == [[13]]
    assert await calls(redis, "xrange") == before + 2


async def test_a_comment_needs_no_redis(
    store: Store, worker: WorkerStore, wakeups: Wakeups, redis: Redis
) -> None:
    held = await started(store, worker)
    feed = await follow(Watching(store, wakeups, Shutdown(), LOOK_S), held.id)
    before = await calls(redis, "evalsha"), await calls(redis, "hmget")
    assert [await anext(feed.later) for _ in range(5)] == [()] * 5
    assert (await calls(redis, "evalsha"), await calls(redis, "hmget")) == before
    await feed.later.aclose()


async def test_a_long_entry_is_read_from_the_journal(
    store: Store, worker: WorkerStore, watching: Watching
) -> None:
    held = await started(store, worker)
    feed = await follow(watching, held.id)
    for text in ("a", "b" * MOST_PUBLISHED, "c"):
        await held.journal.append([step(text=text)])
    assert await numbers(feed, until=5) == [1, 2, 3, 4, 5]


async def test_a_watcher_that_takes_nothing_keeps_a_bounded_amount_and_misses_no_event(
    store: Store, worker: WorkerStore, watching: Watching
) -> None:
    held = await started(store, worker)
    feed = await follow(watching, held.id)
    size = MOST_PUBLISHED * 9 // 10
    count = 2 * MOST_BUFFERED // size
    for number in range(count):
        await held.journal.append([step(str(number), text="x" * size)])
    assert await numbers(feed, until=2 + count) == [*range(1, 3 + count)]


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_lost_message_leaves_no_gap(
    store: Store, worker: WorkerStore, wakeups: Wakeups, redis: Redis, lost: int
) -> None:
    held = await started(store, worker)
    async with wakeups.follow(held.id) as buffer:
        assert buffer.take(2) is None
        later = f"{3 + lost} 1700000000000 step.started {{}}"
        await redis.publish(keys.ENTRIES_OF + held.id, later)
        assert await buffer.wait(TIMEOUT_S)
        assert buffer.take(2) is None
        await held.journal.append([step()])
        assert await buffer.wait(TIMEOUT_S)
        assert buffer.take(2) == await store.events(TENANT, held.id, 2)


def event(number: int, size: int = 1) -> StoredEvent:
    return StoredEvent(number, b"step.started", b"x" * size)


def test_events_that_were_read_already_are_left_out() -> None:
    buffer = EventBuffer()
    assert buffer.take(0) is None
    buffer.receive((event(2), event(3)))
    buffer.receive((event(4),))
    assert buffer.take(3) == (event(4),)
    assert buffer.take(4) == ()


def test_a_full_buffer_is_emptied_and_the_journal_read() -> None:
    buffer = EventBuffer()
    buffer.take(0)
    buffer.receive((event(1, MOST_BUFFERED),))
    buffer.receive((event(2),))
    buffer.receive((event(3),))
    assert buffer.take(0) is None
    buffer.receive((event(4),))
    assert buffer.take(3) == (event(4),)


async def test_channels_are_left_with_their_last_watcher(wakeups: Wakeups, redis: Redis) -> None:
    channel = keys.ENTRIES_OF + "ref_1"

    async with wakeups.watch("ref_1"), wakeups.follow("ref_1"):
        assert await subscribers(redis, channel) == 1
    async with wakeups.watch("ref_1"):  # before the channel was left
        assert await subscribers(redis, channel) == 1

    async with asyncio.timeout(TIMEOUT_S):
        while await subscribers(redis, channel):  # noqa: ASYNC110 - Redis does not tell
            await asyncio.sleep(0.01)


async def test_only_texts_watched_anew_are_announced_at_once(
    store: Store, wakeups: Wakeups, redis: Redis
) -> None:
    texts = LiveTexts()
    watching = Watching(store, wakeups, Shutdown(), texts=texts)
    async with redis.pubsub() as listener, asyncio.timeout(TIMEOUT_S):
        await listener.subscribe(keys.WATCHED)
        feeds = []
        for refinement_id in [await submit(store) for _ in range(3)]:
            feeds.append(await watching.follow(TENANT, refinement_id, 0, deltas=True))
            while (
                message := await listener.get_message(
                    ignore_subscribe_messages=True, timeout=TIMEOUT_S
                )
            ) is None:
                pass
            assert message["data"] == f"+{refinement_id}".encode()
