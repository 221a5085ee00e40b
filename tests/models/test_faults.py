"""Every way in which a model server fails: bounded calls, time and memory, and a name for it."""

import asyncio
import gzip
import tracemalloc
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from benchmarks.model_replies import (
    EMPTY,
    HANG,
    NOT_JSON,
    RESET,
    WRONG_SCHEMA,
    AskedPrompt,
    ModelServerReply,
    chat,
    drip,
    huge,
    refusal,
)
from tests.models.calls import REPLY_BYTES, RETRY_POLICY, call, in_turn, serving
from tests.waiting import TIMEOUT_S, skipping_clock
from workers.models.openai import OpenAI
from workers.models.port import (
    ContentFiltered,
    ModelError,
    ModelRefused,
    NotServed,
    ReplyCutOff,
    ReplyRefused,
    UnreadableReply,
)
from workers.outbound.transport import RetryPolicy

RETRYING = replace(RETRY_POLICY, tries=3)
FAILED_WHILE_WRITING = {
    "message": {"content": "Dear"},
    "finish_reason": "error",
    "error": {"code": 503, "message": "overloaded"},
}
NOT_A_REPLY = ModelServerReply(body=b"It works!")
BUSY = refusal(429, "slow down", ("Retry-After", "0"))


async def failure(
    reply: ModelServerReply, retry_policy: RetryPolicy = RETRY_POLICY, tries: int = 0
) -> tuple[ModelError | NotServed, int]:
    """How a call fails that always gets this reply, and how many requests the server saw."""
    async with serving(in_turn(reply), retry_policy=retry_policy) as (model, server):
        with pytest.raises((ModelError, NotServed)) as caught:
            await model.complete(call(tries=tries))
        assert isinstance(caught.value, ModelError | NotServed)
        is_refused = reply.status >= 300
        assert caught.value.usage.calls == (0 if is_refused else server.counts.calls)
        return caught.value, server.counts.calls


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_a_refusal_that_may_pass_is_left_to_who_waits_for_the_model(status: int) -> None:
    error, calls = await failure(refusal(status, "not now"))
    assert type(error) is NotServed
    assert calls == 1
    assert f"answered {status}: not now" in error.detail
    assert error.usage.cost_usd == 0.0


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_a_refusal_that_stays_is_final(status: int) -> None:
    error, calls = await failure(refusal(status, "that will not do"))
    assert isinstance(error, ModelRefused)
    assert error.code == "model_refused"
    assert calls == 1
    assert "that will not do" in error.detail


async def test_words_of_a_refusal_that_cannot_be_encoded_are_replaced() -> None:
    error, _ = await failure(refusal(400, "half a pair: \ud83d"))
    assert error.detail.endswith("half a pair: ?")


async def test_a_server_that_says_a_retry_is_useless_is_believed() -> None:
    error, calls = await failure(refusal(429, "used up", ("x-should-retry", "false")))
    assert isinstance(error, NotServed)
    assert error.reason == "quota_exhausted"
    assert calls == 1


@pytest.mark.parametrize("reply", [NOT_A_REPLY, WRONG_SCHEMA, EMPTY, chat(""), chat("  \n")])
async def test_a_reply_that_cannot_be_read_is_asked_for_again_twice(
    reply: ModelServerReply,
) -> None:
    for tries in range(2):
        error, calls = await failure(reply, tries=tries)
        assert isinstance(error, NotServed)
        assert (error.reason, error.is_outage, calls) == ("error", False, 1)
        assert error.usage.cost_usd is None
    last, _ = await failure(reply, tries=2)
    assert isinstance(last, UnreadableReply)
    assert last.usage.cost_usd is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (NOT_JSON.body, "unreachable"),
        (b'{"error": {"code": 502, "message": "Provider returned error"}}', "unreachable"),
        (
            chat("Dear", choices=[FAILED_WHILE_WRITING]).body,
            "overloaded",
        ),
    ],
)
async def test_a_failure_with_status_200_is_an_outage_however_often_it_comes(
    body: bytes, reason: str
) -> None:
    error, calls = await failure(ModelServerReply(body=body), tries=99)
    assert isinstance(error, NotServed)
    assert (error.reason, error.is_outage, calls) == (reason, True, 1)
    assert error.usage.cost_usd is None


async def test_a_reply_cut_off_by_the_output_limit_is_not_taken_for_a_text() -> None:
    choice = {"finish_reason": "length", "message": {"content": "Dear cust"}}
    error, _ = await failure(chat("", choices=[choice]))
    assert isinstance(error, ReplyCutOff)
    assert (error.code, error.text) == ("reply_cut_off", "Dear cust")
    assert (error.usage.input_tokens, error.usage.output_tokens) == (700, 300)


async def test_a_reply_withheld_by_a_filter_is_a_refusal() -> None:
    choice = {"finish_reason": "content_filter", "message": {"content": "Dear"}}
    error, _ = await failure(chat("", choices=[choice]))
    assert type(error) is ContentFiltered


async def test_a_reply_that_is_marked_as_a_refusal_is_no_filter_and_was_paid_for() -> None:
    choice = {
        "finish_reason": "stop",
        "message": {"content": None, "refusal": "I would rather not."},
    }
    error, _ = await failure(chat("", choices=[choice]))
    assert isinstance(error, ReplyRefused)
    assert (error.code, error.usage.output_tokens) == ("reply_refused", 300)
    assert "I would rather not." in error.detail


async def test_a_reset_connection_may_have_cost_something() -> None:
    error, calls = await failure(RESET)
    assert isinstance(error, NotServed)
    assert (error.reason, calls) == ("unreachable", 1)
    assert error.usage.cost_usd is None


async def test_a_server_that_is_not_there_costs_nothing() -> None:
    async with serving(in_turn(EMPTY)) as (model, server):
        await server.__aexit__()
        with pytest.raises(NotServed, match=r"127\.0\.0\.1:\d+ is unreachable") as caught:
            await model.complete(call())
    assert caught.value.usage.calls == 1
    assert caught.value.usage.cost_usd == 0.0


async def test_a_key_with_a_line_end_waits_for_another_key_and_sends_nothing() -> None:
    keyed = partial(OpenAI, api_key="secret\n")
    async with serving(in_turn(EMPTY), speaking=keyed) as (model, server):
        with pytest.raises(NotServed, match="line end, perhaps in the API key") as caught:
            await model.complete(call())
        assert server.counts.calls == 0
    assert caught.value.reason == "unauthorized"
    assert "secret" not in caught.value.detail


@pytest.mark.parametrize("reply", [HANG, drip("never whole", every_s=0.05)])
async def test_a_server_too_slow_for_the_whole_time_is_given_up(reply: ModelServerReply) -> None:
    skip = skipping_clock()
    async with serving(in_turn(reply)) as (model, server):
        calling = asyncio.create_task(model.complete(call()))
        await until(lambda: server.counts.in_flight == 1)
        skip(RETRY_POLICY.total_s)
        with pytest.raises(NotServed, match="did not respond before the timeout") as caught:
            await calling
        assert caught.value.usage.calls == server.counts.calls == 1


async def test_a_reply_of_50_megabytes_is_dropped_soon_after_the_limit() -> None:
    async with serving(in_turn(huge())) as (model, server):
        with pytest.raises(UnreadableReply, match=f"more than {REPLY_BYTES} bytes"):
            await model.complete(call(tries=2))
        assert server.counts.calls == 1
        assert server.counts.bytes_sent < 8 * 1024 * 1024


async def test_a_reply_that_grows_when_decompressed_is_held_to_the_same_limit() -> None:
    bomb = ModelServerReply(
        body=gzip.compress(b"x" * 50_000_000), headers=(("Content-Encoding", "gzip"),)
    )
    tracemalloc.start()
    error, calls = await failure(bomb, tries=2)
    _, most_memory = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert type(error) is UnreadableReply
    assert f"more than {REPLY_BYTES} bytes" in error.detail
    assert calls == 1
    assert most_memory < 16 * 1024 * 1024


async def test_a_compressed_reply_is_read_though_none_was_asked_for() -> None:
    packed = ModelServerReply(
        body=gzip.compress(chat("done").body), headers=(("Content-Encoding", "gzip"),)
    )
    async with serving(in_turn(packed)) as (model, _):
        assert (await model.complete(call())).text == "done"


@pytest.mark.parametrize(
    "headers", [(("Content-Encoding", "br"),), (("Content-Encoding", "gzip"),)]
)
async def test_a_reply_in_no_known_or_a_broken_encoding_cannot_be_read(
    headers: tuple[tuple[str, str], ...],
) -> None:
    error, _ = await failure(ModelServerReply(body=b"not packed", headers=headers), tries=2)
    assert type(error) is UnreadableReply


async def test_a_redirect_is_not_followed() -> None:
    error, calls = await failure(
        ModelServerReply(status=308, headers=(("Location", "/elsewhere"),))
    )
    assert isinstance(error, ModelRefused)
    assert "redirect" in error.detail
    assert calls == 1


@pytest.mark.parametrize(("trouble", "calls"), [(BUSY, 1), (refusal(500, "oops"), 1), (RESET, 3)])
async def test_trouble_that_passes_is_not_noticed_and_counted_unless_it_is_a_refusal(
    trouble: ModelServerReply, calls: int
) -> None:
    script = in_turn(trouble, trouble, chat("done"))
    async with serving(script, retry_policy=RETRYING) as (model, _):
        reply = await model.complete(call())
    assert reply.text == "done"
    assert reply.usage.calls == calls


async def test_a_wait_longer_than_the_time_left_is_not_begun() -> None:
    error, calls = await failure(
        refusal(429, "slow down", ("Retry-After", "60")), replace(RETRYING, total_s=30.0)
    )
    assert isinstance(error, NotServed)
    assert error.retry_after_s == 60
    assert "no time is left" in error.detail
    assert calls == 1


async def test_a_cancelled_call_drops_its_connection_at_once() -> None:
    async with serving(in_turn(HANG)) as (model, server):
        await cancelled_when(model.complete(call()), lambda: server.counts.in_flight == 1)
        await until(lambda: server.counts.dropped == 1)
        assert server.counts.in_flight == 0


async def test_a_call_cancelled_in_the_middle_of_its_reply_drops_its_connection() -> None:
    async with serving(in_turn(drip("never whole", every_s=0.01))) as (model, server):
        await cancelled_when(model.complete(call()), lambda: server.counts.bytes_sent > 150)
        await until(lambda: server.counts.dropped == 1)


async def test_200_calls_at_once_overlap_and_each_has_its_own_reply() -> None:
    def echo(asked: AskedPrompt) -> ModelServerReply:
        return replace(chat(asked.header("idempotency-key") or ""), delay_s=60)

    skip = skipping_clock()
    async with serving(echo) as (model, server):
        calls = [model.complete(call(key=f"ref_{n}")) for n in range(200)]
        calling = asyncio.gather(*calls)
        await until(lambda: server.counts.in_flight == 200)
        skip(60)
        replies = await calling
    assert [reply.text for reply in replies] == [f"ref_{n}" for n in range(200)]
    assert server.counts.most_in_flight == 200


async def until(condition: Callable[[], bool]) -> None:
    """Wait for the condition, within a bound that only a failure reaches."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - what is waited for is a counter, not an event
            await asyncio.sleep(0.01)


async def cancelled_when(
    coroutine: Coroutine[Any, Any, object], condition: Callable[[], bool]
) -> None:
    """Start it, wait for the condition, cancel it."""
    task = asyncio.create_task(coroutine)
    await until(condition)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
