"""`hone mcp`, used by the official SDK's own client, over stdio and HTTP."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from app.cli.processes import free_port, url_of
from benchmarks.model_replies import draft
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import hanging_at
from tests.waiting import TIMEOUT_S

TASK = {"task": "Explain refunds.", "max_iterations": 9}


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
        assert [number for number, _ in seen] == [1, 2, 3, 4]
        assert seen[0][1] == "iterations/1: score 0.4, not passed yet"
        same = await client.call_tool("get_refinement", {"refinement_id": refined["id"]})
        assert content(same) == refined
        wrong = await client.call_tool("refine", {"task": "T", "options": {"treshold": 1}})
        assert wrong.is_error
        assert "/treshold" in str(wrong.content)
        twice = await client.call_tool("refine", {"draft": "a", "options": {"draft": "b"}})
        assert "draft: given both" in str(twice.content)


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


async def test_a_call_that_is_cancelled_cancels_the_refinement(service: RunningService) -> None:
    service.models.behaviour = hanging_at("iterations/2/revise")
    judged = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        del progress, total, message
        judged.set()

    async with over_stdio(service) as client:
        call = asyncio.create_task(client.call_tool("refine", TASK, progress_callback=note))
        await judged.wait()
        call.cancel()
        await service.until(lambda: service.models.counts.dropped == 1)
    listed = await service.client.get("/v1/refinements?limit=1")
    assert (await service.ended(listed.json()["data"][0]["id"]))["status"] == "canceled"


async def test_it_serves_http_too(service: RunningService) -> None:
    port = free_port("127.0.0.1")
    arguments = ["app.cli", "mcp", "--server", url_of(service.settings), "--http", str(port)]
    process = service.start(*arguments)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not await answers(port):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            refined = content(await client.call_tool("refine", TASK))
            assert (refined["status"], refined["passed"]) == ("succeeded", True)
    finally:
        process.terminate()
        process.wait()
        service.processes.remove(process)


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
