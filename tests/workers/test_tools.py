"""A tool is called as it says, and whatever goes wrong is a result."""

import asyncio
import gzip
import json
import re
import zlib
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from app.contract.endpoints import Endpoint
from app.contract.events import StepCompleted, ToolReply
from app.contract.tools import MAX_RESULT, Tool
from tests.local_endpoint import (
    SECRET,
    THIS_MACHINE,
    EndpointAnswer,
    FixedResolver,
    answering_with,
    endpoint,
    signing_of,
)
from tests.outbound.raw_server import RawAnswer, raw_server
from tests.ports import reserved_port
from workers.engine.moves import Call, Check, ToolResult
from workers.model_registry import ModelRegistry
from workers.outbound.guarded_client import EndpointClient, EndpointUnavailable, open_endpoints
from workers.play.executor import MOST_FLAWS, StepExecutor, Tools
from workers.play.journal import UNKNOWN
from workers.validators.running import compile_validators

STEP = "ref_1/steps/1/call"
SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
ENDLESS = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 2}}}
DOUBLING = {
    "$ref": "#/$defs/0",
    "$defs": {
        "40": {"type": "object"},
        **{str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(40)},
    },
}
"""Takes 2 to the 40th checks."""


def tool(url: str = "https://example.com", **fields: Any) -> Tool:
    given = {"name": "look_up", "description": "Finds.", "url": url, "parameters": SCHEMA}
    return Tool.model_validate({**given, **fields})


async def called(answer: EndpointAnswer, **fields: Any) -> ToolResult:
    async with endpoint(answer) as (url, _, endpoints):
        return await Tools([tool(url, **fields)], endpoints).call("look_up", {"id": 7}, STEP)


async def test_the_answer_of_a_tool_is_its_text() -> None:
    assert await called(answering_with({"found": "14 days"})) == ToolResult(
        True, '{"found": "14 days"}'
    )
    assert await called(answering_with("zwei Wochen, höchstens", 201)) == ToolResult(
        True, "zwei Wochen, höchstens"
    )


async def test_the_call_is_signed_and_names_its_step() -> None:
    async with endpoint(answering_with("yes")) as (url, asked, endpoints):
        assert (await Tools([tool(url)], endpoints).call("look_up", {"id": 7}, STEP)).ok
        (request,) = asked
        body = await request.text()
    assert json.loads(body) == {"tool": "look_up", "arguments": {"id": 7}}
    assert Webhook(SECRET).verify(body, dict(request.headers)) == json.loads(body)
    assert request.headers["Idempotency-Key"] == STEP
    assert (request.method, request.content_type) == ("POST", "application/json")


async def test_a_long_answer_is_cut_with_a_note() -> None:
    assert len((await called(answering_with("x" * MAX_RESULT))).text) == MAX_RESULT
    cut = await called(answering_with("x" * (MAX_RESULT + 1)))
    assert cut.ok
    assert len(cut.text) == MAX_RESULT
    assert cut.text.endswith("xx\n[cut off here: the whole answer has 20001 characters]")


@pytest.mark.parametrize("letter", ["x", "ö"])
async def test_an_answer_that_is_too_long_to_be_read_whole_is_cut_and_not_a_failure(
    letter: str,
) -> None:
    cut = await called(answering_with(letter * 400_000))
    assert cut.ok
    assert cut.text.startswith(letter * 19_000)
    assert cut.text.endswith("\n[cut off here: the whole answer has more than 262144 bytes]")


LONG = "€".encode() * 400_000
"""More than is read, and the last byte that is read is the first of a character."""
CHUNKED = b"".join(b"%x\r\n%b\r\n" % (len(it), it) for it in (LONG[:99_999], LONG[99_999:]))


@pytest.mark.parametrize("piece", [10_000, 2_000_000])
@pytest.mark.parametrize(
    ("field", "body"),
    [
        (b"Content-Length: %d" % len(LONG), LONG),
        (b"Connection: close", LONG),
        (b"Transfer-Encoding: chunked", CHUNKED + b"0\r\n\r\n"),
        (b"Content-Length: 90000000", LONG),
        (b"Content-Encoding: gzip", gzip.compress(LONG)),
        (b"Content-Encoding: gzip", gzip.compress(LONG, 0)),
        (b"Content-Encoding: deflate", zlib.compress(LONG)),
    ],
    ids=[
        "with length",
        "until the end",
        "chunked",
        "unfinished",
        "gzip",
        "gzip, stored",
        "deflate",
    ],
)
async def test_a_call_with_effects_does_not_fail_because_its_answer_is_long(
    field: bytes, body: bytes, piece: int
) -> None:
    answer = RawAnswer(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (field, body), "close", piece)
    if b"90000000" in field:
        answer = replace(answer, then="hang")
    booking = {"effects": True, "timeout_s": 30}
    async with raw_server(answer) as server, open_endpoints(signing_of, allowed=THIS_MACHINE) as it:
        cut = await Tools([tool(server.url, **booking)], it).call("look_up", {"id": 7}, STEP)
    assert cut.ok, cut.text
    assert cut.text.startswith("€" * 19_900)
    assert cut.text.endswith("€\n[cut off here: the whole answer has more than 262144 bytes]")
    assert len(server.requests) == 1


async def test_no_more_of_a_long_answer_is_read_than_its_beginning() -> None:
    length = 100_000_000
    body = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + b" " * length
    answer = RawAnswer(body, "close", 100_000)
    async with raw_server(answer) as server, open_endpoints(signing_of, allowed=THIS_MACHINE) as it:
        assert (await Tools([tool(server.url)], it).call("look_up", {"id": 7}, STEP)).ok
    assert server.bytes_sent < length / 5


async def latin1(_request: web.Request) -> web.StreamResponse:
    return web.Response(body="Köln".encode("latin-1"))


async def silent(request: web.Request) -> web.StreamResponse:
    reply = web.StreamResponse()
    await reply.prepare(request)
    while True:
        await reply.write(b" ")
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answering_with({"message": "no such policy"}, 404), "answered 404: no such policy"),
        (answering_with("", 302), "redirects are not followed"),
        (answering_with("boom", 500), "answered 500: boom"),
        (latin1, "not valid UTF-8"),
    ],
)
async def test_whatever_goes_wrong_is_a_result(answer: EndpointAnswer, said: str) -> None:
    result = await called(answer)
    assert not result.ok
    assert re.search(said, result.text), result.text


EFFECTS = {"effects": True}


@pytest.mark.parametrize(
    ("answer", "fields", "is_unknown"),
    [
        (answering_with("boom", 500), EFFECTS, True),
        (answering_with("boom", 500), EFFECTS | {"idempotent": True}, True),
        (answering_with("boom", 500), {}, False),
        (answering_with("no", 400), EFFECTS, False),
        (latin1, EFFECTS, False),
    ],
)
async def test_the_outcome_is_unknown_only_of_a_change_that_was_sent_and_not_refused(
    answer: EndpointAnswer, fields: dict[str, Any], is_unknown: bool
) -> None:
    result = await called(answer, **fields)
    assert not result.ok
    assert (UNKNOWN in result.text) is is_unknown


async def test_a_call_without_a_connection_is_not_said_to_have_an_unknown_outcome() -> None:
    async with open_endpoints(signing_of, allowed=THIS_MACHINE) as endpoints:
        with reserved_port(THIS_MACHINE) as closed:
            tools = Tools([tool(f"http://{THIS_MACHINE}:{closed}", **EFFECTS)], endpoints)
            result = await tools.call("look_up", {"id": 7}, STEP)
    assert result.text.endswith("is unreachable: no connection")


async def test_a_broken_answer_leaves_the_outcome_unknown() -> None:
    answer = RawAnswer(b"HTTP/9 what\r\n\r\n", "close")
    async with raw_server(answer) as server, open_endpoints(signing_of, allowed=THIS_MACHINE) as it:
        result = await Tools([tool(server.url, **EFFECTS)], it).call("look_up", {"id": 7}, STEP)
    assert result.text.endswith(UNKNOWN)


class RecordingEndpoint(EndpointClient):
    """Takes down how long a tool may take, and whose it is."""

    def __init__(self) -> None:
        self.timeouts: list[float] = []
        self.tenants: set[str] = set()

    async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
        """Answer at once."""
        self.timeouts.append(endpoint.timeout_s)
        self.tenants.add(tenant)
        return b"yes"


async def test_a_tool_has_its_own_time() -> None:
    recording = RecordingEndpoint()
    await Tools([tool(timeout_s=7)], recording).call("look_up", {"id": 7}, STEP)
    await Tools([tool()], recording).call("look_up", {"id": 7}, STEP)
    assert recording.timeouts == [7, 10]


async def test_only_the_first_flaws_of_a_plan_are_told() -> None:
    planned = [{"tool": "look_up", "arguments": {"id": str(n)}} for n in range(MOST_FLAWS + 2)]
    found = await Tools([tool()]).check(json.dumps(planned))
    assert len(found) == MOST_FLAWS


async def test_a_tool_that_does_not_answer_is_given_up() -> None:
    result = await called(silent, timeout_s=0.3)
    assert not result.ok
    assert "no time is left" in result.text


async def test_a_tool_that_is_down_for_a_moment_is_asked_again_with_the_same_key() -> None:
    statuses = iter([503, 200])

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="yes", status=next(statuses))

    async with endpoint(answer) as (url, asked, endpoints):
        assert (await Tools([tool(url)], endpoints).call("look_up", {"id": 7}, STEP)).ok
    assert [it.headers["Idempotency-Key"] for it in asked] == [STEP, STEP]


@pytest.mark.parametrize(
    ("arguments", "parameters", "said"),
    [
        ({"id": "7"}, SCHEMA, "at /id: .7. is not of type"),
        ({}, SCHEMA, ".id. is a required property"),
        ({"id": 7}, {"$ref": "#"}, "the schema cannot be applied"),
        ({"id": 7}, ENDLESS, "could not be checked|cannot be applied"),
        ({"id": 7}, DOUBLING, "could not be checked: .* needs more than 0.5 s"),
    ],
)
async def test_arguments_that_do_not_fit_are_not_sent(
    arguments: dict[str, Any], parameters: dict[str, Any], said: str
) -> None:
    async with endpoint(answering_with("yes")) as (url, asked, endpoints):
        tools = Tools([tool(url, parameters=parameters)], endpoints)
        result = await tools.call("look_up", arguments, STEP)
    assert asked == []
    assert not result.ok
    assert re.search(said, result.text), result.text


async def test_without_a_secret_nothing_is_called() -> None:
    result = await Tools([tool()]).call("look_up", {"id": 7}, STEP)
    assert not result.ok
    assert "HONE_SECRET_KEY" in result.text


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "[::1]", "0.0.0.0", "rebound.example"]
)
async def test_a_guarded_call_never_reaches_this_machine(host: str) -> None:
    async with endpoint(answering_with("yes")) as (url, asked, _):
        there = f"http://{host}:{url.rpartition(':')[2]}"
        resolver = FixedResolver("127.0.0.1") if host == "rebound.example" else None
        async with open_endpoints(signing_of, resolver=resolver) as endpoints:
            tools = Tools([tool(there, timeout_s=60)], endpoints)
            result = await tools.call("look_up", {"id": 7}, STEP)
        assert asked == []
    assert not result.ok
    assert "no public address" in result.text or "is not a valid server address" in result.text


@pytest.mark.parametrize("host", ["e..com", ".", "a" * 64, "[::1"])
async def test_an_address_that_no_resolver_can_read_is_a_failed_call(host: str) -> None:
    there = Endpoint.model_construct(url=f"http://{host}/", headers={}, secret=None, timeout_s=60)
    async with open_endpoints(signing_of) as endpoints:
        with pytest.raises(EndpointUnavailable, match="is not a valid server address"):
            await endpoints.post(there, b"{}", STEP)


def executor(tools: Tools) -> StepExecutor:
    return StepExecutor("ref_1", ModelRegistry({}), {}, compile_validators([]), tools)


async def test_a_failed_call_is_a_completed_step() -> None:
    entry = await executor(Tools([tool()])).perform(Call("steps/1/call", "look_up", {"id": 7}))
    assert isinstance(entry, StepCompleted)
    assert (entry.kind, entry.key, entry.usage.calls) == ("call", "steps/1/call", 0)
    assert isinstance(entry.reply, ToolReply)
    assert not entry.reply.ok


async def test_planned_calls_are_checked_and_nothing_is_sent() -> None:
    planned = [{"tool": "look_up", "arguments": {"id": it}} for it in (7, "eight", 9)]
    async with endpoint(answering_with("yes")) as (url, asked, endpoints):
        tools = Tools([tool(url)], endpoints)
        entry = await executor(tools).perform(Check("plan/check", json.dumps(planned), "calls"))
    assert asked == []
    assert isinstance(entry, StepCompleted)
    assert entry.reply.kind == "findings"
    (finding,) = entry.reply.findings
    assert finding.source == "tools/look_up"
    assert re.search("eight.* for look_up: at /id: .eight. is not of type", finding.message)
