"""What becomes of issues from draft to draft, as a client sees it."""

import json
from typing import Any

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import answering

LATE = {"kind": "quality", "message": "Does not state the 30-day limit.", "fix": "State it."}
LATE_AGAIN = {"kind": "quality", "message": "The 30-day limit is not stated.", "fix": None}
COLD = {"kind": "quality", "message": "The tone is cold."}
FOUND: list[list[dict[str, Any]]] = [[LATE, COLD], [LATE_AGAIN], [COLD], [COLD, LATE]]


def critic(key: str, asked: AskedPrompt) -> ModelServerReply | None:
    """Find those issues in draft 1, 2, 3 and 4, each a little better than the one before."""
    if not key.endswith("/critique"):
        return None
    number = int(key.split("/")[1])
    score = {"criterion": "quality", "reason": "so", "score": 0.3 + 0.1 * number}
    return chat(json.dumps({"scores": [score], "findings": FOUND[number - 1]}))


async def test_every_iteration_says_what_is_new_carried_resolved_and_back(
    service: RunningService,
) -> None:
    service.models.behaviour = answering(critic)
    refinement_id = await service.submit(max_iterations=4)
    await service.ended(refinement_id)
    judged = (await service.get(refinement_id, "/iterations"))["data"]
    assert [{it["message"]: it["state"] for it in one["issues"]} for one in judged] == [
        {LATE["message"]: "new", COLD["message"]: "new"},
        {LATE_AGAIN["message"]: "carried", COLD["message"]: "resolved"},
        {COLD["message"]: "returned", LATE_AGAIN["message"]: "resolved"},
        {COLD["message"]: "carried", LATE["message"]: "returned"},
    ]
    late = [it for one in judged for it in one["issues"] if "30-day" in it["message"]]
    assert {it["id"] for it in late} == {"iterations/1#1"}
    assert {it["since"] for it in late} == {"iterations/1"}
    asked = judged[2]["asked"]
    assert any("(carried since iterations/1: earlier attempts did" in line for line in asked)
    told = [e["data"] for e in await service.events(refinement_id) if "iteration." in e["type"]]
    assert told[1]["issues"] == [
        {"id": "iterations/1#1", "state": "carried", "finding": 0},
        {"id": "iterations/1#2", "state": "resolved", "finding": None},
    ]
