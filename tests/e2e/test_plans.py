"""A plan over real HTTP, with a tool that fails once, a real worker and a model server."""

import json
from pathlib import Path

from aiohttp import web
from pydantic import SecretStr
from standardwebhooks import Webhook

from benchmarks.model_replies import Asked, Reply, chat
from tests.e2e.models import key_of
from tests.e2e.town import open_town
from tests.engine.player import verdict
from tests.engine.saying import plan, revised, step
from tests.neighbour import SECRET, endpoint

SAID = {
    "plan": plan(step("Find the order.", "find_order", order=4712), "Say what it means."),
    "steps/1/replan": revised(step("Find the other one.", "find_order", order=4711)),
    "steps/2/replan": revised(met=True, evidence=((2, "refunded on Monday"),)),
    "iterations/1/draft": "Your refund was sent on Monday.",
    "iterations/1/critique": verdict(0.9),
}


def answer(asked: Asked) -> Reply:
    """A model that answers by the step's key."""
    text = SAID.get(key_of(asked))
    assert text is not None, key_of(asked)
    return chat(text)


async def orders(request: web.Request) -> web.StreamResponse:
    """Answer for one order alone, and only to who can sign."""
    said = Webhook(SECRET).verify(await request.text(), dict(request.headers))
    if said["arguments"] != {"order": 4711}:
        return web.json_response({"message": "no such order; there is 4711"}, status=404)
    return web.Response(text="4711 was refunded on Monday")


async def test_a_tool_that_fails_once_changes_the_plan(tmp_path: Path) -> None:
    async with (
        endpoint(orders) as (url, asked, _),
        open_town(
            tmp_path, answer, worker_module="tests.e2e.neighbourly", secret_key=SecretStr(SECRET)
        ) as town,
    ):
        tool = {
            "name": "find_order",
            "description": "Returns one order.",
            "url": url,
            "parameters": {"required": ["order"], "properties": {"order": {"type": "integer"}}},
        }
        strategy = {"kind": "plan_execute", "max_steps": 4}
        ended = await town.ended(await town.submit(strategy=strategy, tools=[tool]))
        events = await town.events(ended["id"])
    assert (ended["stop_reason"], ended["passed"]) == ("threshold_met", True)
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
