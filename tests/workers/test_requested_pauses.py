"""Pauses that a client requests, against the real journal."""

import asyncio
from collections import Counter, defaultdict
from typing import Any

import pytest
from redis.asyncio import Redis

from app.contract.errors import Conflict
from app.contract.events import Changed, EventType, IterationCompleted, Resumed
from app.contract.limits import LimitsChange
from app.contract.reviews import OnPauseTimeout, Paused, PauseRequest, Reviewed
from app.contract.snapshot import Snapshot
from app.contract.status import Status, StopReason
from app.service.iterations import iterations_of
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
from tests.workers.replay_cases import STAGES, ReplayCase
from tests.workers.scripted_models import LOOK_UP, followed_up, improving, planning
from tests.workers.test_kills import record, submitted, undisturbed
from workers.models.port import ModelCall, ModelRefused

ANY = PauseRequest()
RESUME: dict[str, Any] = {"action": "resume"}


async def pause(harness: RefinementHarness, refinement_id: str, asked: PauseRequest = ANY) -> None:
    await harness.store.pause(TENANT, refinement_id, asked)


async def paused_during(
    harness: RefinementHarness,
    key: str,
    models: ScriptedAnswers,
    asked: PauseRequest = ANY,
    **fields: Any,
) -> tuple[str, Snapshot]:
    """Return a refinement that was paused while the step `key` was in progress."""
    waiting, begun, go_on = pausing_at(key, models)
    refinement_id = await harness.submit(**fields)
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
    for word in ({"action": "approve"}, {"action": "revise", "score": 0.5}):
        with pytest.raises(Conflict, match="only the actions resume, revise and replace"):
            await harness.say(refinement_id, **word)
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

    pauses = pausing_at_every_call(harness, refinement_id, models)
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


OURS: dict[str, Any] = {"action": "replace", "draft": "We refund at once, by card."}
SHORTER: dict[str, Any] = {"action": "revise", "feedback": "Say it in ten words."}


async def drafts(harness: RefinementHarness, refinement_id: str) -> dict[str, str]:
    """Return every judged draft by its path."""
    request = await harness.store.request(TENANT, refinement_id)
    found = iterations_of(await harness.events(refinement_id), request)
    return {it.path: it.draft for it in found}


async def test_a_revision_that_a_person_wants_while_it_is_paused_is_the_next_draft(
    harness: RefinementHarness,
) -> None:
    models = scores(0.4, 0.9)
    refinement_id, now = await paused_during(harness, "iterations/1/critique", models)
    assert now.review is not None
    assert "say what to revise" in now.review.question
    await harness.say(refinement_id, **SHORTER)
    ended = await harness.play(refinement_id, models, "second")
    judged = [it.data for it in await harness.events(refinement_id)]
    asked = [it.asked for it in judged if isinstance(it, IterationCompleted)]
    assert asked[1][0] == "review: Say it in ten words."
    assert (ended.stop_reason, ended.usage.calls) == (StopReason.THRESHOLD_MET, 4)
    said = [it.data for it in await harness.events(refinement_id) if isinstance(it.data, Reviewed)]
    assert said == [Reviewed(key=now.review.key, by="reviewer", **SHORTER)]
    assert ended.reviewed is not None
    assert ended.reviewed.action == "revise"


async def test_a_text_given_before_the_first_draft_is_the_first_draft(
    harness: RefinementHarness,
) -> None:
    refinement_id, models = await harness.submit(), scores(0.9)
    await pause(harness, refinement_id)
    await harness.play(refinement_id, models)
    with pytest.raises(Conflict, match="before a draft was judged: give the first one"):
        await harness.say(refinement_id, **SHORTER)
    await harness.say(refinement_id, **OURS)
    ended = await harness.play(refinement_id, models, "second")
    assert await drafts(harness, refinement_id) == {"iterations/1": OURS["draft"]}
    assert models.calls == Counter(["iterations/1/critique"])
    assert ended.stop_reason is StopReason.THRESHOLD_MET


async def test_a_clients_draft_is_judged_before_the_text_given_in_its_place(
    harness: RefinementHarness,
) -> None:
    refinement_id, models = await harness.submit(draft="We refund."), improving(0.9, 0.0)
    await pause(harness, refinement_id)
    await harness.play(refinement_id, models)
    await harness.say(refinement_id, **OURS)
    await harness.play(refinement_id, models, "second")
    assert await drafts(harness, refinement_id) == {
        "iterations/0": "We refund.",
        "iterations/1": OURS["draft"],
    }


async def test_a_draft_in_progress_is_judged_before_the_text_given_in_its_place(
    harness: RefinementHarness,
) -> None:
    models = scores(0.4, 0.5, 0.9)
    refinement_id, now = await paused_during(harness, "iterations/2/revise", models)
    assert now.review is not None
    assert now.review.path == "iterations/1"
    await harness.say(refinement_id, **OURS)
    await harness.play(refinement_id, models, "second")
    found = await drafts(harness, refinement_id)
    assert [*found] == ["iterations/1", "iterations/2", "iterations/3"]
    assert found["iterations/3"] == OURS["draft"]


TITLE: dict[str, Any] = {"outputs": [{"name": "title", "instructions": "A title."}]}


async def test_a_text_given_after_a_draft_that_was_good_enough_is_judged_too(
    harness: RefinementHarness,
) -> None:
    models = followed_up(scores(0.9, 0.3))
    refinement_id, _ = await paused_during(harness, "iterations/1/critique", models, **TITLE)
    await harness.say(refinement_id, **OURS)
    ended = await harness.play(refinement_id, models, "second")
    assert (await drafts(harness, refinement_id))["iterations/2"] == OURS["draft"]
    assert ended.result is not None
    assert ended.result.outputs == {"title": "Text of outputs/title."}


async def test_once_something_was_made_of_the_best_draft_only_resume_is_possible(
    harness: RefinementHarness,
) -> None:
    models = followed_up(improving(0.5, 0.1))
    fields: dict[str, Any] = {"draft": "We refund.", "threshold": 0.95, "max_iterations": 1}
    refinement_id, now = await paused_during(
        harness, "compare/1", models, compare=True, **fields, **TITLE
    )
    assert now.review is not None
    assert now.review.place is None
    with pytest.raises(Conflict, match="the best one is finished"):
        await harness.say(refinement_id, **OURS)
    await harness.say(refinement_id, **RESUME)
    assert (await harness.play(refinement_id, models, "second")).result is not None


async def test_of_two_decisions_at_once_one_is_followed_and_the_other_is_a_conflict(
    harness: RefinementHarness,
) -> None:
    models = scores(0.4, 0.9)
    refinement_id, now = await paused_during(harness, "iterations/1/critique", models)
    assert now.review is not None
    said = [harness.say(refinement_id, path=now.review.key, **it) for it in (OURS, SHORTER)]
    done = await asyncio.gather(*said, return_exceptions=True)
    assert [type(it) for it in done].count(Conflict) == 1
    with pytest.raises(Conflict, match="not waiting for a review: pause it"):
        await harness.say(refinement_id, **OURS)
    await harness.play(refinement_id, models, "second")
    found = await drafts(harness, refinement_id)
    assert (found["iterations/2"] == OURS["draft"]) is not isinstance(done[0], Conflict)


async def test_canceled_while_it_is_paused_a_decision_is_a_conflict(
    harness: RefinementHarness,
) -> None:
    refinement_id, _ = await paused_during(harness, "iterations/1/critique", scores(0.4, 0.9))
    await harness.store.cancel(TENANT, refinement_id)
    with pytest.raises(Conflict, match="has ended"):
        await harness.say(refinement_id, **OURS)


async def test_what_was_said_is_followed_after_a_failure_and_a_retry(
    harness: RefinementHarness,
) -> None:
    models = scores(0.4, 0.9)
    refinement_id, _ = await paused_during(harness, "iterations/1/critique", models)
    await harness.say(refinement_id, **OURS)
    refused = failing_at("iterations/2/critique", models)
    assert (await harness.play(refinement_id, refused, "second")).status is Status.FAILED
    await harness.store.retry(TENANT, refinement_id, LimitsChange(), None)
    ended = await harness.play(refinement_id, models, "third")
    assert ended.stop_reason is StopReason.THRESHOLD_MET
    assert (await drafts(harness, refinement_id))["iterations/2"] == OURS["draft"]


def failing_at(key: str, models: ScriptedAnswers) -> ScriptedAnswers:
    """Return the same models, which refuse one step."""

    async def answer(asked: str, call: ModelCall) -> str:
        if asked == key:
            raise ModelRefused("no")
        return await models.answer(asked, call)

    return ScriptedAnswers(answer)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_any_append_around_a_pause_what_was_said_is_followed_once(
    harness: RefinementHarness, after: bool
) -> None:
    ours: ReviewScript = defaultdict(lambda: OURS)
    dies_at, is_killed = 0, True
    while is_killed:
        dies_at += 1
        models, refinement_id = improving(0.3, 0.1), await harness.submit(max_iterations=3)
        pauses = pausing_once(harness, refinement_id, "iterations/2/revise", models)
        is_killed = await harness.play_and_die(refinement_id, pauses, dies_at, ours, after=after)
        await harness.play_on(harness.worker(pauses, "second"), refinement_id, ours)
        assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED
        said = [*(await drafts(harness, refinement_id)).values()]
        assert said.count(OURS["draft"]) == 1, f"killed at append {dies_at}"
        assert max(pauses.calls.values()) <= 2
    assert dies_at > 4


SPOKEN: dict[str, ReplayCase] = {
    "iterative": ReplayCase({}, lambda: followed_up(improving(0.3, 0.1))),
    "iterative with more": ReplayCase(
        {"draft": "We refund.", "compare": True, **TITLE}, lambda: followed_up(improving(0.3, 0.1))
    ),
    "best_of_n": ReplayCase({"strategy": {"kind": "best_of_n"}}, lambda: improving(0.3, 0.1)),
    "nested": ReplayCase(
        {"draft": "# When\n\nWe refund.\n\n# How\n\nBy card.", "strategy": {"kind": "nested"}},
        lambda: improving(0.3, 0.2),
    ),
    "stepwise": ReplayCase(
        {"strategy": {"kind": "stepwise", "stages": STAGES}, "threshold": 0.8},
        lambda: improving(0.6, 0.1),
    ),
    "plan_execute": ReplayCase(
        {"strategy": {"kind": "plan_execute"}, "tools": [LOOK_UP]}, planning
    ),
}
"""A chain, what follows it, side by side, parts, stages, and a plan."""


@pytest.mark.long
@pytest.mark.parametrize("kind", SPOKEN)
async def test_a_text_given_at_any_pause_is_followed_alike_by_every_later_replay(
    harness: RefinementHarness, kind: str
) -> None:
    """It is paused at every call; at one pause after the other it is given a text."""
    case, given_at, taken = SPOKEN[kind], 0, 0
    is_reached = True
    while is_reached:
        refinement_id = await harness.submit(**{"max_iterations": 3, **case.request})
        pauses = pausing_at_every_call(harness, refinement_id, case.models())
        now, number, has_place, is_reached = await harness.snapshot(refinement_id), 0, False, False
        while not now.status.is_terminal:
            now = await harness.play(refinement_id, pauses, f"{number}")
            if now.review:
                is_turn = number == given_at
                has_place = has_place or (is_turn and now.review.place is not None)
                is_reached = is_reached or is_turn
                word = OURS if is_turn and now.review.place else RESUME
                await harness.answer(refinement_id, now.review.key, word)
                number += 1
        assert now.status is Status.SUCCEEDED, now.error
        steps = (await record(harness, refinement_id)).keys()
        found = await drafts(harness, refinement_id)
        assert (OURS["draft"] in found.values()) is has_place, (given_at, steps)
        given_at, taken = given_at + 1, taken + has_place
    assert taken


def pausing_at_every_call(
    harness: RefinementHarness, refinement_id: str, models: ScriptedAnswers
) -> ScriptedAnswers:
    async def answer(key: str, call: ModelCall) -> str:
        await pause(harness, refinement_id)
        return await models.answer(key, call)

    return ScriptedAnswers(answer, usage=models.usage, outside=models.outside)
