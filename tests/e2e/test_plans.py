"""A plan over real HTTP, with a tool that fails once, a real worker and a model server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr
from standardwebhooks import Webhook

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import key_of
from tests.engine.engine_driver import verdict
from tests.engine.scripted_replies import plan, revised, step
from tests.local_endpoint import SECRET, THIS_MACHINE, endpoint
from tests.waiting import TIMEOUT_S

SAID = {
    "plan": plan(step("Find the order.", "find_order", order=4712), "Say what it means."),
    "steps/1/replan": revised(step("Find the other one.", "find_order", order=4711)),
    "steps/2/replan": revised(met=True, evidence=((2, "refunded on Monday"),)),
    "iterations/1/draft": "Your refund was sent on Monday.",
    "iterations/1/critique": verdict(0.9),
}


def answer(asked: AskedPrompt) -> ModelServerReply:
    """A model that answers by the step's key."""
    text = SAID.get(key_of(asked))
    assert text is not None, key_of(asked)
    return chat(text)


async def orders(request: web.Request) -> web.StreamResponse:
    """Answer for one order alone, and only to callers that can sign."""
    said = Webhook(SECRET).verify(await request.text(), dict(request.headers))
    if said["arguments"] != {"order": 4711}:
        return web.json_response({"message": "no such order; there is 4711"}, status=404)
    return web.Response(text="4711 was refunded on Monday")


@asynccontextmanager
async def planning_service(path: Path) -> AsyncIterator[RunningService]:
    """A service whose workers may call this machine."""
    key = SecretStr(SECRET)
    async with running_service(
        path, answer, secret_key=key, outbound_allow=THIS_MACHINE
    ) as service:
        yield service


def planned(url: str) -> dict[str, Any]:
    tool = {
        "name": "find_order",
        "description": "Returns one order.",
        "url": url,
        "secret": SECRET,
        "timeout_s": 60,
        "parameters": {"required": ["order"], "properties": {"order": {"type": "integer"}}},
    }
    return {"strategy": {"kind": "plan_execute", "max_steps": 4}, "tools": [tool]}


async def test_a_tool_that_fails_once_changes_the_plan(service: RunningService) -> None:
    service.models.behaviour = answer
    async with endpoint(orders) as (url, asked, _):
        ended = await service.ended(await service.submit(**planned(url)))
        events = await service.events(ended["id"])
    assert (ended["stop_reason"], ended["outcome"]) == ("threshold_met", "passed")
    assert ended["result"]["draft"] == "Your refund was sent on Monday."
    assert ended["usage"]["calls"] == len(SAID)
    steps = {it["data"]["key"]: it["data"] for it in events if it["type"] == "step.completed"}
    first, second = steps["steps/1/call"]["reply"], steps["steps/2/call"]["reply"]
    assert (first["ok"], second["ok"]) == (False, True)
    assert "answered 404: no such order; there is 4711" in first["text"]
    assert json.loads(steps["steps/1/replan"]["reply"]["text"])["goal_met"]["met"] is False
    assert [it.headers["Idempotency-Key"] for it in asked] == [
        f"{ended['id']}/steps/1/call",
        f"{ended['id']}/steps/2/call",
    ]


@pytest.mark.long
async def test_a_call_that_died_with_its_worker_is_made_again_with_the_same_key(
    tmp_path: Path,
) -> None:
    called = asyncio.Event()

    async def once_silent(request: web.Request) -> web.StreamResponse:
        if not called.is_set():
            called.set()
            await asyncio.Event().wait()
        return await orders(request)

    async with endpoint(once_silent) as (url, asked, _), planning_service(tmp_path) as service:
        refinement_id = await service.submit(**planned(url))
        await asyncio.wait_for(called.wait(), TIMEOUT_S)
        service.processes[-1].kill()
        service.worker()
        ended = await service.ended(refinement_id)
    assert ended["result"]["draft"] == "Your refund was sent on Monday."
    assert ended["usage"]["calls"] == len(SAID)
    keys = [it.headers["Idempotency-Key"].removeprefix(refinement_id) for it in asked]
    assert keys == ["/steps/1/call", "/steps/1/call", "/steps/2/call"]
