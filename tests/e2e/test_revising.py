"""Delta edits and locked text over real HTTP."""

import json

from app.cli.server_commands import rough_text
from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import answering

DRAFT = "Draft number 1. We refund within 14 days. Cash is not refunded."
EDITOR = {"generator": "offline:editor", "critic": "offline:editor"}


def edits(search: str, replace: str) -> str:
    return json.dumps({"edits": [{"search": search, "replace": replace}]})


async def test_a_reviser_mends_by_edits_and_is_asked_again_for_one_that_fails(
    service: RunningService,
) -> None:
    replies = {
        "iterations/1/revise": edits("number 1", "number 2"),
        "iterations/2/revise": edits("number 1", "number 3"),  # it is number 2 by now
        "iterations/2/revise/again/1": edits("number 2", "number 3"),
        "iterations/3/revise": edits("", "x"),
        "iterations/3/revise/again/1": "I cannot.",
        "iterations/3/revise/full": "Draft number 4. We refund within 14 days.",
    }

    def revised(key: str, _asked: AskedPrompt) -> ModelServerReply | None:
        return chat(replies[key]) if key in replies else None

    service.models.behaviour = answering(revised)
    refinement_id = await service.submit(draft=DRAFT, edits="delta", locked=["14 days"])
    ended = await service.ended(refinement_id)
    assert ended["stop_reason"] == "threshold_met"
    assert ended["result"]["draft"] == replies["iterations/3/revise/full"]
    judged = (await service.get(refinement_id, "/iterations"))["data"]
    assert [it["draft"] for it in judged[:3]] == [
        DRAFT,
        DRAFT.replace("number 1", "number 2"),
        DRAFT.replace("number 1", "number 3"),
    ]
    made = [it["edits"] for it in judged]
    assert (made[0], made[3]) == (None, None)
    assert made[1]["applied"] == 1
    assert made[1]["untouched"] == round(1 - 1 / len(DRAFT), 6)
    assert isinstance(made[1]["output_tokens_saved"], int)
    assert made[2]["output_tokens_saved"] < made[1]["output_tokens_saved"]


async def test_the_editor_mends_by_edits_what_it_mends_as_a_whole(service: RunningService) -> None:
    locked = rough_text().split(". ")[1]
    common = {
        "draft": rough_text(),
        "criteria": [{"name": "conciseness"}, {"name": "spelling"}],
        "models": EDITOR,
        "threshold": 0.9,
        "locked": [locked],
    }
    by_edits = await service.submit(**common, edits="delta")
    as_a_whole = await service.submit(**common)
    one, other = await service.ended(by_edits), await service.ended(as_a_whole)
    assert one["result"]["sha256"] == other["result"]["sha256"]
    assert locked in one["result"]["draft"]
    assert one["result"]["draft"] != rough_text()
    first = await service.get(by_edits, "/iterations/1")
    assert first["edits"]["applied"] > 1
    assert 0.3 < first["edits"]["untouched"] < 1
