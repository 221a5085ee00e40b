"""`hone mcp`, used by the official SDK's own client, over stdio and HTTP."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from subprocess import PIPE, Popen, run
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from app.cli.processes import url_of
from app.contract.reviews import ReviewDecision
from benchmarks.model_replies import draft
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import hanging_at
from tests.ports import reserved_port
from tests.waiting import TIMEOUT_S

NULLS = {"draft": None, "criteria": [{"name": "clarity", "description": None, "floor": None}]}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
TASK = {"task": "Explain refunds.", "max_iterations": 9}
CALLS_BEFORE = 2  # iteration 1: a draft and its critique


@asynccontextmanager
async def over_stdio(service: RunningService) -> AsyncIterator[Client]:
    arguments = ["-m", "app.cli", "mcp", "--server", url_of(service.settings)]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    async with Client(stdio_client(server), read_timeout_seconds=TIMEOUT_S) as client:
        yield client


async def test_an_assistant_refines_and_sees_progress(service: RunningService) -> None:
    seen: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        seen.append((progress, message))

    async with over_stdio(service) as client:
        tools = {it.name for it in (await client.list_tools()).tools}
        assert tools == {"refine", "get_refinement", "review"}
        done = await client.call_tool("refine", TASK, progress_callback=note)
        refined = content(done)
        assert (refined["status"], refined["draft"]) == ("succeeded", draft(4))
        assert [number for number, _ in seen] == [0, 1, 2, 3, 4]
        assert refined["id"] in str(seen[0][1])
        assert seen[1][1] == "iterations/1: score 0.4, not passed yet"
        same = await client.call_tool("get_refinement", {"refinement_id": refined["id"]})
        assert content(same) == refined


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("refine", {"task": "T", "options": {"treshold": 1}}, "/treshold"),
    ("refine", {"task": "T", "treshold": 0.9}, "/treshold"),
    ("refine", {"task": "T", "threshold": 7}, "/threshold"),
    ("refine", {"task": "T", "options": {"threshold": None}}, "/threshold"),
    ("refine", {"task": 5}, "/task"),
    ("refine", {"task": "T", "criteria": [{"weight": 1}]}, "/criteria/0/name"),
    ("refine", {}, "a task or a draft is required"),
    ("refine", {"draft": "a", "options": {"draft": "b"}}, "draft: given both"),
    ("refine", {"draft": "a", "options": "concise"}, "`options` must be an object"),
    ("get_refinement", {}, "`refinement_id` is required"),
    ("get_refinement", {"refinement_id": "ref_1", "iteration": 2}, "iteration: only"),
    ("get_refinement", {"refinement_id": "ref_1"}, "ref_1"),
    ("get_refinement", {"refinement_id": "../keys"}, "`refinement_id` is required"),
    ("review", {"refinement_id": 1, "action": "approve"}, "`refinement_id` is required"),
    ("review", {"refinement_id": "ref_1", "action": "accept"}, "/action"),
]


async def test_its_tools_say_what_they_take_and_refuse_the_rest_in_the_words_of_the_api(
    service: RunningService,
) -> None:
    async with over_stdio(service) as client:
        schemas = {it.name: it.input_schema for it in (await client.list_tools()).tools}
        for tool, arguments, said in REFUSED:
            refused = await client.call_tool(tool, arguments)
            assert refused.is_error, arguments
            assert said in (words := str(refused.content))
            assert "pydantic" not in words
    assert schemas["review"]["properties"].keys() == {*ReviewDecision.model_fields, "refinement_id"}
    assert schemas["review"]["required"] == ["action", "refinement_id"]
    assert all(it["additionalProperties"] is False for it in schemas.values())


async def test_a_person_decides_through_an_assistant(service: RunningService) -> None:
    async with over_stdio(service) as client:
        asking = TASK | {"options": {"review": {"when": "before_completion"}}}
        paused = content(await client.call_tool("refine", asking))
        assert (paused["status"], paused["draft"]) == ("paused", draft(4))
        assert paused["notes"]
        decision = {"refinement_id": paused["id"], "action": "approve"}
        await client.call_tool("review", decision)
        ended = await service.ended(paused["id"])
        assert (ended["stop_reason"], ended["result"]["draft"]) == ("approved", draft(4))
        other = content(await client.call_tool("refine", asking | NULLS))
        rating = {"refinement_id": other["id"], "action": "rate", "score": 1, "feedback": None}
        content(await client.call_tool("review", rating))
        assert (await service.ended(other["id"]))["result"]["score"] == 1


@pytest.mark.long
async def test_a_call_that_is_cancelled_cancels_the_refinement(service: RunningService) -> None:
    service.models.behaviour = hanging_at("iterations/2/revise")
    judged = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        del total, message
        if progress:
            judged.set()

    async with over_stdio(service) as client:
        call = asyncio.create_task(client.call_tool("refine", TASK, progress_callback=note))
        await judged.wait()
        await service.until(lambda: service.models.counts.calls == CALLS_BEFORE + 1)
        call.cancel()
        await service.until(lambda: service.models.counts.dropped == 1)
    listed = await service.client.get("/v1/refinements?limit=1")
    assert (await service.ended(listed.json()["data"][0]["id"]))["status"] == "canceled"


@asynccontextmanager
async def over_http(service: RunningService, token: str) -> AsyncIterator[str]:
    with reserved_port() as port:
        where = ("--server", url_of(service.settings), "--http", str(port), "--token", token)
        process = service.start("app.cli", "mcp", *where)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not await answers(port):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.1)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait()
            service.processes.remove(process)


async def test_it_serves_http_to_who_has_the_token_and_to_no_other_page(
    service: RunningService,
) -> None:
    bearer = {"Authorization": "Bearer of-the-test"}
    async with over_http(service, "of-the-test") as url:
        async with (
            httpx2.AsyncClient(headers=bearer, timeout=TIMEOUT_S) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            refined = content(await client.call_tool("refine", TASK))
            assert (refined["status"], refined["outcome"]) == ("succeeded", "passed")
        own = url.removesuffix("/mcp")
        json = {"Accept": "application/json, text/event-stream"}
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Bearer another"}, 401),
            ({**bearer, "Origin": "http://localhost:3000"}, 403),
            ({**bearer, "Origin": f"{own}.example.com"}, 403),
            ({**bearer, "Origin": "null"}, 403),
            ({**bearer, "Host": "localhost:3000"}, 421),
            ({**bearer, "Origin": own}, 200),
        ):
            async with httpx2.AsyncClient(headers=json | headers, timeout=TIMEOUT_S) as http:
                assert (await http.post(url, json=INITIALIZE)).status_code == status, headers


@pytest.mark.long
def test_without_a_token_it_makes_one_and_says_so(service: RunningService) -> None:
    command = (sys.executable, "-m", "app.cli", "mcp", "--server", url_of(service.settings))
    with (
        reserved_port() as port,
        Popen((*command, "--http", str(port)), stderr=PIPE, text=True) as process,
    ):
        assert process.stderr is not None
        said = process.stderr.readline()
        process.terminate()
    assert re.search(r"Authorization: Bearer [\w-]{43}$", said)


@pytest.mark.long
async def test_a_port_that_is_taken_is_an_error_that_says_so(service: RunningService) -> None:
    port = urlsplit(url := url_of(service.settings)).port
    command = (sys.executable, "-m", "app.cli", "mcp", "--server", url, "--http", str(port))
    ended = await asyncio.to_thread(run, command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count(f"port {port}") == 1
    assert "another --http" in ended.stderr


async def answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def content(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found
