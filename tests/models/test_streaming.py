"""Streamed replies: as servers really send them, and as they fail."""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.contract.budget import tokens_in
from benchmarks.model_replies import NOT_JSON, RESET, ModelServerReply, chat, events, refusal
from tests.models.calls import REPLY_BYTES, RETRY_POLICY, RecordingBehaviour, call, in_turn, serving
from tests.models.test_faults import until
from tests.waiting import skipping_clock, turns
from workers.models.anthropic import Anthropic
from workers.models.openai import OpenAI
from workers.models.port import ModelCall, ModelError, ModelRefused, NotServed
from workers.models.port import UnreadableReply as Unreadable
from workers.models.remote import TOKENS_PER_S, ResponseInParts
from workers.outbound.transport import UnusableResponse

LONG = int(RETRY_POLICY.total_s * TOKENS_PER_S / 2) + 1
TEXT = "Dear customer, h\u00e9llo\u2028there."


@dataclass
class Follower:
    """Follows a text, and keeps what it returns at the end of each try."""

    is_watched: bool = True
    tries: list[Callable[[], str]] = field(default_factory=list)

    def follow(self, text: Callable[[], str]) -> None:
        self.tries.append(text)


def long_call(**changes: Any) -> ModelCall:
    return call(expected_output_tokens=LONG, **changes)


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {
        "model": "gpt-x-2026",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


STOP = chunk("stop")
USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
WORDS = [chunk(role="assistant"), *(chunk(content=it) for it in (TEXT[:6], TEXT[6:])), STOP]
DONE = b"data: [DONE]\n\n"


def sent(
    chunks: Iterable[object], data: bytes = b"data: ", end: bytes = b"\n\n", done: bytes = DONE
) -> ModelServerReply:
    lines = (json.dumps(it, ensure_ascii=False).encode() for it in chunks)
    return events(*(data + line + end for line in lines), done)


ODD_STREAMS = {
    "as OpenAI sends it": sent([*WORDS, USAGE]),
    "without [DONE]": sent([*WORDS, USAGE], done=b""),
    "without a space after data:": sent([*WORDS, USAGE], b"data:"),
    "with line ends of Windows": sent([*WORDS, USAGE], end=b"\r\n\r\n"),
    "with carriage returns alone": sent([*WORDS, USAGE], end=b"\r\r", done=b"data: [DONE]\r\r"),
    "without empty lines": sent([*WORDS, USAGE], end=b"\n"),
    "with more after [DONE]": events(
        b"".join([*sent([*WORDS, USAGE]).pieces, *sent([chunk(content="No."), USAGE]).pieces])
    ),
    "with half a line after [DONE]": events(
        sent([*WORDS, USAGE]).body + sent([chunk(content="No.")]).pieces[0].rstrip()
    ),
    "with comments, ids and types": sent([*WORDS, USAGE], b": busy\nid: 7\nevent: x\ndata: "),
    "an event on several lines": events(
        *(
            b"data: " + line.encode() + b"\n"
            for line in json.dumps(chunk("stop", content=TEXT), indent=1).split("\n")
        ),
        b"\ndata: " + json.dumps(USAGE).encode() + b"\n\n",
    ),
    "with a byte order mark": events(b"\xef\xbb\xbf", *sent([*WORDS, USAGE]).pieces),
    "with reasoning apart": sent([chunk(reasoning_content="Hm."), *WORDS, USAGE]),
    "with content in parts": sent(
        [
            chunk(content=[{"type": "thinking", "thinking": "Hm."}]),
            chunk(content=[{"type": "text", "text": TEXT}]),
            STOP,
            USAGE,
        ]
    ),
    "with a message in place of deltas": sent(
        [{"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}]}, USAGE]
    ),
    "usage in every chunk": sent(
        [it | {"usage": {"prompt_tokens": 7, "completion_tokens": 1}} for it in WORDS] + [USAGE]
    ),
    "other choices beside the first": sent(
        [{"choices": [{"index": 1, "delta": {"content": "No."}}]}, *WORDS, USAGE]
    ),
    "a byte at a time": replace(sent([*WORDS, USAGE]), pieces=(), chunk_bytes=1),
    "whole, though a stream was asked for": chat(
        TEXT, usage={"prompt_tokens": 7, "completion_tokens": 3}
    ),
}


@pytest.mark.parametrize("reply", ODD_STREAMS.values(), ids=ODD_STREAMS.keys())
async def test_a_stream_is_read_as_servers_really_send_it(reply: ModelServerReply) -> None:
    behaviour = RecordingBehaviour(in_turn(reply))
    async with serving(behaviour) as (model, _):
        answer = await model.complete(long_call())
    assert behaviour.asked[0].json["stream"] is True
    assert behaviour.asked[0].json["stream_options"] == {"include_usage": True}
    assert answer.text == TEXT
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 3)


async def test_a_server_that_sends_no_usage_has_an_unknown_cost() -> None:
    async with serving(in_turn(sent(WORDS))) as (model, _):
        answer = await model.complete(long_call())
    assert (answer.text, answer.model) == (TEXT, "local:gpt-x-2026")
    assert answer.usage.output_tokens > 0
    assert answer.usage.cost_usd is None


async def test_a_short_reply_that_nobody_watches_comes_whole() -> None:
    behaviour = RecordingBehaviour(in_turn(chat(TEXT)))
    async with serving(behaviour) as (model, _):
        await model.complete(call(follower=Follower(is_watched=False)))
        await model.complete(call(follower=Follower()))
    assert ["stream" in it.json for it in behaviour.asked] == [False, True]


HALVES = (
    [chunk(content="Dear \ud83d"), chunk(content="\ude00."), STOP, USAGE],
    "Dear \U0001f600.",
    ["Dear ", "Dear \U0001f600."],
)
ALONE = ([chunk(content="Dear \ud83d"), chunk(content=" you."), STOP, USAGE], "Dear \ufffd you.")


@pytest.mark.parametrize("is_escaped", [True, False])
@pytest.mark.parametrize(("chunks", "text"), [HALVES[:2], ALONE], ids=["pair", "alone"])
async def test_half_a_character_in_a_piece_is_no_failed_call(
    chunks: list[object], text: str, is_escaped: bool
) -> None:
    lines = (
        json.dumps(it, ensure_ascii=is_escaped).encode("utf-8", "surrogatepass") for it in chunks
    )
    stream = events(*(b"data: " + line + b"\n\n" for line in lines), DONE)
    async with serving(in_turn(stream)) as (model, _):
        assert (await model.complete(long_call())).text == text


async def test_half_a_character_in_a_whole_reply_is_no_failed_call() -> None:
    async with serving(in_turn(chat("Dear \ud83d"))) as (model, _):
        assert (await model.complete(call())).text == "Dear \ufffd"


COUNTED = {"usage": {"prompt_tokens": 7, "completion_tokens": 1}}
LINES = {
    "texts with all kinds of characters": [
        *(chunk(content=it) for it in ("one", '", "', "\\", "\n\t\u2028", "\u00e9\U0001f600", "")),
        *(chunk(content=it) for it in ("another text", "gpt-x-2026", "content", "}", "two")),
    ],
    "texts that stand elsewhere in the line": [
        chunk(content="gpt-x-2026"),
        *({**chunk(content="me too"), "model": it} for it in ("me too", "you too")),
        chunk(content="content"),
    ],
    "more than the text differs": [{**chunk(content="same"), "id": it} for it in "abcdefghijkl"],
    "a text and a refusal": [chunk(content=it, refusal="no") for it in ("one", "two", "three")],
    "usage that another line changes": [
        *[chunk(role="assistant")] * 3,
        {**chunk("stop", content="one"), **COUNTED},
        USAGE,
        {**chunk("stop", content="two"), **COUNTED},
    ],
    "texts of Anthropic": [
        {"type": "message_start", "message": {"model": "claude"}},
        *(
            {"type": "content_block_delta", "delta": {"type": kind, name: it}}
            for it in ("one", "two", "three")
            for kind, name in (("text_delta", "text"), ("thinking_delta", "thinking"))
        ),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
    ],
}


@pytest.mark.parametrize("is_ascii", [True, False])
@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
def test_a_line_says_the_same_whatever_lines_came_before_it(
    lines: list[dict[str, Any]], is_ascii: bool
) -> None:
    open_parts = Anthropic("http://h").parts if "type" in lines[0] else OpenAI("http://h").parts
    reader, parts, held = ResponseInParts(open_parts), open_parts(), 0
    sent_lines = [*lines, *lines, chunk("stop")]
    for line in sent_lines:
        reader.feed(b"data: " + json.dumps(line, ensure_ascii=is_ascii).encode() + b"\n\n")
        held += parts.merge(line)
        assert reader.text() == parts.text()
    assert json.loads(reader.body()) == json.loads(parts.body())
    assert reader.held_bytes == held + 2 * len(sent_lines)  # with their ends


@pytest.mark.parametrize("ending", [b"\n\n", b"\n", b"\r\n\r\n"])
@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
def test_lines_that_come_together_say_the_same_as_one_by_one(
    lines: list[dict[str, Any]], ending: bytes
) -> None:
    open_parts = Anthropic("http://h").parts if "type" in lines[0] else OpenAI("http://h").parts
    parts = open_parts()
    for line in (sent_lines := [*lines * 5, chunk("stop")]):
        parts.merge(line)
    sent = b"".join(b"data: " + json.dumps(it).encode() + ending for it in sent_lines)
    for size in (len(sent), 700, 350):
        reader = ResponseInParts(open_parts)
        for at in range(0, len(sent), size):
            reader.feed(sent[at : at + size])
        assert json.loads(reader.body()) == json.loads(parts.body())


def test_a_text_that_is_written_otherwise_than_the_same_one_beside_it_is_read() -> None:
    reader = ResponseInParts(OpenAI("http://h").parts)
    for name in (b"a", b"b", b"c"):
        head, tail = b'data: {"model":"' + name, b'","choices":[{"delta":{"content":"\\u0061"}}]}\n'
        reader.feed(head + tail)
    assert reader.text() == "aaa"


def test_a_line_that_is_no_json_is_none_even_among_others_of_its_form() -> None:
    reader = ResponseInParts(OpenAI("http://h").parts)
    line = b"data: " + json.dumps(chunk(content="SAID")).encode() + b"\n\n"
    for said in (b"one", b"two", b"three"):
        reader.feed(line.replace(b"SAID", said))
    assert reader.text() == "onetwothree"
    with pytest.raises(UnusableResponse):
        reader.feed(line.replace(b"SAID", b'fo"ur'))
    reader.feed(line)
    with pytest.raises(UnusableResponse):
        reader.feed(b"".join(line.replace(b"SAID", it) for it in (b"a", b"c\\", b',"d')))


def test_a_text_under_way_can_be_sent_at_any_time() -> None:
    reader, seen = ResponseInParts(OpenAI("http://127.0.0.1").parts), []
    for it in HALVES[0]:
        reader.feed(b"data: " + json.dumps(it).encode() + b"\n\n")
        seen.append(reader.text())
    assert seen[:2] == HALVES[2]


async def test_a_reply_whose_connection_is_lost_after_it_is_read() -> None:
    lost = replace(sent([*WORDS, USAGE], done=b""), is_cut=True, pieces=())
    async with serving(in_turn(lost)) as (model, server):
        answer = await model.complete(long_call())
        assert server.counts.calls == 1
    assert (answer.text, answer.usage.input_tokens) == (TEXT, 7)


WHOLE = replace(chat(TEXT), chunk_bytes=64 * 1024)
"""It is not streamed, though a stream was asked for."""

FAULTY = {
    "cut off without an end": (sent(WORDS[:-1], done=b""), "ended before the reply did"),
    "the connection is lost": (
        replace(sent(WORDS[:-1], done=b""), is_cut=True, pieces=()),
        "reset the connection",
    ),
    "an error in the stream": (
        sent([*WORDS[:2], {"error": {"message": "CUDA", "code": 500}}]),
        "failed while it answered: CUDA",
    ),
    "an error that is a text": (sent([{"error": "overloaded"}]), "overloaded"),
    "an error of the older llama.cpp": (
        events(b'error: {"code":500,"message":"slot"}\n\n'),
        "slot",
    ),
    "nothing at all": (events(b": hello\n\n"), "ended before the reply did"),
}


@pytest.mark.parametrize(("reply", "detail"), FAULTY.values(), ids=FAULTY.keys())
async def test_a_stream_that_fails_in_the_middle_is_a_failed_try(
    reply: ModelServerReply, detail: str
) -> None:
    follower = Follower()
    async with serving(in_turn(reply, sent([*WORDS, USAGE]))) as (model, _):
        with pytest.raises(NotServed, match=detail) as caught:
            await model.complete(long_call(follower=follower))
        assert (await model.complete(long_call(follower=follower))).text == TEXT
    assert caught.value.usage.cost_usd is None
    assert len(follower.tries) == 2
    assert follower.tries[-1]() == TEXT


@pytest.mark.parametrize(
    ("reply", "has_begun", "written"),
    [
        (sent(WORDS[:-1], done=b""), True, tokens_in(TEXT)),
        (replace(chat(TEXT), body=b'{"choices": [', is_cut=True), True, 0),
        (sent([{"error": {"message": "CUDA", "code": 500}}]), False, 0),
        (
            sent([*WORDS[:2], {"error": {"message": "full", "code": 503}}]),
            True,
            tokens_in(TEXT[:6]),
        ),
        (events(b"data: {half\n\n"), False, 0),
        (replace(chat(TEXT), body=b'{"choices": ['), True, 0),
        (replace(WHOLE, headers=(("Content-Encoding", "gzip"),)), True, 0),
        (replace(WHOLE, body=chat(TEXT * REPLY_BYTES).body), True, 0),
        (chat(TEXT, choices=[]), True, 0),
        (RESET, False, 0),
        (NOT_JSON, False, 0),
    ],
    ids=[
        *("a stream", "a whole reply", "an error", "an error after a text", "no event"),
        *("half a reply", "not compressed", "too long", "another form", "no reply", "a page"),
    ],
)
async def test_a_reply_that_breaks_off_or_is_none_is_counted_as_far_as_it_came(
    reply: ModelServerReply, has_begun: bool, written: int
) -> None:
    async with serving(in_turn(reply)) as (model, _):
        with pytest.raises(NotServed) as caught:
            await model.complete(long_call(follower=Follower()))
    usage = caught.value.usage
    assert (usage.calls, usage.output_tokens, usage.cost_usd) == (1, written, None)
    assert (usage.input_tokens > 0) is has_begun


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (sent([{"error": {"message": "no", "type": "invalid_request_error"}}]), ModelRefused),
        (events(b"data: {half\n\n", DONE), Unreadable),
        (events(b"data: [1]\ndata: 2]\n\n", b"data: [\n\n", DONE), Unreadable),
    ],
)
async def test_a_stream_that_cannot_work_is_not_asked_for_again(
    reply: ModelServerReply, kind: type[ModelError]
) -> None:
    async with serving(in_turn(reply)) as (model, server):
        with pytest.raises(kind):
            await model.complete(long_call(tries=2))
        assert server.counts.calls == 1


@pytest.mark.parametrize(
    ("said", "left_out"),
    [
        ("Unrecognized request argument supplied: stream_options", ["stream_options"]),
        ("Your organization must be verified to stream this model.", ["stream"]),
    ],
)
async def test_a_server_that_rejects_streaming_is_remembered(
    said: str, left_out: list[str]
) -> None:
    behaviour = RecordingBehaviour(in_turn(refusal(400, said), chat(TEXT)))
    async with serving(behaviour) as (model, _):
        await model.complete(long_call())
        await model.complete(long_call())
    bodies = [it.json for it in behaviour.asked]
    assert [[name for name in left_out if name in body] for body in bodies] == [left_out, [], []]


BROKEN = [events(b"data: {half\n\n", DONE), sent(WORDS[:-1], done=b"")]


@pytest.mark.parametrize("asked", [call(follower=Follower()), long_call()], ids=["watched", "long"])
@pytest.mark.parametrize("broken", BROKEN, ids=["unreadable", "cut off"])
async def test_a_call_whose_streams_are_broken_is_answered_whole(
    broken: ModelServerReply, asked: ModelCall
) -> None:
    behaviour = RecordingBehaviour(lambda said: broken if said.json.get("stream") else chat(TEXT))
    async with serving(behaviour) as (model, _):
        for tries in range(2):
            with pytest.raises(NotServed):
                await model.complete(replace(asked, tries=tries))
        answer = await model.complete(replace(asked, tries=2))
    assert answer.text == TEXT
    assert ["stream" in it.json for it in behaviour.asked] == [True, True, False]


async def test_a_stream_that_breaks_off_now_and_then_is_asked_for_again() -> None:
    good = sent([*WORDS, USAGE])
    behaviour = RecordingBehaviour(in_turn(BROKEN[1], good, BROKEN[1], good))
    async with serving(behaviour) as (model, _):
        for _ in range(2):
            with pytest.raises(NotServed):
                await model.complete(call(follower=Follower()))
            await model.complete(call(follower=Follower()))
    assert all("stream" in it.json for it in behaviour.asked)


async def test_an_error_about_an_upstream_server_is_not_about_streaming() -> None:
    async with serving(in_turn(refusal(400, "upstream said: bad model"))) as (model, server):
        with pytest.raises(ModelRefused):
            await model.complete(long_call())
        assert server.counts.calls == 1


async def test_a_long_stream_may_take_longer_than_a_call_that_comes_whole() -> None:
    skip = skipping_clock()
    slow = replace(sent([*WORDS, USAGE]), every_s=RETRY_POLICY.total_s / 3)
    async with serving(in_turn(slow)) as (model, server):
        calling = asyncio.create_task(model.complete(long_call()))
        await until(lambda: server.counts.in_flight == 1)
        while not calling.done():
            skip(slow.every_s)
            await turns()
        assert calling.result().text == TEXT


async def test_a_stream_that_falls_silent_is_given_up() -> None:
    silent = replace(sent([*WORDS, USAGE]), every_s=30.0)
    retry_policy = replace(RETRY_POLICY, total_s=0.5)
    async with serving(in_turn(silent), retry_policy=retry_policy) as (model, _):
        with pytest.raises(NotServed, match="did not respond before the timeout"):
            await model.complete(long_call())


async def test_a_model_whose_whole_reply_took_too_long_is_streamed_from_then_on() -> None:
    skip = skipping_clock()
    late = replace(chat(TEXT), delay_s=2 * RETRY_POLICY.total_s)
    behaviour = RecordingBehaviour(in_turn(late, sent([*WORDS, USAGE])))
    async with serving(behaviour) as (model, server):
        calling = asyncio.create_task(model.complete(call()))
        await until(lambda: server.counts.in_flight == 1)
        skip(RETRY_POLICY.total_s)
        with pytest.raises(NotServed):
            await calling
        assert (await model.complete(call())).text == TEXT
    assert ["stream" in it.json for it in behaviour.asked] == [False, True]


@pytest.mark.parametrize(
    "reply",
    [
        sent(chunk(content="x" * 1_000) for _ in range(1 + REPLY_BYTES // 1_000)),
        events(b"data: " + b"x" * (REPLY_BYTES + 1)),
        events(b"data: {\n", *([b"data: 1\n"] * (REPLY_BYTES // 2))),
        replace(chat("x" * REPLY_BYTES), chunk_bytes=64 * 1024),
    ],
    ids=["text", "one line", "one event", "whole"],
)
async def test_a_stream_keeps_the_limit_on_bytes(reply: ModelServerReply) -> None:
    async with serving(in_turn(reply)) as (model, _):
        with pytest.raises(Unreadable, match=f"more than {REPLY_BYTES} bytes"):
            await model.complete(long_call(tries=2))


async def test_a_text_of_many_small_chunks_counts_as_the_text_alone() -> None:
    many = sent([*(chunk(content="word ") for _ in range(10_000)), STOP])
    assert len(many.body) > 4 * REPLY_BYTES
    async with serving(in_turn(many)) as (model, _):
        assert (await model.complete(long_call())).text == "word " * 10_000


ANTHROPIC = [
    {"type": "message_start", "message": {"model": "c-1", "usage": {"input_tokens": 7}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "Hm."},
    },
    {"type": "ping"},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": TEXT}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 3},
    },
    {"type": "message_stop"},
]


async def test_a_message_of_anthropic_is_streamed() -> None:
    behaviour = RecordingBehaviour(in_turn(sent(ANTHROPIC, b"event: x\ndata: ", done=b"")))
    async with serving(behaviour, speaking=Anthropic) as (model, _):
        answer = await model.complete(long_call())
    assert behaviour.asked[0].json["stream"] is True
    assert "stream_options" not in behaviour.asked[0].json
    assert (answer.text, answer.model) == (TEXT, "local:c-1")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 3)


def test_the_end_of_a_message_of_anthropic_is_that_of_the_stream() -> None:
    message = b"".join(sent(ANTHROPIC, done=b"").pieces)
    for size in (len(message) + 100, 1):
        reader = ResponseInParts(Anthropic("http://h").parts)
        for at in range(0, 2 * len(message), size):
            assert reader.is_done is (at > len(message) - 2)  # before the second end of its line
            reader.feed((message * 2)[at : at + size])
        assert (reader.is_done, reader.text()) == (True, TEXT)


@pytest.mark.parametrize(
    ("error", "kind"),
    [("overloaded_error", NotServed), ("invalid_request_error", ModelRefused)],
)
async def test_an_error_in_a_stream_of_anthropic_has_the_meaning_of_its_type(
    error: str, kind: type[Exception]
) -> None:
    ended = [*ANTHROPIC[:6], {"type": "error", "error": {"type": error, "message": "Busy"}}]
    async with serving(in_turn(sent(ended, done=b"")), speaking=Anthropic) as (model, _):
        with pytest.raises(kind, match="failed while it answered: Busy"):
            await model.complete(long_call())
