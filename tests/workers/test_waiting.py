"""A refinement waits for a model that takes no calls: in its worker, or parked without one."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis

from app.contract.events import EventType, Resumed, StepCompleted, Stopping
from app.contract.judgement import Usage
from app.contract.limits import LimitsChange
from app.contract.models import ModelChoice
from app.contract.status import Status, StopReason
from app.contract.waiting import Waiting, in_words
from app.store.redis import keys
from benchmarks.model_replies import chat, events
from tests.models.calls import serving
from tests.waiting import TIMEOUT_S, skipping_clock
from tests.workers.refinement_harness import (
    TENANT,
    TEST_MODEL,
    TOKENS,
    RefinementHarness,
    ScriptedAnswers,
    away,
    pausing_at,
    refusing,
    scores,
)
from workers.models.port import ModelCall, ModelRefused, ModelWaits, NotServed

TWO = ModelChoice(model="first:x", fallbacks=("second:y",), max_output_tokens=100)


async def waits_of(harness: RefinementHarness, refinement_id: str) -> list[Waiting]:
    return [it.data for it in await harness.events(refinement_id) if isinstance(it.data, Waiting)]


async def wait_has_begun(harness: RefinementHarness, refinement_id: str) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not await waits_of(harness, refinement_id):  # noqa: ASYNC110 - it is in Redis
            await asyncio.sleep(0.01)


async def attempt_of(redis_url: str, refinement_id: str) -> int:
    async with Redis.from_url(redis_url, protocol=2) as client:
        return int(await client.hget(keys.SUMMARY + refinement_id, "attempt") or 0)


async def holder_of(redis_url: str, refinement_id: str) -> object:
    async with Redis.from_url(redis_url, protocol=2) as client:
        holder: object = await client.hget(keys.SUMMARY + refinement_id, "holder")
        assert bool(holder) == bool(await client.sismember(keys.HELD + "first", refinement_id))
        return holder


async def test_a_short_wait_stays_in_the_worker(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    models = refusing(scores(0.9), away(0.05), away(0.05))
    ended = await harness.play(refinement_id, models)
    assert (ended.status, ended.outcome, ended.waiting) == (Status.SUCCEEDED, "passed", None)
    assert models.calls["iterations/1/draft"] == 3
    assert [it.key for it in await waits_of(harness, refinement_id)] == ["iterations/1/draft"]
    assert EventType.STEP_FAILED not in [it.type for it in await harness.events(refinement_id)]


async def test_a_long_wait_holds_no_worker_and_costs_no_attempt(
    harness: RefinementHarness, redis_url: str
) -> None:
    refinement_id = await harness.submit()
    models = refusing(scores(0.9), away(reason="unauthorized"))
    parked = await harness.play(refinement_id, models)
    assert (parked.status, parked.phase) == (Status.RUNNING, ("iterations/1/draft",))
    assert parked.waiting is not None
    assert (parked.waiting.reason, parked.waiting.model) == ("unauthorized", TEST_MODEL.model)
    assert parked.waiting == (await waits_of(harness, refinement_id))[0]
    assert parked.started_at is not None
    assert 55 < (parked.waiting.until - parked.started_at).total_seconds() < 65
    assert await attempt_of(redis_url, refinement_id) == 0
    assert await holder_of(redis_url, refinement_id) is None


async def test_a_refused_key_is_told_in_words_to_who_polls(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    models = refusing(scores(0.9), away(reason="unauthorized"))
    waiting = (await harness.play(refinement_id, models)).waiting
    assert waiting is not None
    assert waiting.since is not None
    said = f"{TEST_MODEL.model} is away"
    assert waiting.detail == in_words(TEST_MODEL.model, "unauthorized", said)
    said = "api.example.com answered 401: Incorrect API key provided."
    assert in_words("openai:x", "unauthorized", said) == (
        "openai:x refused the API key: api.example.com answered 401: Incorrect API key provided."
        " The operator of this server must replace OPENAI_API_KEY, or get it access; then the call"
        " is made again by itself."
    )
    own = in_words("own:acme:router:y", "quota_exhausted", "no credit")
    assert "router:y had no credit left: no credit. Tenant acme must pay for its own key" in own


def test_a_key_that_is_refused_in_the_course_of_a_wait_is_news_after_a_minute() -> None:
    at = datetime(2026, 1, 31, tzinfo=UTC)
    busy = Waiting(key="k", reason="rate_limited", model="a:b", until=at, since=at)
    refused = busy.model_copy(update={"reason": "unauthorized"})
    later = {"since": at + timedelta(minutes=1)}
    assert not refused.is_news_after(busy)
    assert refused.model_copy(update=later).is_news_after(busy)
    assert busy.model_copy(update=later).is_news_after(refused)
    assert not refused.model_copy(update=later).is_news_after(refused)


async def test_it_goes_on_only_with_a_permit(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    models = refusing(scores(0.4, 0.9), away(), at="iterations/2/revise")
    worker = harness.worker(models)
    await harness.deliver(worker, refinement_id)
    await harness.deliver(worker, refinement_id)
    assert models.calls["iterations/2/revise"] == 1
    assert await harness.worker_store.parked(9) == {TEST_MODEL.model: 1}
    assert await harness.resume() == 1
    assert await harness.worker_store.parked(9) == {}
    await harness.deliver(worker, refinement_id)
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.waiting, models.calls["iterations/1/draft"]) == (
        Status.SUCCEEDED,
        None,
        1,
    )


async def test_the_first_call_after_a_wait_has_the_permit(harness: RefinementHarness) -> None:
    permits: list[tuple[str, bool, int, int]] = []

    async def answer(key: str, call: ModelCall) -> str:
        permits.append((key, call.has_permit, call.progress, call.tries))
        if key == "iterations/1/critique" and not call.has_permit:
            raise away()
        return await scores(0.9).answer(key, call)

    refinement_id = await harness.submit()
    worker = harness.worker(ScriptedAnswers(answer))
    await harness.deliver(worker, refinement_id)
    await harness.resume()
    await harness.deliver(worker, refinement_id)
    assert permits == [
        ("iterations/1/draft", False, 0, 0),
        ("iterations/1/critique", False, 1, 0),
        ("iterations/1/critique", True, 1, 0),
    ]


async def test_another_refusal_of_the_same_step_is_the_same_wait(
    harness: RefinementHarness, redis_url: str
) -> None:
    refinement_id = await harness.submit()
    worker = harness.worker(refusing(scores(0.9), away(), away(90)))
    await harness.deliver(worker, refinement_id)
    first = await harness.snapshot(refinement_id)
    await harness.resume()
    await harness.deliver(worker, refinement_id)
    again = await harness.snapshot(refinement_id)
    assert again.waiting == first.waiting
    news = [it.type for it in await harness.events(refinement_id)][first.last_event :]
    assert news == [EventType.RESUMED, EventType.STEP_STARTED]
    assert await attempt_of(redis_url, refinement_id) == 0
    await harness.resume()
    await harness.deliver(worker, refinement_id)
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED
    assert len(await waits_of(harness, refinement_id)) == 1


async def test_a_branch_that_can_go_on_keeps_the_worker_until_it_waits_too(
    harness: RefinementHarness, redis_url: str
) -> None:
    held, begun, go_on = pausing_at("iterations/2/draft", scores(0.4, 0.9))
    models = refusing(held, away(), at="iterations/1/draft")
    refinement_id = await harness.submit(
        strategy={"kind": "best_of_n", "n": 2}, max_iterations=2, stop={"max_seconds": 600}
    )
    playing = asyncio.ensure_future(harness.play(refinement_id, models))
    await asyncio.wait_for(begun.wait(), TIMEOUT_S)
    await wait_has_begun(harness, refinement_id)
    assert await holder_of(redis_url, refinement_id) == b"first"
    go_on.set()
    parked = await asyncio.wait_for(playing, TIMEOUT_S)
    assert parked.waiting is not None
    assert (parked.waiting.key, parked.phase) == ("iterations/1/draft", ("iterations/1/draft",))
    await harness.resume()
    ended = await harness.play(refinement_id, models)
    assert (ended.status, len(ended.scores)) == (Status.SUCCEEDED, 2)
    assert models.calls["iterations/2/draft"] == 1


async def test_a_fallback_is_asked_when_the_wait_would_be_long(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit(TWO)
    models = refusing(scores(0.9), away(11, "first:x", is_open=False))
    ended = await harness.play(refinement_id, models)
    assert ended.status is Status.SUCCEEDED
    assert not await waits_of(harness, refinement_id)


async def test_a_short_wait_is_no_reason_for_a_fallback(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit(TWO)
    asked: list[str] = []

    async def answer(key: str, call: ModelCall) -> str:
        asked.append(call.model)
        return await scores(0.9).answer(key, call)

    models = refusing(ScriptedAnswers(answer), away(0.05, "first:x", is_open=False))
    assert (await harness.play(refinement_id, models)).status is Status.SUCCEEDED
    assert set(asked) == {"first:x"}


async def test_with_fallbacks_it_waits_for_the_first_permit_of_any(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit(TWO)
    asked: list[tuple[str, bool]] = []

    async def answer(key: str, call: ModelCall) -> str:
        asked.append((call.model, call.has_permit))
        return await scores(0.9).answer(key, call)

    worker = harness.worker(
        refusing(ScriptedAnswers(answer), away(60, "first:x"), away(30, "second:y"))
    )
    await harness.deliver(worker, refinement_id)
    waiting = (await harness.snapshot(refinement_id)).waiting
    assert waiting is not None
    assert waiting.model == "second:y"
    assert await harness.worker_store.parked(9) == {"first:x": 1, "second:y": 1}
    await harness.resume("second:y")
    assert await harness.worker_store.parked(9) == {}
    await harness.deliver(worker, refinement_id)
    assert asked == [("second:y", True), ("first:x", False)]


async def test_waiting_is_not_counted_in_max_seconds(harness: RefinementHarness) -> None:
    skip, back = skipping_clock(), asyncio.Event()
    refinement_id = await harness.submit(stop={"max_seconds": 600})
    playing = asyncio.ensure_future(
        harness.play(refinement_id, away_until(back, scores(0.9), "iterations/1/draft"))
    )
    await wait_has_begun(harness, refinement_id)
    back.set()
    skip(700)
    ended = await asyncio.wait_for(playing, TIMEOUT_S)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.THRESHOLD_MET)


def away_until(back: asyncio.Event, models: ScriptedAnswers, at: str) -> ScriptedAnswers:
    """Return the same models, which refuse one step for nearly as long as a worker waits."""

    async def answer(asked: str, call: ModelCall) -> str:
        if asked == at and not back.is_set():
            raise away(4.9)
        return await models.answer(asked, call)

    return ScriptedAnswers(answer)


@pytest.mark.parametrize("wait_s", [3, 60])
async def test_waits_have_a_limit_of_their_own(
    harness: RefinementHarness, redis_url: str, wait_s: float
) -> None:
    refinement_id = await harness.submit(stop={"max_wait_seconds": 0.2})
    models = refusing(scores(0.4), away(wait_s), at="iterations/2/revise")
    await end_overdue(harness, redis_url, refinement_id, models)
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.DEADLINE)
    assert ended.result is not None
    assert (ended.result.score, ended.waiting) == (0.4, None)
    assert await limits_in(harness, refinement_id) == ["max_wait_seconds"]


async def test_one_that_ends_while_it_waits_says_what_for(
    harness: RefinementHarness, redis_url: str
) -> None:
    refinement_id = await harness.submit(stop={"max_wait_seconds": 0.2})
    await end_overdue(
        harness, redis_url, refinement_id, refusing(scores(0.4), away(reason="unauthorized"))
    )
    ended = await harness.snapshot(refinement_id)
    assert ended.error is not None
    assert (ended.status, ended.error.code) == (Status.FAILED, "nothing_judged")
    assert "max_wait_seconds" in ended.error.detail
    assert "scripted:test, which refused the API key" in ended.error.detail


async def end_overdue(
    harness: RefinementHarness, redis_url: str, refinement_id: str, models: ScriptedAnswers
) -> None:
    """Play until it waits for too long, and let recovery and a worker end it."""
    worker = harness.worker(models)
    await harness.deliver(worker, refinement_id)
    async with Redis.from_url(redis_url, protocol=2) as client:
        seconds, _ = await client.time()
        await client.hset(keys.UP, mapping={"seen": seconds * 1000, "since": 0})
    async with asyncio.timeout(TIMEOUT_S):
        while not (await harness.snapshot(refinement_id)).status.is_terminal:
            await harness.worker_store.recover(include_queued=False)
            await harness.deliver(worker, refinement_id)


async def limits_in(harness: RefinementHarness, refinement_id: str) -> list[str | None]:
    events = await harness.events(refinement_id)
    return [it.data.limit for it in events if isinstance(it.data, Stopping)]


async def test_a_command_ends_a_wait_in_the_worker_at_once(harness: RefinementHarness) -> None:
    skip = skipping_clock()
    models = away_until(asyncio.Event(), scores(0.4), "iterations/2/revise")
    refinement_id = await harness.submit()
    worker = harness.worker(models)
    playing = asyncio.ensure_future(harness.deliver(worker, refinement_id))
    await wait_has_begun(harness, refinement_id)
    skip(-2 * TIMEOUT_S)  # the wait is not over before the test is
    await harness.store.finish(TENANT, refinement_id)
    await worker.look(refinement_id)
    await asyncio.wait_for(playing, TIMEOUT_S)
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.FINISHED_EARLY)


async def test_a_worker_that_leaves_hands_back_what_waits(
    harness: RefinementHarness, redis_url: str
) -> None:
    skip, back = skipping_clock(), asyncio.Event()
    models = away_until(back, scores(0.9), "iterations/1/draft")
    refinement_id = await harness.submit()
    worker = harness.worker(models)
    playing = asyncio.ensure_future(harness.deliver(worker, refinement_id))
    await wait_has_begun(harness, refinement_id)
    skip(-2 * TIMEOUT_S)  # the wait is not over before the test is
    worker.leave()
    await asyncio.wait_for(playing, TIMEOUT_S)
    back.set()
    assert await attempt_of(redis_url, refinement_id) == 0
    waiting = (await harness.snapshot(refinement_id)).waiting
    assert waiting is not None
    ended = await harness.play(refinement_id, models, "second")
    assert (ended.status, ended.waiting) == (Status.SUCCEEDED, None)
    assert len(await waits_of(harness, refinement_id)) == 1


async def test_a_cancel_of_a_parked_one_needs_no_worker(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    await harness.play(refinement_id, refusing(scores(0.9), away()))
    canceled = await harness.store.cancel(TENANT, refinement_id)
    assert (canceled.status, canceled.waiting) == (Status.CANCELED, None)
    assert await harness.worker_store.parked(9) == {}


async def test_a_finish_of_a_parked_one_ends_it_with_its_best_draft(
    harness: RefinementHarness,
) -> None:
    models = refusing(scores(0.4), away(), at="iterations/2/revise")
    refinement_id = await harness.submit()
    await harness.play(refinement_id, models)
    finishing = await harness.store.finish(TENANT, refinement_id)
    assert (finishing.status, finishing.waiting) == (Status.RUNNING, None)
    ended = await harness.play(refinement_id, models)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.FINISHED_EARLY)
    assert models.calls["iterations/2/revise"] == 1


async def test_a_finish_without_a_draft_waits_on(harness: RefinementHarness) -> None:
    models = refusing(scores(0.4), away())
    refinement_id = await harness.submit()
    await harness.play(refinement_id, models)
    assert (await harness.store.finish(TENANT, refinement_id)).waiting is not None
    assert await harness.resume() == 1
    ended = await harness.play(refinement_id, models)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.FINISHED_EARLY)


async def test_a_lower_limit_of_waits_ends_a_parked_one(
    harness: RefinementHarness, redis_url: str
) -> None:
    models = refusing(scores(0.4), away(), at="iterations/2/revise")
    refinement_id = await harness.submit()
    await harness.play(refinement_id, models)
    await harness.store.change(TENANT, refinement_id, LimitsChange(max_wait_seconds=0.001))
    await end_overdue(harness, redis_url, refinement_id, models)
    assert await limits_in(harness, refinement_id) == ["max_wait_seconds"]


async def test_a_resumed_wait_replays_nothing_twice(harness: RefinementHarness) -> None:
    models = refusing(scores(0.4, 0.9), away(), at="iterations/2/critique")
    refinement_id = await harness.submit()
    worker = harness.worker(models)
    await harness.deliver(worker, refinement_id)
    await harness.resume()
    await harness.deliver(worker, refinement_id)
    events = [it.data for it in await harness.events(refinement_id)]
    assert [it.replayed for it in events if isinstance(it, Resumed)] == [3]
    assert max(models.calls.values()) == 2


BROKE_OFF = Usage(calls=1, input_tokens=70, output_tokens=30, cost_usd=None)
REFUSED = Usage(calls=1)


def broken(wait_s: float, usage: Usage) -> ModelWaits:
    return ModelWaits(TEST_MODEL.model, "unreachable", wait_s, "reset", usage=usage)


@pytest.mark.parametrize("wait_s", [0.01, 60], ids=["in the worker", "parked"])
async def test_what_a_reply_consumed_that_broke_off_is_paid_and_what_was_refused_is_no_call(
    harness: RefinementHarness, wait_s: float
) -> None:
    refinement_id = await harness.submit()
    losses = [broken(wait_s, BROKE_OFF), broken(wait_s, REFUSED), broken(wait_s, BROKE_OFF)]
    models = refusing(scores(0.9), *losses, at="iterations/1/draft")
    await harness.play_on(harness.worker(models), refinement_id)
    ended = await harness.snapshot(refinement_id)
    paid = 2 * TOKENS.output_tokens + 2 * BROKE_OFF.output_tokens
    assert (ended.usage.calls, ended.usage.output_tokens) == (4, paid)
    lost = [it.lost and it.lost.calls for it in await waits_of(harness, refinement_id)]
    assert lost == [1, 2]
    told = await harness.events(refinement_id)
    assert (EventType.RESUMED in [it.type for it in told]) is (wait_s > 1)
    assert sum(it.data.usage.calls for it in told if isinstance(it.data, StepCompleted)) == 4


async def test_what_a_reply_consumed_that_broke_off_is_paid_though_the_worker_leaves(
    harness: RefinementHarness,
) -> None:
    async def answer(_key: str, _call: ModelCall) -> str:
        worker.leave()
        raise broken(0.01, BROKE_OFF)

    refinement_id = await harness.submit()
    worker = harness.worker(ScriptedAnswers(answer))
    await harness.deliver(worker, refinement_id)
    assert (await harness.snapshot(refinement_id)).usage.calls == 1
    ended = await harness.play(refinement_id, scores(0.9), "second")
    paid = 2 * TOKENS.output_tokens + BROKE_OFF.output_tokens
    assert (ended.usage.calls, ended.usage.output_tokens) == (3, paid)


async def test_what_broke_off_before_a_retry_is_paid_once(harness: RefinementHarness) -> None:
    models = refusing(scores(0.9), broken(0.01, BROKE_OFF), at="iterations/1/draft")
    fails = iter([True, False])

    async def answer(key: str, call: ModelCall) -> str:
        text = await models.answer(key, call)
        if key == "iterations/1/draft" and next(fails):
            raise ModelRefused("no")
        return text

    refinement_id = await harness.submit()
    failed = await harness.play(refinement_id, ScriptedAnswers(answer))
    assert (failed.status, failed.usage.output_tokens) == (Status.FAILED, BROKE_OFF.output_tokens)
    await harness.store.retry(TENANT, refinement_id)
    ended = await harness.play(refinement_id, ScriptedAnswers(answer), "second")
    assert ended.usage.output_tokens == 2 * TOKENS.output_tokens + BROKE_OFF.output_tokens


async def test_a_reply_that_always_breaks_off_ends_with_the_budget(
    harness: RefinementHarness,
) -> None:
    pieces = events(b'data: {"choices": [{"delta": {"content": "We refund"}}]}\n\n')
    whole = replace(chat("We refund"), body=b'{"choices": [', is_cut=True)
    async with serving(lambda it: pieces if "stream" in it.json else whole) as (model, server):

        async def answer(_key: str, call: ModelCall) -> str:
            try:
                await model.complete(replace(call, expected_output_tokens=100_000))
            except NotServed as error:
                raise broken(0, error.usage) from None
            raise AssertionError("every stream breaks off")

        refinement_id = await harness.submit(stop={"max_tokens": 6_000})
        ended = await harness.play(refinement_id, ScriptedAnswers(answer))
    assert (ended.status, ended.error and ended.error.code) == (Status.FAILED, "nothing_judged")
    assert 2 <= server.counts.calls <= 20
    assert ended.usage.calls == server.counts.calls
    assert 0 < ended.usage.input_tokens + ended.usage.output_tokens <= 6_000
    assert ended.error is not None
    assert "budget_exhausted" in ended.error.detail
