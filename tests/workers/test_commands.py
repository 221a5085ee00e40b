"""What clients decide while a refinement runs."""

import asyncio

import pytest

from app.contract.errors import Conflict
from app.contract.events import EventType
from app.contract.limits import LimitsChange
from app.contract.status import Status, StopReason
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import TENANT, RefinementHarness, pausing_at, scores
from tests.workers.scripted_models import improving
from workers.play.refinements import Refinements


async def begun(
    harness: RefinementHarness, worker: Refinements, refinement_id: str, call: asyncio.Event
) -> asyncio.Task[None]:
    """Start playing, and return once the awaited call has begun."""
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    return playing


async def test_cancel_aborts_the_call_in_flight_and_keeps_what_was_judged(
    harness: RefinementHarness,
) -> None:
    models, call, _ = pausing_at("iterations/2/critique", scores(0.4, 0.9))
    refinement_id = await harness.submit()
    worker = harness.worker(models)
    playing = await begun(harness, worker, refinement_id, call)
    assert (await harness.store.cancel(TENANT, refinement_id)).status is Status.CANCELING
    await worker.look(refinement_id)
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.CANCELED, StopReason.CANCELED)
    assert models.aborted == ["iterations/2/critique"]
    assert ended.result is not None
    assert ended.result.score == 0.4


async def test_finish_ends_with_the_best_draft_so_far(harness: RefinementHarness) -> None:
    models, call, _ = pausing_at("iterations/3/revise", scores(0.4, 0.6))
    refinement_id = await harness.submit(max_iterations=9)
    worker = harness.worker(models)
    playing = await begun(harness, worker, refinement_id, call)
    await harness.store.finish(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.FINISHED_EARLY)
    assert models.aborted == ["iterations/3/revise"]
    assert ended.result is not None
    assert ended.result.path == "iterations/2"


async def test_finish_before_anything_was_judged_waits_for_the_first_draft(
    harness: RefinementHarness,
) -> None:
    models, call, go_on = pausing_at("iterations/1/critique", scores(0.4, 0.6))
    refinement_id = await harness.submit()
    worker = harness.worker(models)
    playing = await begun(harness, worker, refinement_id, call)
    await harness.store.finish(TENANT, refinement_id)
    await worker.look(refinement_id)
    assert not models.aborted
    go_on.set()
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.FINISHED_EARLY)
    assert [it.path for it in ended.scores] == ["iterations/1"]
    types = [event.type for event in await harness.events(refinement_id)]
    assert types.count(EventType.STOPPING) == 1


async def test_finish_while_queued_ends_after_the_first_judged_draft(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit()
    await harness.store.finish(TENANT, refinement_id)
    ended = await harness.play(refinement_id, scores(0.4, 0.6))
    assert ended.stop_reason is StopReason.FINISHED_EARLY
    assert [it.path for it in ended.scores] == ["iterations/1"]


async def test_a_change_is_in_force_from_the_next_judged_draft(harness: RefinementHarness) -> None:
    models, call, go_on = pausing_at("iterations/2/critique", scores(0.4, 0.6))
    refinement_id = await harness.submit()
    playing = await begun(harness, harness.worker(models), refinement_id, call)
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=0.6))
    go_on.set()
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.stop_reason, ended.outcome) == (StopReason.THRESHOLD_MET, "passed")
    assert (ended.threshold, len(ended.scores)) == (0.6, 2)


@pytest.mark.parametrize(
    ("threshold", "changed", "outcome"), [(0.9, 0.5, "passed"), (0.9, 0.7, "best_effort")]
)
async def test_what_is_finished_passes_by_the_threshold_in_force(
    harness: RefinementHarness, threshold: float, changed: float, outcome: str
) -> None:
    models, call, _ = pausing_at("iterations/2/revise", scores(0.6))
    refinement_id = await harness.submit(threshold=threshold)
    worker = harness.worker(models)
    playing = await begun(harness, worker, refinement_id, call)
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=changed))
    await harness.store.finish(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.stop_reason, ended.outcome) == (StopReason.FINISHED_EARLY, outcome)


async def test_a_draft_that_no_pass_changes_passes_by_the_threshold_in_force(
    harness: RefinementHarness,
) -> None:
    models, call, go_on = pausing_at("passes/style/iterations/1/revise", improving(0.6, -0.3))
    strategy = {"kind": "multi_pass", "passes": [{"focus": "style"}]}
    refinement_id = await harness.submit(draft="We refund within 14 days.", strategy=strategy)
    playing = await begun(harness, harness.worker(models), refinement_id, call)
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=0.5))
    go_on.set()
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.outcome, ended.threshold) == ("passed", 0.5)


async def test_a_change_that_was_answered_holds_even_when_the_loop_was_about_to_end(
    harness: RefinementHarness,
) -> None:
    models, call, go_on = pausing_at("iterations/2/critique", scores(0.4, 0.6, 0.7, 0.9))
    refinement_id = await harness.submit(max_iterations=2)
    playing = await begun(harness, harness.worker(models), refinement_id, call)
    await harness.store.change(TENANT, refinement_id, LimitsChange(max_iterations=4))
    go_on.set()
    await playing
    ended = await harness.snapshot(refinement_id)
    assert [it.score for it in ended.scores] == [0.4, 0.6, 0.7, 0.9]
    assert max(models.calls.values()) == 1


async def test_a_change_does_not_reach_back_when_another_worker_replays(
    harness: RefinementHarness,
) -> None:
    models, call, go_on = pausing_at("iterations/3/critique", scores(0.4, 0.5, 0.9))
    refinement_id = await harness.submit(max_iterations=5, threshold=0.95)
    playing = await begun(harness, harness.worker(models), refinement_id, call)
    await harness.store.change(TENANT, refinement_id, LimitsChange(max_iterations=2))
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    go_on.set()
    ended = await harness.play(refinement_id, models, "second")
    assert ended.stop_reason is StopReason.MAX_ITERATIONS
    assert [it.score for it in ended.scores] == [0.4, 0.5, 0.9]
    assert models.calls["iterations/3/revise"] == 1


async def test_an_ended_refinement_takes_no_command(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    await harness.play(refinement_id, scores(0.9))
    with pytest.raises(Conflict):
        await harness.store.cancel(TENANT, refinement_id)
    with pytest.raises(Conflict):
        await harness.store.finish(TENANT, refinement_id)
    with pytest.raises(Conflict):
        await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=0.1))


async def test_an_erased_refinement_drops_its_call(harness: RefinementHarness) -> None:
    models, call, _ = pausing_at("iterations/1/critique", scores(0.4))
    refinement_id = await harness.submit()
    worker = harness.worker(models)
    playing = await begun(harness, worker, refinement_id, call)
    await harness.store.erase(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    assert models.aborted == ["iterations/1/critique"]
    assert not worker.held


async def test_a_worker_that_leaves_journals_what_answers_and_hands_the_rest_back(
    harness: RefinementHarness,
) -> None:
    models, call, go_on = pausing_at("iterations/1/draft", scores(0.4, 0.9))
    refinement_id = await harness.submit()
    worker = harness.worker(models)
    playing = await begun(harness, worker, refinement_id, call)
    worker.leave()
    go_on.set()
    await playing
    assert (await harness.snapshot(refinement_id)).status is Status.RUNNING
    ended = await harness.play(refinement_id, models, "second")
    assert ended.status is Status.SUCCEEDED
    assert max(models.calls.values()) == 1


async def test_a_worker_that_is_ended_hands_back_at_once(harness: RefinementHarness) -> None:
    models, call, go_on = pausing_at("iterations/1/draft", scores(0.9))
    refinement_id = await harness.submit()
    playing = await begun(harness, harness.worker(models), refinement_id, call)
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    go_on.set()
    ended = await harness.play(refinement_id, models, "second")
    assert ended.status is Status.SUCCEEDED
    assert models.calls["iterations/1/draft"] == 2
