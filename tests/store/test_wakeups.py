"""Who watches a refinement is woken when it changes; a lost connection wakes everybody."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from app.contract.reviews import ReviewDecision
from app.settings import Settings
from app.store import Store, WorkerStore, open_wakeups
from app.store.redis import keys
from app.store.wakeups import Wakeups
from tests.store.store_harness import (
    TENANT,
    expire_review,
    pause,
    started,
    step,
    submit,
    subscribers,
)
from tests.waiting import TIMEOUT_S


@pytest.fixture
async def wakeups(settings: Settings) -> AsyncIterator[Wakeups]:
    async with open_wakeups(settings) as wakeups:
        yield wakeups


async def test_an_append_wakes_its_watchers_and_no_others(
    store: Store, worker: WorkerStore, wakeups: Wakeups
) -> None:
    held, other = await started(store, worker), await started(store, worker)
    async with (
        wakeups.watch(held.id) as one,
        wakeups.watch(held.id) as two,
        wakeups.watch(other.id) as three,
    ):
        await held.journal.append([step()])
        assert await one.wait(TIMEOUT_S)
        assert await two.wait(TIMEOUT_S)
        assert not await three.wait(0.05)
        assert not await one.wait(0)


async def test_news_between_two_waits_are_not_missed(
    store: Store, worker: WorkerStore, wakeups: Wakeups
) -> None:
    held = await started(store, worker)
    async with wakeups.watch(held.id) as changed, wakeups.watch(held.id) as probe:
        await held.journal.append([step()])
        assert await probe.wait(TIMEOUT_S)
        assert await changed.wait(0)


async def test_every_change_of_a_snapshot_wakes(
    store: Store, worker: WorkerStore, wakeups: Wakeups
) -> None:
    refinement_id = await submit(store)
    async with wakeups.watch(refinement_id) as changed:
        await worker.claim(refinement_id, f"{refinement_id}-1", "worker-1")
        assert await changed.wait(TIMEOUT_S)
        await store.cancel(TENANT, refinement_id)
        assert await changed.wait(TIMEOUT_S)
        await store.erase(TENANT, refinement_id)
        assert await changed.wait(TIMEOUT_S)


async def test_a_connection_that_came_back_wakes_everybody(redis: Redis, wakeups: Wakeups) -> None:
    async with wakeups.watch("ref_1") as one, wakeups.watch("ref_2") as two:
        await redis.client_kill_filter(_type="pubsub")
        assert await one.wait(TIMEOUT_S)
        assert await two.wait(TIMEOUT_S)


async def test_a_thousand_watchers_share_one_connection(redis: Redis, wakeups: Wakeups) -> None:
    before = (await redis.info("clients"))["connected_clients"]
    watching = [wakeups.watch(f"ref_{n}") for n in range(1_000)]
    for it in watching:
        await it.__aenter__()
    assert (await redis.info("clients"))["connected_clients"] == before
    for it in watching:
        await it.__aexit__(None, None, None)


async def has_subscriber(redis: Redis, channel: keys.Key) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not await subscribers(redis, channel):  # noqa: ASYNC110 - Redis does not tell
            await asyncio.sleep(0.01)


async def test_workers_hear_of_commands_and_of_nothing_else(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    held, queued = await started(store, worker), await submit(store)
    commands = worker.commands()
    first = asyncio.ensure_future(anext(commands))
    await has_subscriber(redis, keys.COMMANDS)
    await held.journal.append([step()])
    await store.cancel(TENANT, held.id)
    await store.finish(TENANT, queued)
    await store.erase(TENANT, queued)
    async with asyncio.timeout(TIMEOUT_S):
        heard = [await first, await anext(commands), await anext(commands)]
    assert heard == [held.id, queued, queued]


@pytest.mark.parametrize("by", ["review", "finish", "time-out", "cancel"])
async def test_a_pause_and_its_end_wake(
    store: Store, worker: WorkerStore, wakeups: Wakeups, redis: Redis, by: str
) -> None:
    held = await started(store, worker)
    async with wakeups.watch(held.id) as changed:
        await pause(held)
        assert await changed.wait(TIMEOUT_S)
        if by == "review":
            await store.review(TENANT, held.id, ReviewDecision(action="approve"))
        elif by == "finish":
            await store.finish(TENANT, held.id)
        elif by == "cancel":
            await store.cancel(TENANT, held.id)
        else:
            await expire_review(redis, held.id)
            await worker.check_due(100, include_queued=False)
        assert await changed.wait(TIMEOUT_S)
