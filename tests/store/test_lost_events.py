"""A stream of events that Redis has lost ends, and resuming it says why."""

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from app.contract.errors import MalformedHeader
from app.contract.events import StepDelta
from app.service.watching import Shutdown, Watching
from app.settings import Settings
from app.store import Store, WorkerStore, open_wakeups
from app.store.state import StoredEvent
from app.store.wakeups import Wakeups
from tests.store.store_harness import TENANT, copied, restore, started, step

LOOK_S = 0.05


def numbers(batch: tuple[StoredEvent | StepDelta, ...]) -> list[int]:
    return [event.number for event in batch if isinstance(event, StoredEvent)]


@pytest.fixture
async def wakeups(settings: Settings) -> AsyncIterator[Wakeups]:
    async with open_wakeups(settings) as wakeups:
        yield wakeups


async def test_a_stream_whose_last_event_is_lost_ends(
    store: Store, worker: WorkerStore, redis: Redis, wakeups: Wakeups
) -> None:
    held = await started(store, worker)
    copy = await copied(redis)
    await held.journal.append([step()])
    watching = Watching(store, wakeups, Shutdown(), LOOK_S)
    feed = await watching.follow(TENANT, held.id, 0)
    assert feed is not None
    assert numbers(feed.first) == [1, 2, 3]
    assert await anext(feed.later) == ()  # nothing new, and nothing lost
    await restore(redis, copy)
    await redis.client_kill_filter(_type="pubsub")  # as a restart or a failover does
    assert {batch async for batch in feed.later} <= {()}
    with pytest.raises(MalformedHeader, match="event 3 does not exist; the last event is 2"):
        await watching.follow(TENANT, held.id, 3)


async def test_a_stream_goes_on_when_its_worker_writes_the_lost_events_again(
    store: Store, worker: WorkerStore, redis: Redis, wakeups: Wakeups
) -> None:
    held = await started(store, worker)
    copy = await copied(redis)
    await held.journal.append([step("a")])
    feed = await Watching(store, wakeups, Shutdown()).follow(TENANT, held.id, 0)
    assert feed is not None
    assert numbers(feed.first) == [1, 2, 3]
    await restore(redis, copy)
    await held.journal.append([step("b")])
    assert numbers(await anext(feed.later)) == [4]
