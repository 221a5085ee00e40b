"""People in the loop over real HTTP: what a reviewer sees, says, and gets."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.model_replies import chat, draft
from tests.e2e.running_service import TERMINAL, RunningService, running_service
from tests.e2e.scripted_models import answering
from tests.waiting import TIMEOUT_S

MORE = {"action": "revise", "feedback": "Name the deadline."}


async def until_asked(service: RunningService, refinement_id: str, key: str) -> Any:
    """Poll, as a client would, until this review is asked for; return the snapshot."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            snapshot = await service.get(refinement_id)
            assert snapshot["status"] not in TERMINAL, snapshot
            if snapshot["review"] and snapshot["review"]["key"] == key:
                return snapshot
            await asyncio.sleep(0.05)


async def say(service: RunningService, refinement_id: str, **word: Any) -> Any:
    """Say a reviewer's word; return the answer, which must be 202."""
    response = await service.client.post(f"/v1/refinements/{refinement_id}/reviews", json=word)
    assert response.status_code == 202, response.text
    return response.json()


async def test_a_reviewer_sees_every_draft_and_the_last_word_is_theirs(
    service: RunningService,
) -> None:
    refinement_id = await service.submit(review={"when": "each_iteration"})
    asked = await until_asked(service, refinement_id, "iterations/1/review")
    assert (asked["status"], asked["review"]["path"]) == ("paused", "iterations/1")
    assert (await service.get(refinement_id, "/iterations/1"))["draft"] == draft(1)
    assert (await say(service, refinement_id, **MORE))["review"] is None
    await until_asked(service, refinement_id, "iterations/2/review")
    diff = await service.get(refinement_id, "/diff?from=1&to=2")
    assert "+Draft number 2." in diff["unified"]
    second = await service.get(refinement_id, "/iterations/2")
    assert second["asked"][0] == "review: Name the deadline."
    await say(service, refinement_id, action="replace", draft="Draft number 3, by hand.")
    third = await until_asked(service, refinement_id, "iterations/3/review")
    assert third["scores"][-1]["score"] == 0.8
    await say(service, refinement_id, action="approve")
    ended = await service.ended(refinement_id)
    assert (ended["stop_reason"], ended["outcome"]) == ("approved", "best_effort")
    assert ended["result"]["draft"] == "Draft number 3, by hand."
    types = [event["type"] for event in await service.events(refinement_id)]
    assert types.count("refinement.paused") == types.count("refinement.reviewed") == 3
    assert (ended["usage"]["calls"], service.models.counts.calls) == (5, 5)


async def test_a_wait_for_the_result_ends_when_a_review_is_asked_for(
    service: RunningService,
) -> None:
    async with asyncio.timeout(55):  # less than the answer would wait for the end
        response = await service.client.post(
            "/v1/refinements",
            json={"task": "Explain refunds.", "review": {"when": "each_iteration"}},
            headers={"Prefer": "wait=60"},
            timeout=None,
        )
        assert (response.status_code, response.json()["status"]) == (202, "paused")


async def test_before_completion_what_is_asked_for_is_made_and_rated(
    service: RunningService,
) -> None:
    refinement_id = await service.submit(review={"when": "before_completion"}, max_iterations=1)
    asked = await until_asked(service, refinement_id, "reviews/1")
    assert asked["best"]["path"] == "iterations/1"
    await say(service, refinement_id, **MORE)
    await until_asked(service, refinement_id, "reviews/2")
    diff = await service.get(refinement_id, "/diff?from=1&from_path=&to=1&path=reviews/1")
    assert diff["unified"].startswith("--- iterations/1\n+++ reviews/1/iterations/1\n")
    await say(service, refinement_id, action="rate", score=0.99)
    ended = await service.ended(refinement_id)
    assert (ended["stop_reason"], ended["outcome"]) == ("completed", "passed")
    result = ended["result"]
    assert (result["path"], result["draft"]) == ("reviews/1/iterations/1", draft(2))
    assert (result["score"], result["score_from"]) == (0.99, "review")


async def test_a_marked_passage_is_revised_and_the_rest_stays(service: RunningService) -> None:
    said = json.dumps({"passages": {"p1": "within 30 days"}})
    service.models.behaviour = answering(
        lambda key, _: chat(f"```json\n{said}\n```") if key.endswith("/revise") else None
    )
    text = "Draft number 1.\r\n\r\nWe refund \U0001f4b6 within 14 days.\r\n"
    refinement_id = await service.submit(draft=text, review={"when": "each_iteration"})
    await until_asked(service, refinement_id, "iterations/0/review")
    marked = {"feedback": "It is 30 days now.", "spans": [{"quote": "within 14 days"}]}
    await say(service, refinement_id, action="revise", **marked)
    await until_asked(service, refinement_id, "iterations/1/review")
    revised = await service.get(refinement_id, "/iterations/1")
    assert revised["draft"] == text.replace("14 days", "30 days")
    assert revised["edits"]["applied"] == 1
    await say(service, refinement_id, action="approve")
    assert (await service.ended(refinement_id))["result"]["draft"] == revised["draft"]


@pytest.mark.long
async def test_it_waits_while_no_worker_lives_and_goes_on_with_another(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        refinement_id = await service.submit(review={"when": "before_completion"})
        await until_asked(service, refinement_id, "reviews/1")
        worker = service.processes[-1]
        worker.kill()
        worker.wait()
        await say(service, refinement_id, action="reject", feedback="Not what we promise.")
        assert (await service.get(refinement_id))["status"] == "queued"
        service.worker()
        ended = await service.ended(refinement_id)
        assert (ended["stop_reason"], ended["outcome"]) == ("rejected", "best_effort")
        assert (ended["result"]["score"], service.models.counts.calls) == (0.95, 8)


async def test_a_review_that_times_out_takes_the_agreed_action(service: RunningService) -> None:
    review = {"when": "each_iteration", "timeout_s": 0.1, "on_timeout": "approve"}
    ended = await service.ended(await service.submit(review=review))
    assert (ended["stop_reason"], ended["result"]["path"]) == ("approved", "iterations/1")


async def test_feedback_about_a_passage_of_a_result_changes_nothing_else(
    service: RunningService,
) -> None:
    parent = await service.ended(await service.submit())
    said = json.dumps({"passages": {"p1": "sample"}})
    service.models.behaviour = answering(
        lambda key, _: chat(said) if key.endswith("/revise") else None
    )
    body = {"feedback": "Call it a sample.", "spans": [{"quote": "Draft"}], "max_iterations": 1}
    url = f"/v1/refinements/{parent['id']}/continue"
    child = (await service.client.post(url, json=body)).json()
    text = (await service.ended(child["id"]))["result"]["draft"]
    assert text == parent["result"]["draft"].replace("Draft", "sample")
    diff = await service.get(child["id"], "/diff?from=0&to=1")
    assert "+sample number" in diff["unified"]
