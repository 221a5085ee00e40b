"""Strategies put together, over real HTTP with a real worker, against scripts."""

import asyncio
import json
import re
from typing import Any

import pytest
from aiohttp import web

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat
from benchmarks.scripted_examples import (
    BOOKED,
    COMPOSED,
    DAWN,
    DINNER,
    ScriptedExample,
    find_or_book_table,
)
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import key_of
from tests.e2e.test_pausing import paused
from tests.local_endpoint import endpoint
from tests.validators.sandboxed_python import needs_sandbox
from tests.waiting import TIMEOUT_S
from workers.outbound.guarded_client import EndpointUnavailable


async def played(service: RunningService, script: ScriptedExample) -> dict[str, Any]:
    """Submit a composition and return its last snapshot."""

    def answer(asked: AskedPrompt) -> ModelServerReply:
        return chat(script.says[key_of(asked)])

    service.models.behaviour = answer
    response = await service.client.post("/v1/refinements", json=script.request)
    assert response.status_code == 202, response.text
    ended: dict[str, Any] = await service.ended(response.json()["id"])
    assert (ended["status"], ended["outcome"]) == ("succeeded", "passed")
    assert "text_missing" not in {caveat["code"] for caveat in ended["result"]["caveats"]}
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
    chapters = [DAWN, "At noon Pim the dog was gone.", "At dusk Pim slept in a boat."]
    assert ended["result"]["draft"] == "\n\n".join(chapters)
    assert ended["usage"]["calls"] == len(script.says)
    steps = (await service.client.get(
        f"/v1/refinements/{ended['id']}/steps", params={"path": "parts/part-3/iterations/1/draft"}
    )).json()  # fmt: skip
    (asked,) = steps["data"]
    for shown in ("At dawn all boats come home.", chapters[1], "1. Dawn\n2. Noon\n3. Dusk"):
        assert shown in asked["prompt"]["user"]
    url = f"/v1/refinements/{ended['id']}/report?format=md"
    report = (await service.client.get(url)).text
    rows = re.findall(r"(?m)^\| `parts/part-(\d)` \| (\w+) \| passed \|", report)
    assert rows == [("1", "Dawn"), ("2", "Noon"), ("3", "Dusk")]


async def test_of_a_contract_of_60_sections_58_stay_byte_for_byte(service: RunningService) -> None:
    script = COMPOSED["a contract of 60 sections"]
    ended = await played(service, script)
    given = str(script.request["draft"])
    assert len(re.findall(r"(?m)^## ", given)) == 60
    expected = given.replace("Somebody pays, some day.", "The buyer pays within 14 days.")
    assert given.count("Somebody pays, some day.") == 2
    assert ended["result"]["draft"] == expected
    assert ended["usage"]["calls"] == 1 + 60 + 2 * 2 + 1


async def revisions(service: RunningService, refinement_id: str) -> list[str]:
    """Return what the reviser was asked in iteration 2 and 3."""
    steps = f"/v1/refinements/{refinement_id}/steps"
    paths = [f"iterations/{number}/revise" for number in (2, 3)]
    said = [(await service.client.get(steps, params={"path": it})).json() for it in paths]
    return [it["data"][0]["prompt"]["user"] for it in said]


async def test_sql_is_corrected_until_it_runs_and_returns_the_rows_expected(
    service: RunningService,
) -> None:
    script = COMPOSED["SQL that returns the rows expected"]
    ended = await played(service, script)
    assert ended["stop_reason"] == "validators_passed"
    assert "WHERE NOT canceled" in ended["result"]["draft"]
    assert ended["usage"]["calls"] == len(script.says)
    first, second = await revisions(service, ended["id"])
    assert "unknown column 'amount'" in first
    assert "49" in second


@needs_sandbox
async def test_hidden_cases_score_a_function_and_visible_ones_steer(
    service: RunningService,
) -> None:
    script = COMPOSED["a function and its hidden cases"]
    ended = await played(service, script)
    assert [it["score"] for it in ended["scores"]] == [0.2, 0.6, 1.0]
    assert (ended["stop_reason"], ended["result"]["score_from"]) == (
        "validators_passed",
        "validators",
    )
    assert ended["result"]["caveats"] == []
    first, second = await revisions(service, ended["id"])
    assert "postage(20) returned 100; expected 85" in first
    assert "hidden cases: 3 of 5 cases passed (not met yet)" in second
    assert "hidden case 4 gave another answer than expected" in second
    assert not [
        it for it in ("postage(0)", "postage(500)", "postage(1001)") if it in first + second
    ]


@needs_sandbox
async def test_a_result_whose_tests_could_be_forged_says_so_and_passes(
    service: RunningService,
) -> None:
    tests = "import draft\ndef test(): assert draft.answer() == 42\n"
    script = ScriptedExample(
        request={
            "task": "A function `answer` that returns 42.",
            "strategy": {"kind": "self_correction"},
            "validators": [{"kind": "python_tests", "tests": tests}],
        },
        says={"iterations/1/draft": "def answer(): return 42"},
    )
    ended = await played(service, script)
    (caveat,) = ended["result"]["caveats"]
    assert (caveat["code"], caveat["path"]) == ("forgeable", "validators/0")
    assert "a hostile draft could have forged" in caveat["detail"]


@pytest.mark.parametrize("action", ["reject", "approve"])
async def test_after_three_look_ups_side_by_side_a_call_is_made_if_it_is_approved(
    service: RunningService, action: str
) -> None:
    says = {**DINNER.says, **(BOOKED if action == "approve" else {})}
    all_three, bookings = asyncio.Barrier(3), list[Any]()

    async def table(request: web.Request) -> web.StreamResponse:
        given = json.loads(await request.text())["arguments"]
        if "seats" in given:
            bookings.append(given)
        else:
            await asyncio.wait_for(all_three.wait(), TIMEOUT_S)
        try:
            return web.Response(text=find_or_book_table(given))
        except EndpointUnavailable:
            return web.json_response({"message": "the mill is closed on Fridays"}, status=404)

    service.models.behaviour = lambda asked: chat(says[key_of(asked)])
    async with endpoint(table) as (url, _, _):
        tools = [{**tool, "url": url, "timeout_s": 60} for tool in DINNER.request["tools"]]
        refinement_id = await service.submit(**{**DINNER.request, "tools": tools})
        asked = (await paused(service, refinement_id))["review"]
        assert bookings == []
        assert asked["call"]["arguments"] == {"place": "garden", "seats": 12}
        word = DINNER.words[asked["key"]][-1] if action == "reject" else {"action": action}
        reviews = f"/v1/refinements/{refinement_id}/reviews"
        assert (await service.client.post(reviews, json=word)).status_code == 202
        ended = await service.ended(refinement_id)
    assert ended["usage"]["calls"] == len(says)
    assert ended["result"]["draft"] == says["iterations/1/draft"]
    caveats = [(it["code"], it["path"]) for it in ended["result"]["caveats"]]
    if action == "reject":
        assert bookings == []
        assert (ended["stop_reason"], ended["outcome"]) == ("incomplete", "best_effort")
        assert caveats == [
            ("goal_not_met", "plan"),
            ("item_dropped", "steps/3"),
            ("item_dropped", "steps/4"),
        ]
    else:
        assert bookings == [{"place": "garden", "seats": 12}]
        assert (ended["stop_reason"], ended["outcome"]) == ("threshold_met", "passed")
        assert caveats == [("item_dropped", "steps/3")]


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
