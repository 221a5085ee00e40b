"""Strategies put together, over real HTTP with a real worker, against scripts."""

import re
from typing import Any

import pytest

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat
from benchmarks.scripted_examples import COMPOSED, DAWN, ScriptedExample
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import key_of


async def played(service: RunningService, script: ScriptedExample) -> dict[str, Any]:
    """Submit a composition and return its last snapshot."""

    def answer(asked: AskedPrompt) -> ModelServerReply:
        return chat(script.says[key_of(asked)])

    service.models.behaviour = answer
    response = await service.client.post("/v1/refinements", json=script.request)
    assert response.status_code == 202, response.text
    ended: dict[str, Any] = await service.ended(response.json()["id"])
    assert (ended["status"], ended["passed"]) == ("succeeded", True)
    assert ended["result"]["missing"] == []
    return ended


async def test_a_report_has_topics_refined_to_their_own_thresholds_and_a_title_of_the_whole(
    service: RunningService,
) -> None:
    script = COMPOSED["a report on topics"]
    ended = await played(service, script)
    result = ended["result"]
    assert result["draft"] == "12 of 400 parcels came back.\n\n9 of the 12 were broken."
    assert result["outputs"] == {
        "title": "Three in a hundred come back",
        "summary": "12 of 400 parcels came back, 9 of them broken.",
    }
    assert ended["usage"]["calls"] == len(script.says)
    scores = {it["path"]: it["score"] for it in ended["scores"]}
    assert scores["parts/figures/iterations/2"] == 0.97
    assert scores["parts/reasons/iterations/1"] == 0.75


async def test_a_story_has_as_many_chapters_as_its_outline_and_each_knows_those_before_it(
    service: RunningService,
) -> None:
    script = COMPOSED["a story in chapters"]
    ended = await played(service, script)
    chapters = [DAWN.strip(), "At noon Pim the dog was gone.", "At dusk Pim slept in a boat."]
    assert ended["result"]["draft"] == "\n\n".join(chapters)
    assert ended["usage"]["calls"] == len(script.says)
    steps = (await service.client.get(
        f"/v1/refinements/{ended['id']}/steps", params={"path": "parts/part-3/iterations/1/draft"}
    )).json()  # fmt: skip
    (asked,) = steps["data"]
    for shown in ("At dawn all boats come home.", chapters[1], "1. Dawn\n2. Noon\n3. Dusk"):
        assert shown in asked["prompt"]["user"]


async def test_of_a_contract_of_60_sections_58_stay_byte_for_byte(service: RunningService) -> None:
    script = COMPOSED["a contract of 60 sections"]
    ended = await played(service, script)
    given = str(script.request["draft"])
    assert len(re.findall(r"(?m)^## ", given)) == 60
    expected = given.replace("Somebody pays, some day.", "The buyer pays within 14 days.")
    assert given.count("Somebody pays, some day.") == 2
    assert ended["result"]["draft"] == expected
    assert ended["usage"]["calls"] == 1 + 60 + 2 * 2 + 1


JUDGED = {"name": "a", "body": {"kind": "critique"}}


@pytest.mark.parametrize(
    ("strategy", "pointer"),
    [
        ({"kind": "nested", "parts": "auto", "until": {"name": "ended"}}, "/strategy"),
        ({"kind": "stepwise", "stages": [JUDGED]}, "/strategy/stages/0/body"),
    ],
)
async def test_what_cannot_be_put_together_is_refused_where_it_stands(
    service: RunningService, strategy: dict[str, Any], pointer: str
) -> None:
    body = {"task": "Explain refunds.", "strategy": strategy}
    response = await service.client.post("/v1/refinements", json=body)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["pointer"].startswith(pointer)
