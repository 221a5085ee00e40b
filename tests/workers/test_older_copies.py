"""Redis comes back with an older copy of its data: a backup, or a replica that lagged behind."""

import asyncio
from typing import Any

from redis.asyncio import Redis

from app.settings import Settings
from app.store import WorkerStore, open_worker_store
from tests.store.store_harness import copied, restore
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import NoQueue, RefinementHarness, pausing_at, scores
from workers.__main__ import drop_strays
from workers.rq import end

GIVEN = (0.4, 0.9)
CRITIQUE = "iterations/2/critique"


async def test_a_refinement_in_progress_goes_on_and_repeats_no_call(
    harness: RefinementHarness, redis_url: str
) -> None:
    refinement_id = await harness.submit()
    models, begun, go_on = pausing_at(CRITIQUE, scores(*GIVEN))
    worker = harness.worker(models)
    async with Redis.from_url(redis_url, protocol=2) as redis:
        first, begins, go_on_first = pausing_at("iterations/1/critique", models)
        worker = harness.worker(first)
        playing = asyncio.create_task(harness.deliver(worker, refinement_id))
        await begins.wait()
        copy = await copied(redis)
        go_on_first.set()
        await begun.wait()
        await restore(redis, copy)
        go_on.set()
        await playing
    assert (await harness.snapshot(refinement_id)).status == "succeeded"
    assert set(first.calls.values()) == {1}
    numbers = [event.event for event in await harness.events(refinement_id)]
    assert numbers == [*range(1, len(numbers) + 1)]


async def play_and_lose_the_end(harness: RefinementHarness, redis_url: str, **fields: Any) -> str:
    """Play a refinement, and let Redis come back as it was at the last call of the claim."""
    refinement_id = await harness.submit(**fields)
    models, begun, go_on = pausing_at(CRITIQUE, scores(*GIVEN))
    async with Redis.from_url(redis_url, protocol=2) as redis:
        worker = harness.worker(models, "test")
        playing = asyncio.create_task(harness.deliver(worker, refinement_id))
        await begun.wait()
        copy = await copied(redis)
        go_on.set()
        await playing
        await restore(redis, copy)
    return refinement_id


async def until_nothing_is_held(harness: RefinementHarness, store: WorkerStore) -> None:
    assert len(await harness.worker_store.held()) == 1
    dropping = asyncio.create_task(drop_strays(store, (), 0.01))
    async with asyncio.timeout(TIMEOUT_S):
        while await harness.worker_store.held():  # noqa: ASYNC110 - Redis does not say it
            await asyncio.sleep(0.01)
    await end([dropping])


async def test_a_refinement_whose_end_was_lost_ends_again_as_it_did(
    harness: RefinementHarness, redis_url: str
) -> None:
    refinement_id = await play_and_lose_the_end(harness, redis_url)
    assert (await harness.snapshot(refinement_id)).status == "running"
    await until_nothing_is_held(harness, harness.worker_store)
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.outcome) == ("succeeded", "passed")
    events = await harness.events(refinement_id)
    assert [it.event for it in events] == [*range(1, len(events) + 1)]
    assert "refinement.resumed" not in [it.type for it in events]


async def test_a_review_that_was_lost_is_asked_for_again_without_a_call(
    harness: RefinementHarness, redis_url: str
) -> None:
    review = {"when": "before_completion"}
    refinement_id = await play_and_lose_the_end(harness, redis_url, review=review)
    await until_nothing_is_held(harness, harness.worker_store)
    assert (await harness.snapshot(refinement_id)).status == "paused"


async def test_what_was_lost_is_not_written_over_what_another_worker_has_done(
    harness: RefinementHarness, redis_url: str
) -> None:
    refinement_id = await play_and_lose_the_end(harness, redis_url)
    await harness.worker_store.drop([refinement_id])
    ended = await harness.play(refinement_id, scores(*GIVEN), "second")
    events = await harness.events(refinement_id)
    await harness.worker_store.restore([refinement_id])
    assert await harness.events(refinement_id) == events
    assert await harness.snapshot(refinement_id) == ended


async def test_a_refinement_whose_end_nobody_has_is_given_up_and_ends_again(
    harness: RefinementHarness, redis_url: str
) -> None:
    refinement_id = await play_and_lose_the_end(harness, redis_url)
    settings = Settings(redis_url=redis_url, redis_timeout_s=60)
    async with open_worker_store(settings, NoQueue(), "test") as anew:
        await until_nothing_is_held(harness, anew)
    second = scores(*GIVEN)
    assert (await harness.play(refinement_id, second, "second")).status == "succeeded"
    assert second.calls == {CRITIQUE: 1}


async def test_a_refinement_that_the_copy_does_not_have_is_dropped(
    harness: RefinementHarness, redis_url: str
) -> None:
    models, begun, go_on = pausing_at(CRITIQUE, scores(*GIVEN))
    worker = harness.worker(models)
    async with Redis.from_url(redis_url, protocol=2) as redis:
        copy = await copied(redis)
        playing = asyncio.create_task(harness.deliver(worker, await harness.submit()))
        await begun.wait()
        await restore(redis, copy)
        go_on.set()
        await playing
        assert await redis.keys("*refinement*") == []
