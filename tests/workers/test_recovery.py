"""Killed anywhere, a refinement ends as if nothing had happened."""

import asyncio
from collections.abc import Coroutine

import pytest

from app.contract.snapshot import Snapshot
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import RefinementHarness, scores
from workers.__main__ import drop_strays
from workers.rq import end

GIVEN = (0.4, 0.6, 0.5, 0.9)
APPENDS = 9
"""One when the first call starts, one for each of the 8 calls."""


def told(snapshot: Snapshot) -> dict[str, object]:
    """What must not depend on kills: all but times, numbers of events and the id."""
    kept = {
        "status",
        "outcome",
        "reason",
        "stop_reason",
        "best",
        "scores",
        "result",
        "error",
        "iteration",
    }
    return snapshot.model_dump(include=kept) | {"calls": snapshot.usage.calls}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(1, APPENDS + 1))
async def test_killed_at_an_append_it_goes_on_where_it_was(
    harness: RefinementHarness, dies_at: int, after: bool
) -> None:
    undisturbed = await harness.play(await harness.submit(max_iterations=4), scores(*GIVEN))
    refinement_id = await harness.submit(max_iterations=4)
    models = scores(*GIVEN)
    assert await harness.play_and_die(refinement_id, models, dies_at, after=after)
    ended = await harness.play(refinement_id, models, "second")
    assert told(ended) == told(undisturbed)
    events = await harness.events(refinement_id)
    assert [event.event for event in events] == list(range(1, len(events) + 1))
    repeated = [key for key, calls in models.calls.items() if calls > 1]
    lost = 1 if not after and dies_at > 1 else 0
    assert len(repeated) == lost


async def until_nothing_is_held(harness: RefinementHarness) -> None:
    while await harness.worker_store.held():  # noqa: ASYNC110 - Redis does not say it
        await asyncio.sleep(0.01)


async def beside(task: Coroutine[None, None, None], work: Coroutine[None, None, None]) -> None:
    """Await `work` while `task` runs."""
    running = asyncio.ensure_future(task)
    await asyncio.wait_for(work, TIMEOUT_S)
    await end([running])


async def test_what_a_living_worker_holds_and_does_not_play_is_given_up(
    harness: RefinementHarness,
) -> None:
    store, refinement_id = harness.worker_store, await harness.submit()
    assert await store.claim(refinement_id, f"{refinement_id}-1", "test")
    await beside(drop_strays(store, {refinement_id}, 0.01), asyncio.sleep(0.1))
    assert await store.held() == {refinement_id}
    await beside(drop_strays(store, (), 0.01), until_nothing_is_held(harness))
    ended = await harness.play(refinement_id, scores(0.9), "second")
    assert ended.status == "succeeded"
