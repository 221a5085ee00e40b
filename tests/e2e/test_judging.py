"""A panel and its samples over real HTTP: which models are asked, and what is reported."""

import json
from typing import Any

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, critique
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import answering

SCORES = {
    "critique/reader": 0.9,
    "critique/reader/2": 0.8,
    "critique/reader/3": 0.7,
    "critique/lawyer": 0.2,
    "critique/lawyer/2": 0.4,
    "critique/lawyer/3": 0.6,
}
PANEL = [
    {"name": "reader"},
    {
        "name": "lawyer",
        "model": {"model": "openai:strict", "temperature": 0.3},
        "perspective": "A consumer lawyer.",
        "adversarial": True,
    },
]


async def test_a_panel_with_samples_judges_every_draft(service: RunningService) -> None:
    heard: dict[str, Any] = {}

    def judge(key: str, asked: AskedPrompt) -> ModelServerReply | None:
        score = SCORES.get(key.removeprefix("iterations/1/"))
        if score is None:
            return None
        heard[key] = asked.json
        return chat(critique(1, "quality").replace("0.4", str(score)))

    service.models.behaviour = answering(judge)
    critics = {"samples": 3, "panel": PANEL}
    refinement_id = await service.submit(critics=critics, max_iterations=1)
    ended = await service.ended(refinement_id)
    assert (ended["stop_reason"], ended["usage"]["calls"]) == ("max_iterations", 7)
    assert ended["result"]["score"] == 0.65
    (judged,) = (await service.get(refinement_id, "/iterations"))["data"]
    assert judged["scores"][0]["spread"] == 0.7
    first = (await service.events(refinement_id))[0]["data"]
    assert first["models"] == {
        "generator": "openai:test",
        "critic/reader": "openai:test",
        "critic/lawyer": "openai:strict",
    }
    assert {body["model"] for key, body in heard.items() if "reader" in key} == {"test"}
    for key, body in heard.items():
        is_lawyer = "lawyer" in key
        said = "\n".join(message["content"] for message in body["messages"])
        assert ("A consumer lawyer." in said) is is_lawyer
        assert (body["model"] == "strict") is is_lawyer
        assert body.get("temperature") == (0.3 if is_lawyer else 1)


async def test_criteria_are_listed_without_any_key(service: RunningService) -> None:
    editor = "offline:editor"
    refinement_id = await service.submit(
        task="Explain our refunds in at most 40 words.",
        draft="In the event that you are desirous of a refund, we will recieve it soon.",
        criteria="auto",
        models={"generator": editor, "critic": editor},
    )
    ended = await service.ended(refinement_id)
    assert (ended["status"], service.models.counts.calls) == ("succeeded", 0)
    events = await service.events(refinement_id)
    (listing,) = [it["data"] for it in events if it["data"].get("key") == "criteria"]
    listed = json.loads(listing["reply"]["text"])["criteria"]
    assert listed[0] == {"name": "length", "description": "Has it at most 40 words?"}
    names = [it["name"] for it in listed]
    judged = (await service.get(refinement_id, "/iterations"))["data"]
    assert [[score["criterion"] for score in it["scores"]] for it in judged] == [names] * len(
        judged
    )
    assert ended["result"]["score"] > judged[0]["score"]
    shown = await service.get(refinement_id, "/request")
    assert shown["criteria"] == "auto"
