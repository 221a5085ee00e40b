"""Redis comes back with an older copy of its data: a backup, or a replica that lagged behind."""

import asyncio

from redis.asyncio import Redis

from tests.store.store_harness import copied, restore
from tests.workers.refinement_harness import RefinementHarness, pausing_at, scores
from workers.play.refinements import drop_strays
from workers.rq.worker import end

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


async def test_a_refinement_whose_end_was_lost_is_given_up_and_ends_again(
    harness: RefinementHarness, redis_url: str
) -> None:
    refinement_id = await harness.submit()
    models, begun, go_on = pausing_at(CRITIQUE, scores(*GIVEN))
    worker = harness.worker(models, "test")
    async with Redis.from_url(redis_url, protocol=2) as redis:
        playing = asyncio.create_task(harness.deliver(worker, refinement_id))
        await begun.wait()
        copy = await copied(redis)
        go_on.set()
        await playing
        await restore(redis, copy)
    assert await harness.worker_store.held() == {refinement_id}
    dropping = asyncio.create_task(drop_strays(harness.worker_store, worker.refining, 0.01))
    while await harness.worker_store.held():  # noqa: ASYNC110 - Redis does not say it
        await asyncio.sleep(0.01)
    await end([dropping])
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
