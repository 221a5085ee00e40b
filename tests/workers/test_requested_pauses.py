"""Pauses that a client requests, against the real journal."""

import asyncio
from collections import Counter, defaultdict
from typing import Any

import pytest
from redis.asyncio import Redis

from app.contract.errors import Conflict
from app.contract.events import Changed, EventType, Resumed
from app.contract.limits import LimitsChange
from app.contract.reviews import OnPauseTimeout, Paused, PauseRequest, Reviewed
from app.contract.snapshot import Snapshot
from app.contract.status import Status, StopReason
from tests.store.store_harness import expire_review
from tests.waiting import TIMEOUT_S
from tests.workers.judging_cases import EVERY
from tests.workers.refinement_harness import (
    TENANT,
    RefinementHarness,
    ReviewScript,
    ScriptedAnswers,
    pausing_at,
    refusing_once,
    scores,
)
from tests.workers.test_kills import record, submitted, undisturbed
from workers.models.port import ModelCall

ANY = PauseRequest()
RESUME: dict[str, Any] = {"action": "resume"}


async def pause(harness: RefinementHarness, refinement_id: str, asked: PauseRequest = ANY) -> None:
    await harness.store.pause(TENANT, refinement_id, asked)


async def paused_during(
    harness: RefinementHarness, key: str, models: ScriptedAnswers, asked: PauseRequest = ANY
) -> tuple[str, Snapshot]:
    """Return a refinement that was paused while the step `key` was in progress."""
    waiting, begun, go_on = pausing_at(key, models)
    refinement_id = await harness.submit()
    worker = harness.worker(waiting)
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(begun.wait(), TIMEOUT_S)
    await pause(harness, refinement_id, asked)
    await worker.look(refinement_id)
    go_on.set()
    await asyncio.wait_for(playing, TIMEOUT_S)
    assert not worker.held
    return refinement_id, await harness.snapshot(refinement_id)


async def test_it_pauses_after_the_step_in_progress_and_resumes_without_repeating_a_call(
    harness: RefinementHarness,
) -> None:
    models = scores(0.4, 0.9)
    refinement_id, now = await paused_during(harness, "iterations/1/critique", models)
    assert (now.status, now.phase, now.review and now.review.when) == (
        Status.PAUSED,
        (),
        "requested",
    )
    assert now.review is not None
    assert (now.review.path, now.usage.calls) == ("iterations/1", 2)
    events = await harness.events(refinement_id)
    assert [it.type for it in events[-3:]] == [
        EventType.STEP_COMPLETED,
        EventType.ITERATION_COMPLETED,
        EventType.PAUSED,
    ]
    requested = next(it for it in events if isinstance(it.data, Changed))
    assert now.review.key == f"pauses/{requested.event}"
    await harness.say(refinement_id, **RESUME)
    ended = await harness.play(refinement_id, models, "second")
    assert (ended.stop_reason, ended.usage.calls) == (StopReason.THRESHOLD_MET, 4)
    resumed = [it.data for it in await harness.events(refinement_id)]
    assert Resumed(token=2, replayed=2) in resumed
    assert Reviewed(key=now.review.key, action="resume", by="reviewer") in resumed
    assert models.calls == Counter(
        ["iterations/2/revise", "iterations/2/critique"]
    )  # the first two were asked for before the pause


async def test_before_the_first_draft_it_pauses_without_one_and_takes_new_limits(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit()
    await pause(harness, refinement_id)
    models = scores(0.4, 0.9)
    now = await harness.play(refinement_id, models)
    assert now.status is Status.PAUSED
    assert now.review is not None
    assert (now.review.path, models.calls) == (None, Counter())
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=0.3))
    await harness.say(refinement_id, **RESUME)
    ended = await harness.play(refinement_id, models, "second")
    assert (ended.stop_reason, ended.iteration) == (StopReason.THRESHOLD_MET, 1)


async def test_a_finish_without_a_draft_ends_the_pause_and_goes_on_until_one_is_judged(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit()
    await pause(harness, refinement_id)
    models = scores(0.4, 0.9)
    await harness.play(refinement_id, models)
    await harness.store.finish(TENANT, refinement_id)
    ended = await harness.play(refinement_id, models, "second")
    assert ended.stop_reason is StopReason.FINISHED_EARLY
    assert [it.path for it in ended.scores] == ["iterations/1"]


@pytest.mark.parametrize(
    ("on_timeout", "reason", "drafts"),
    [("finish", StopReason.FINISHED_EARLY, 1), ("resume", StopReason.THRESHOLD_MET, 2)],
)
async def test_a_pause_that_times_out_ends_or_continues(
    harness: RefinementHarness,
    redis_url: str,
    on_timeout: OnPauseTimeout,
    reason: StopReason,
    drafts: int,
) -> None:
    models = scores(0.4, 0.9)
    asked = PauseRequest(timeout_s=60, on_timeout=on_timeout)
    refinement_id, now = await paused_during(harness, "iterations/1/critique", models, asked)
    assert now.review is not None
    assert (now.review.deadline - now.review.asked_at).total_seconds() == 60
    async with Redis.from_url(redis_url) as redis:
        await expire_review(redis, refinement_id)
    assert await harness.worker_store.recover(include_queued=False) == 1
    ended = await harness.play(refinement_id, models, "second")
    assert (ended.stop_reason, len(ended.scores)) == (reason, drafts)


async def test_each_kind_of_pause_takes_only_its_own_actions(harness: RefinementHarness) -> None:
    refinement_id, _ = await paused_during(harness, "iterations/1/draft", scores(0.4, 0.9))
    with pytest.raises(Conflict, match="only the action resume"):
        await harness.say(refinement_id, action="approve")
    reviewed = await harness.submit(review={"when": "each_iteration"})
    await harness.play(reviewed, scores(0.4, 0.9))
    with pytest.raises(Conflict, match="does not answer"):
        await harness.say(reviewed, **RESUME)


async def test_a_pause_that_was_requested_before_a_review_is_that_review(
    harness: RefinementHarness,
) -> None:
    waiting, begun, go_on = pausing_at("iterations/1/critique", scores(0.4, 0.9))
    refinement_id = await harness.submit(review={"when": "each_iteration"})
    playing = asyncio.create_task(harness.deliver(harness.worker(waiting), refinement_id))
    await asyncio.wait_for(begun.wait(), TIMEOUT_S)
    await pause(harness, refinement_id)
    go_on.set()
    await asyncio.wait_for(playing, TIMEOUT_S)
    now = await harness.snapshot(refinement_id)
    assert now.review is not None
    assert now.review.key == "iterations/1/review"
    await harness.say(refinement_id, action="approve")
    ended = await harness.play(refinement_id, scores(0.4, 0.9), "second")
    assert ended.stop_reason is StopReason.APPROVED


async def test_a_pause_reaches_what_waits_for_a_model_without_a_worker(
    harness: RefinementHarness,
) -> None:
    models = refusing_once(scores(0.9), wait_s=60)
    refinement_id = await harness.submit()
    assert (await harness.play(refinement_id, models)).waiting
    await pause(harness, refinement_id)
    now = await harness.play(refinement_id, models, "second")
    assert (now.status, now.waiting) == (Status.PAUSED, None)
    await harness.say(refinement_id, **RESUME)
    worker = harness.worker(models, "third")
    await harness.play_on(worker, refinement_id)
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED


@pytest.mark.parametrize("overruled_by", ["finish", "cancel"])
async def test_what_ends_anyway_does_not_pause(
    harness: RefinementHarness, overruled_by: str
) -> None:
    waiting, begun, go_on = pausing_at("iterations/1/critique", scores(0.4, 0.9))
    refinement_id = await harness.submit()
    playing = asyncio.create_task(harness.deliver(harness.worker(waiting), refinement_id))
    await asyncio.wait_for(begun.wait(), TIMEOUT_S)
    await pause(harness, refinement_id)
    await getattr(harness.store, overruled_by)(TENANT, refinement_id)
    go_on.set()
    await asyncio.wait_for(playing, TIMEOUT_S)
    ended = await harness.snapshot(refinement_id)
    assert ended.status.is_terminal
    assert not [it for it in await harness.events(refinement_id) if isinstance(it.data, Paused)]
    with pytest.raises(Conflict):
        await pause(harness, refinement_id)


SHAPES = ("iterative", "best_of_n", "nested, each draft of the whole", "stepwise")
"""A chain, side by side, parts within a chain, and stages."""


@pytest.mark.parametrize("kind", SHAPES)
async def test_paused_during_every_call_it_ends_as_if_it_had_not_been(
    harness: RefinementHarness, kind: str
) -> None:
    case = EVERY[kind]
    expected, calls = await undisturbed(harness, kind, case)
    models = case.models()
    refinement_id = await submitted(harness, kind, case)

    async def answer(key: str, call: ModelCall) -> str:
        await pause(harness, refinement_id)
        return await models.answer(key, call)

    pauses = ScriptedAnswers(answer, usage=models.usage, outside=models.outside)
    number, requested, now = 0, 0, await harness.snapshot(refinement_id)
    while not now.status.is_terminal:
        number += 1
        now = await harness.play(refinement_id, pauses, f"{number}")
        if now.review:
            is_requested = now.review.when == "requested"
            requested += is_requested
            word = RESUME if is_requested else case.words[now.review.key]
            await harness.answer(refinement_id, now.review.key, word)
    assert {
        name: it
        for name, it in (await record(harness, refinement_id)).items()
        if not name.startswith("pauses/")
    } == expected
    assert requested > 1
    assert pauses.calls == calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["iterative", "best_of_n"])
async def test_killed_at_any_append_around_a_pause_it_ends_as_if_it_had_been_neither(
    harness: RefinementHarness, kind: str, after: bool
) -> None:
    case = EVERY[kind]
    expected, calls = await undisturbed(harness, kind, case)
    resume: ReviewScript = defaultdict(lambda: RESUME)
    dies_at, paused = 0, 0
    is_killed = True
    while is_killed:
        dies_at += 1
        models = case.models()
        refinement_id = await submitted(harness, kind, case)
        pauses = pausing_once(harness, refinement_id, "iterations/1/critique", models)
        is_killed = await harness.play_and_die(refinement_id, pauses, dies_at, resume, after=after)
        await harness.play_on(harness.worker(pauses, "second"), refinement_id, resume)
        found = await record(harness, refinement_id)
        ended = {name: it for name, it in found.items() if not name.startswith("pauses/")}
        assert ended == expected, f"killed at append {dies_at}"
        paused += ended != found
        repeated = pauses.calls - calls
        assert not repeated or max(repeated.values()) == 1
    assert (paused, dies_at > 4) == (dies_at, True)


def pausing_once(
    harness: RefinementHarness, refinement_id: str, key: str, models: ScriptedAnswers
) -> ScriptedAnswers:
    """Return the same models; a client pauses the refinement during the first call of one step."""
    requested = False

    async def answer(asked: str, call: ModelCall) -> str:
        nonlocal requested
        if asked == key and not requested:
            requested = True
            await pause(harness, refinement_id)
        return await models.answer(asked, call)

    return ScriptedAnswers(answer, usage=models.usage, outside=models.outside)
