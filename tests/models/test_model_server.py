"""The model server that benchmarks and end-to-end tests count on."""

import json
import subprocess
import sys
from typing import Any
from urllib.request import Request, urlopen

import pytest
from aiohttp import ClientError, ClientSession

from app.contract.drafts import draft_of
from benchmarks.model_replies import draft, improving
from benchmarks.model_server import RateLimit, ScriptedModelServer
from benchmarks.rate_limits import KINDS, FixedWindow, Kind, RefillingBucket, SlidingWindow
from tests.models.calls import TASK, call, serving
from tests.processes import killed_at_the_end
from workers.engine.judging import critique_reader
from workers.engine.prompts import Judge, Revise
from workers.engine.replies.likeness import likeness
from workers.engine.replies.reader import ReplyReader


async def test_a_refinement_takes_a_draft_four_critiques_and_three_revisions() -> None:
    scores: list[float] = []
    async with serving(improving) as (model, server):
        text = draft_of((await model.complete(call())).text)
        while True:
            verdict = await model.complete(call(Judge(TASK, text)))
            read = critique_reader(TASK.criteria, text)
            critique = read(ReplyReader(verdict.text, Judge(TASK, text)))
            scores.append(critique.scores[0].score or 0.0)
            if scores[-1] >= 0.85:
                break
            revise = Revise(TASK, text, ("quality: too long",), critique, ())
            text = draft_of((await model.complete(call(revise))).text)
        assert server.counts.calls == 8
    assert scores == [0.4, 0.6, 0.8, 0.95]
    assert text == draft(4)


def test_no_two_drafts_in_a_row_are_alike() -> None:
    assert all(likeness(draft(n), draft(n + 1)) < 0.5 for n in range(1, 5))


async def test_every_criterion_of_the_request_is_scored() -> None:
    async with serving(improving) as (model, _):
        asked = call(Judge(TASK, draft(2)))
        schema = json.loads(json.dumps(asked.prompt.schema).replace("c1", "c7"))
        reply = await model.complete(
            call(prompt=asked.prompt.__class__("c", 1, "", draft(2), schema))
        )
    assert list(json.loads(reply.text)["scores"]) == ["c7"]


async def test_calls_are_counted_by_their_key() -> None:
    async with serving(improving) as (model, server):
        for key in ("a", "b", "a"):
            await model.complete(call(key=key))
        assert server.counts.keys == {"a": 2, "b": 1}
        assert server.counts.summary()["repeated"] == 1


async def test_a_reset_counts_from_zero_and_keeps_the_connections() -> None:
    async with serving(improving) as (model, server):
        await model.complete(call())
        server.reset()
        assert server.counts.calls == 0
        await model.complete(call())
        assert (server.counts.calls, server.counts.connections) == (1, 1)


def test_it_is_started_as_a_process_and_asked_for_its_counters() -> None:
    command = [sys.executable, "-m", "benchmarks.model_server", "--latency-ms", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with killed_at_the_end(process):
        assert process.stdout
        origin = f"http://127.0.0.1:{int(process.stdout.readline())}"
        body = json.dumps({"messages": [{"role": "user", "content": "Write."}]}).encode()
        asked = Request(f"{origin}/v1/chat/completions", body, {"Idempotency-Key": "ref_1"})
        answer, _ = fetched(asked), fetched(asked)
        stats, keys = fetched(f"{origin}/stats"), fetched(f"{origin}/keys")
        again = fetched(Request(f"{origin}/reset", b""))
    assert answer["choices"][0]["message"]["content"] == draft(1)
    assert (stats["calls"], stats["answered"], stats["repeated"]) == (2, 2, 1)
    assert keys == {"ref_1": 2}
    assert again["calls"] == 0


def fetched(asked: Request | str) -> Any:
    with urlopen(asked) as answer:
        return json.load(answer)


async def test_two_servers_do_not_share_their_counters() -> None:
    async with ScriptedModelServer() as one, ScriptedModelServer() as other:
        assert one.port != other.port
        assert one.counts is not other.counts


@pytest.mark.parametrize("kind", KINDS)
async def test_calls_above_the_limit_are_refused_and_counted(kind: Kind) -> None:
    limit = RateLimit(KINDS[kind](2, 3600.0), "openai", has_retry_after=True)
    async with ScriptedModelServer(limit=limit) as server, ClientSession() as client:
        replies = [await client.post(server.url, data=b"{}") for _ in range(3)]
        assert [reply.status for reply in replies] == [200, 200, 429]
        remaining = [reply.headers["x-ratelimit-remaining-requests"] for reply in replies]
        assert remaining == ["1", "0", "0"]
        assert int(replies[2].headers["Retry-After"]) > 0
        assert (server.counts.calls, server.counts.refused) == (3, 1)


async def test_an_outage_fails_every_call_until_it_is_ended() -> None:
    async with ScriptedModelServer() as server, ClientSession() as client:
        origin = server.url.removesuffix("/v1")
        await client.post(f"{origin}/outage?s=3600&as=529")
        statuses = [(await client.post(server.url, data=b"{}")).status for _ in range(2)]
        await client.post(f"{origin}/outage?s=0")
        statuses.append((await client.post(server.url, data=b"{}")).status)
        assert statuses == [529, 529, 200]
        assert server.counts.during_outage == 2
        server.fail(3600, "reset")
        with pytest.raises(ClientError):
            await client.post(server.url, data=b"{}")


def test_what_a_window_allows() -> None:
    sliding, bucket, fixed = SlidingWindow(2, 1.0), RefillingBucket(2, 1.0), FixedWindow(2, 1.0)
    times = (0.0, 0.4, 0.9, 1.1, 1.2, 1.5)
    allowed = {
        type(it).__name__: [it.admit(at).is_allowed for at in times]
        for it in (sliding, bucket, fixed)
    }
    assert allowed == {
        "SlidingWindow": [True, True, False, True, False, True],
        "RefillingBucket": [True, True, True, True, False, True],
        "FixedWindow": [True, True, False, True, True, False],
    }
