"""A generator that is drawn: it writes every draft, and the next draw knows how it went."""

import asyncio
from typing import Any

import pytest

from benchmarks.model_replies import AskedPrompt, ModelServerReply, improving
from tests.e2e.running_service import RunningService

pytestmark = pytest.mark.long

CANDIDATES = ["openai:gpt-5-mini", "openai:gpt-6-luna"]
AUTO = {"select": "auto", "candidates": CANDIDATES, "critic": "openai:judge"}


async def counted(service: RunningService, refinement_id: str) -> Any:
    """Return a snapshot once it has ended and its sums were added, a second or two later."""
    ended = await service.ended(refinement_id)
    queued = (await service.events(refinement_id))[0]["data"]
    drawn = {*queued["models"].values()}
    while not drawn & await counted_models(service):  # noqa: ASYNC110 - what another process does
        await asyncio.sleep(0.1)
    return ended


async def counted_models(service: RunningService) -> set[str]:
    response = await service.client.get("/v1/statistics", params={"of": "models"})
    assert response.status_code == 200, response.text
    return {it["model"] for it in response.json()["data"]}


async def test_the_drawn_model_writes_every_draft_and_the_next_draw_knows(
    service: RunningService,
) -> None:
    writers: list[str] = []

    def remembering(asked: AskedPrompt) -> ModelServerReply:
        if b"judge" not in asked.body:
            writers.append(asked.json["model"])
        return improving(asked)

    service.models.behaviour = remembering
    refinement_id = await service.submit(models=AUTO)
    assert (await counted(service, refinement_id))["outcome"] == "passed"
    queued = (await service.events(refinement_id))[0]["data"]
    picked = queued["draw"]["picked"]
    assert [it["ended"] for it in queued["draw"]["candidates"]] == [0, 0]
    assert queued["models"]["generator"] == picked
    assert writers == [picked.removeprefix("openai:")] * 4
    later = (await service.events(await service.submit(models=AUTO)))[0]["data"]["draw"]
    known = {it["model"]: (it["ended"], it["passed"]) for it in later["candidates"]}
    assert known == {model: (1, 1) if model == picked else (0, 0) for model in CANDIDATES}


async def test_a_model_is_drawn_for_each_stage_and_for_the_critic(service: RunningService) -> None:
    models = {
        "select": "gain",
        "candidates": ["openai:unpriced-a", "openai:unpriced-b"],
        "critic_candidates": ["openai:judge-a", "openai:judge-b"],
    }
    stages = [{"name": "outline", "threshold": 0.5}, {"name": "text", "threshold": 0.5}]
    asked: list[str] = []

    def remembering(call: AskedPrompt) -> ModelServerReply:
        asked.append(call.json["model"])
        return improving(call)

    service.models.behaviour = remembering
    strategy = {"kind": "stepwise", "stages": stages}
    refinement_id = await service.submit(strategy=strategy, models=models)
    assert (await counted(service, refinement_id))["status"] == "succeeded"
    first, *events = await service.events(refinement_id)
    queued = first["data"]
    assert set(queued["draws"]) == {"critic", "generator/stages/outline", "generator/stages/text"}
    assert queued["draw"]["candidates"][0]["mean_cost_usd"] is None
    keys = [it["data"]["key"] for it in events if it["type"] == "step.completed"]
    drawn = {
        "draft": [
            queued["models"][f"generator/{'/'.join(it.split('/')[:2])}"]
            for it in keys
            if it.startswith("stages/") and it.endswith(("draft", "revise"))
        ],
        "critique": [queued["models"]["critic"] for it in keys if it.endswith("critique")],
    }
    writers = [f"openai:{it}" for it in asked if "judge" not in it]
    assert writers[: len(drawn["draft"])] == drawn["draft"]
    assert [f"openai:{it}" for it in asked if "judge" in it] == drawn["critique"]
    later = (await service.events(await service.submit(strategy=strategy, models=models)))[0][
        "data"
    ]
    known = {it["model"]: it for it in later["draws"]["generator/stages/text"]["candidates"]}
    picked = known.pop(queued["models"]["generator/stages/text"])
    assert (picked["ended"], picked["mean_gain"] > 0) == (1, True)
    assert [it["ended"] for it in known.values()] == [0]
