"""People in the loop, against the real journal."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.contract.events import EventType, IterationCompleted
from app.contract.limits import LimitsChange
from app.contract.reviews import Paused
from app.contract.status import Status, StopReason
from app.service.iterations import iterations_of
from app.store import Claimed, Journal, State, WorkerStore
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import (
    TENANT,
    RefinementHarness,
    ScriptedAnswers,
    pausing_at,
    scores,
)

EACH: dict[str, Any] = {"review": {"when": "each_iteration"}}
BEFORE: dict[str, Any] = {"review": {"when": "before_completion"}}
APPROVE: dict[str, Any] = {"action": "approve"}
MORE: dict[str, Any] = {"action": "revise", "feedback": "Name the deadline."}


async def paused(harness: RefinementHarness, models: ScriptedAnswers, **fields: Any) -> str:
    """Return a refinement that was submitted and played until a reviewer was asked."""
    refinement_id = await harness.submit(**fields)
    assert (await harness.play(refinement_id, models)).status is Status.PAUSED
    return refinement_id


async def test_it_pauses_with_the_judged_draft_to_be_seen_and_holds_no_worker(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit(**EACH)
    worker = harness.worker(scores(0.4))
    await harness.deliver(worker, refinement_id)
    snapshot = await harness.snapshot(refinement_id)
    assert not worker.held
    assert (snapshot.status, snapshot.phase) == (Status.PAUSED, ("iterations/1/review",))
    assert snapshot.review is not None
    assert (snapshot.review.key, snapshot.review.path) == ("iterations/1/review", "iterations/1")
    assert [it.score for it in snapshot.scores] == [0.4]
    *_, judged, asked = await harness.events(refinement_id)
    assert isinstance(judged.data, IterationCompleted)
    assert isinstance(asked.data, Paused)
    assert (asked.data.score, asked.data.sha256) == (0.4, judged.data.sha256)


async def test_it_goes_on_where_it_was_and_repeats_no_call(harness: RefinementHarness) -> None:
    models = scores(0.9, 0.6)
    refinement_id = await paused(harness, models, **EACH)
    await harness.say(refinement_id, **MORE)
    assert (await harness.play(refinement_id, models, "second")).status is Status.PAUSED
    await harness.say(refinement_id, **APPROVE)
    ended = await harness.play(refinement_id, models, "third")
    assert (ended.stop_reason, ended.outcome) == (StopReason.APPROVED, "best_effort")
    assert ended.result is not None
    assert (ended.result.path, ended.result.score) == ("iterations/2", 0.6)
    assert max(models.calls.values()) == 1
    last = iterations_of(
        await harness.events(refinement_id), await request(harness, refinement_id)
    )[-1]
    assert last.asked[0] == "review: Name the deadline."


async def request(harness: RefinementHarness, refinement_id: str) -> Any:
    return await harness.store.request(TENANT, refinement_id)


async def test_a_job_for_a_paused_refinement_does_nothing(harness: RefinementHarness) -> None:
    models = scores(0.4)
    refinement_id = await paused(harness, models, **EACH)
    before = await harness.snapshot(refinement_id)
    assert await harness.play(refinement_id, models, "second") == before


async def test_a_rating_replaces_the_score_that_is_shown(harness: RefinementHarness) -> None:
    models = scores(0.9, 0.5, 0.4)
    refinement_id = await paused(harness, models, **EACH)
    await harness.say(refinement_id, action="rate", score=0.3)
    snapshot = await harness.play(refinement_id, models, "second")
    assert [(it.path, it.score) for it in snapshot.scores] == [
        ("iterations/1", 0.3),
        ("iterations/2", 0.5),
    ]
    assert snapshot.best is not None
    assert snapshot.best.path == "iterations/2"
    events = await harness.events(refinement_id)
    shown = iterations_of(events, await request(harness, refinement_id))
    assert [(it.path, it.score) for it in shown] == [("iterations/1", 0.3), ("iterations/2", 0.5)]


async def test_a_rating_that_ends_it_is_shown_once(harness: RefinementHarness) -> None:
    models = scores(0.4)
    refinement_id = await paused(harness, models, **EACH)
    await harness.say(refinement_id, action="rate", score=0.9)
    ended = await harness.play(refinement_id, models, "second")
    assert (ended.stop_reason, ended.outcome) == (StopReason.THRESHOLD_MET, "passed")
    assert [(it.path, it.score) for it in ended.scores] == [("iterations/1", 0.9)]
    assert ended.result is not None
    assert (ended.result.score, ended.result.score_from) == (0.9, "review")


async def test_rating_the_best_below_another_keeps_the_other_even_when_canceled(
    harness: RefinementHarness,
) -> None:
    models, call, _ = pausing_at("iterations/3/revise", scores(0.4, 0.8))
    refinement_id = await paused(harness, models, **EACH)
    await harness.say(refinement_id, **MORE)
    await harness.play(refinement_id, models, "second")
    await harness.say(refinement_id, action="rate", score=0.1)
    worker = harness.worker(models, "third")
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    await harness.store.cancel(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.outcome) == (Status.CANCELED, "canceled")
    assert ended.result is not None
    assert (ended.result.path, ended.result.score) == ("iterations/1", 0.4)


async def test_before_completion_the_reviewers_text_is_judged_and_becomes_the_result(
    harness: RefinementHarness,
) -> None:
    refinement_id = await paused(harness, scores(0.9), **BEFORE)
    await harness.say(refinement_id, action="replace", draft="We refund within 14 days.")
    assert (await harness.play(refinement_id, judged(0.7), "second")).status is Status.PAUSED
    await harness.say(refinement_id, **APPROVE)
    ended = await harness.play(refinement_id, judged(0.7), "third")
    assert ended.result is not None
    assert (ended.result.path, ended.result.score) == ("reviews/1/iterations/1", 0.7)
    assert ended.result.draft == "We refund within 14 days."
    events = await harness.events(refinement_id)
    last = iterations_of(events, await request(harness, refinement_id))[-1]
    assert (last.draft, last.parent) == (ended.result.draft, "iterations/1")


def judged(score: float) -> ScriptedAnswers:
    """Models of which only the critic is asked."""
    critic = scores(score)

    async def answer(key: str, call: Any) -> str:
        return await critic.answer("iterations/1/critique", call)

    return ScriptedAnswers(answer)


async def test_finish_while_paused_ends_with_the_best_draft(harness: RefinementHarness) -> None:
    models = scores(0.4)
    refinement_id = await paused(harness, models, **EACH)
    await harness.store.finish(TENANT, refinement_id)
    ended = await harness.play(refinement_id, models, "second")
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.FINISHED_EARLY)
    assert ended.result is not None
    assert ended.result.path == "iterations/1"


@pytest.mark.parametrize("mode", [EACH, BEFORE], ids=["each", "before"])
async def test_what_is_to_finish_with_its_first_draft_is_not_reviewed(
    harness: RefinementHarness, mode: dict[str, Any]
) -> None:
    refinement_id = await harness.submit(**mode)
    await harness.store.finish(TENANT, refinement_id)
    ended = await harness.play(refinement_id, scores(0.4))
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.FINISHED_EARLY)
    types = [event.type for event in await harness.events(refinement_id)]
    assert EventType.PAUSED not in types
    assert types.count(EventType.STOPPING) == 1


async def test_a_finish_that_comes_with_the_pause_is_heeded(harness: RefinementHarness) -> None:
    models, call, go_on = pausing_at("iterations/1/critique", scores(0.4))
    refinement_id = await harness.submit(**EACH)
    playing = asyncio.create_task(harness.deliver(harness.worker(models), refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    await harness.store.finish(TENANT, refinement_id)  # and no command reaches the worker
    go_on.set()
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.FINISHED_EARLY)


async def test_a_cancel_that_comes_with_the_pause_is_heeded(harness: RefinementHarness) -> None:
    models, call, go_on = pausing_at("iterations/1/critique", scores(0.4))
    refinement_id = await harness.submit(**EACH)
    playing = asyncio.create_task(harness.deliver(harness.worker(models), refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    await harness.store.cancel(TENANT, refinement_id)  # and no command reaches the worker
    go_on.set()
    await playing
    ended = await harness.snapshot(refinement_id)
    assert ended.status is Status.CANCELED
    assert ended.result is not None
    assert ended.result.score == 0.4


async def test_a_paused_one_is_canceled_at_once(harness: RefinementHarness) -> None:
    refinement_id = await paused(harness, scores(0.4), **BEFORE, max_iterations=1)
    ended = await harness.store.cancel(TENANT, refinement_id)
    assert (ended.status, ended.review) == (Status.CANCELED, None)
    assert ended.result is not None


async def test_a_change_while_it_is_paused_is_in_force_from_the_next_draft(
    harness: RefinementHarness,
) -> None:
    models = scores(0.4, 0.6)
    refinement_id = await paused(harness, models, **EACH)
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=0.6))
    await harness.say(refinement_id, action="rate", score=0.5)
    await harness.play(refinement_id, models, "second")
    await harness.say(refinement_id, action="rate", score=0.6)
    ended = await harness.play(refinement_id, models, "third")
    assert (ended.stop_reason, ended.outcome) == (StopReason.THRESHOLD_MET, "passed")


@pytest.mark.parametrize("mode", [EACH, BEFORE], ids=["each", "before"])
@pytest.mark.parametrize(
    ("threshold", "changed", "outcome"), [(0.5, 0.9, "best_effort"), (0.9, 0.5, "passed")]
)
async def test_what_is_finished_passes_by_the_threshold_in_force(
    harness: RefinementHarness,
    mode: dict[str, Any],
    threshold: float,
    changed: float,
    outcome: str,
) -> None:
    models = scores(0.6)
    refinement_id = await paused(harness, models, **mode, threshold=threshold, max_iterations=1)
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=changed))
    await harness.store.finish(TENANT, refinement_id)
    ended = await harness.play(refinement_id, models, "second")
    assert (ended.outcome, ended.threshold) == (outcome, changed)


@pytest.mark.parametrize("mode", [EACH, BEFORE], ids=["each", "before"])
async def test_what_is_approved_passes_under_the_threshold_that_was_changed_meanwhile(
    harness: RefinementHarness, mode: dict[str, Any]
) -> None:
    models = scores(0.6)
    refinement_id = await paused(harness, models, **mode, max_iterations=1)
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=0.5))
    await harness.say(refinement_id, **APPROVE)
    ended = await harness.play(refinement_id, models, "second")
    assert (ended.stop_reason, ended.threshold, ended.outcome) == (
        StopReason.APPROVED,
        0.5,
        "passed",
    )


async def test_a_change_that_comes_with_the_pause_is_in_force(harness: RefinementHarness) -> None:
    models, call, go_on = pausing_at("iterations/1/critique", scores(0.4))
    refinement_id = await harness.submit(**BEFORE)
    playing = asyncio.create_task(harness.deliver(harness.worker(models), refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=0.3))
    go_on.set()
    await playing
    await harness.say(refinement_id, **APPROVE)
    ended = await harness.play(refinement_id, models, "second")
    assert (ended.stop_reason, ended.outcome) == (StopReason.APPROVED, "passed")
    assert max(models.calls.values()) == 1


async def test_a_word_that_comes_before_the_worker_knows_it_paused_is_not_lost(
    harness: RefinementHarness,
) -> None:
    said: list[asyncio.Task[None]] = []

    async def say_at_once(refinement_id: str) -> None:
        await harness.say(refinement_id, **APPROVE)
        said.append(asyncio.create_task(harness.deliver(worker, refinement_id)))
        await asyncio.sleep(0.05)  # the job is there, and the answer to the pause is not

    store: Any = SlowlyPausingStore(harness.worker_store, say_at_once)
    worker = harness.worker(scores(0.4), store=store)
    refinement_id = await harness.submit(**EACH)
    await harness.deliver(worker, refinement_id)
    await said[0]
    assert (await harness.snapshot(refinement_id)).stop_reason is StopReason.APPROVED


class SlowlyPausingStore:
    """A worker's store whose answer to a pause comes late: something happens before it."""

    def __init__(self, store: WorkerStore, first: Callable[[str], Awaitable[None]]) -> None:
        self._store = store
        self._first = first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def journal(self, claimed: Claimed) -> Any:
        return _SlowJournal(self._store.journal(claimed), self._first)


class _SlowJournal:
    def __init__(self, journal: Journal, first: Callable[[str], Awaitable[None]]) -> None:
        self._journal = journal
        self._first = first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, *args: Any, **kwargs: Any) -> State:
        state = await self._journal.append(*args, **kwargs)
        if kwargs.get("to") is Status.PAUSED:
            await self._first(self._journal.id)
        return state


async def test_a_worker_that_leaves_lets_it_pause(harness: RefinementHarness) -> None:
    models, call, go_on = pausing_at("iterations/1/critique", scores(0.4))
    refinement_id = await harness.submit(**EACH)
    worker = harness.worker(models)
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    worker.leave()
    go_on.set()
    await playing
    assert (await harness.snapshot(refinement_id)).status is Status.PAUSED
