"""Reviews: what a paused refinement shows, and what a reviewer may say."""

from typing import Any

import httpx
import pytest

from app.store import WorkerStore
from tests.api.api_client import DRAFT, ManualWorker, paused, problem, submitted


async def reviewed(
    api: httpx.AsyncClient, refinement_id: str, body: dict[str, Any], **headers: str
) -> httpx.Response:
    return await api.post(f"/v1/refinements/{refinement_id}/reviews", json=body, headers=headers)


async def events(api: httpx.AsyncClient, refinement_id: str) -> list[dict[str, Any]]:
    url = f"/v1/refinements/{refinement_id}/events"
    page = (await api.get(url, headers={"Accept": "application/json"})).json()
    found: list[dict[str, Any]] = page["data"]
    return found


async def test_a_paused_refinement_shows_what_is_asked_and_where_to_answer(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await paused(api, worker)
    snapshot = (await api.get(f"/v1/refinements/{refinement_id}")).json()
    asked = snapshot["review"]
    assert (snapshot["status"], asked["path"]) == ("paused", "iterations/0")
    assert asked["question"] == "Is this draft good enough?"
    assert asked["asked_at"] < asked["deadline"]
    assert snapshot["links"]["reviews"] == f"/v1/refinements/{refinement_id}/reviews"
    listed = (await api.get("/v1/refinements?status=paused")).json()["data"]
    assert [it["id"] for it in listed] == [refinement_id]
    [shown] = (await api.get(f"/v1/refinements/{refinement_id}/iterations")).json()["data"]
    assert (shown["path"], shown["draft"]) == (asked["path"], DRAFT)


@pytest.mark.parametrize(
    "said",
    [
        {"action": "approve"},
        {"action": "approve", "score": 0.95},
        {"action": "reject", "feedback": "No."},
        {"action": "revise"},
        {"action": "replace", "draft": "My own words.\n"},
        {"action": "rate", "score": 0.25, "path": "iterations/0/review"},
    ],
)
async def test_a_reviewers_word_is_journaled_and_it_goes_on(
    api: httpx.AsyncClient, worker: WorkerStore, said: dict[str, Any]
) -> None:
    refinement_id = await paused(api, worker)
    response = await reviewed(api, refinement_id, said)
    assert response.status_code == 202
    assert (response.json()["status"], response.json()["review"]) == ("queued", None)
    last = (await events(api, refinement_id))[-1]
    nothing = dict.fromkeys(("feedback", "draft", "arguments", "score"))
    left_out: dict[str, Any] = {**nothing, "spans": []}
    word = {name: value for name, value in said.items() if name != "path"}
    known = {"key": "iterations/0/review", "by": "reviewer"}
    assert (last["type"], last["data"]) == ("refinement.reviewed", left_out | known | word)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.complete()
    assert (await api.get(f"/v1/refinements/{refinement_id}")).json()["status"] == "succeeded"


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"action": "postpone"},
        {"action": "replace"},
        {"action": "replace", "draft": ""},
        {"action": "replace", "draft": " \n"},
        {"action": "replace", "draft": "Mine.", "score": 1},
        {"action": "approve", "draft": "Mine."},
        {"action": "rate"},
        {"action": "rate", "score": 1.01},
        {"action": "revise", "feedback": "x" * 20_001},
        {"action": "approve", "mood": "good"},
    ],
)
async def test_a_word_that_cannot_be_meant_is_refused(
    api: httpx.AsyncClient, worker: WorkerStore, said: dict[str, Any]
) -> None:
    refinement_id = await paused(api, worker)
    problem(await reviewed(api, refinement_id, said), 422, "invalid_request")
    assert (await api.get(f"/v1/refinements/{refinement_id}")).json()["status"] == "paused"


@pytest.mark.parametrize("kind", ["iterative", "critique"])
async def test_words_that_the_offline_editor_cannot_follow_are_refused(
    api: httpx.AsyncClient, worker: WorkerStore, kind: str
) -> None:
    plan = {"when": "before_completion"}
    refinement_id = await paused(api, worker, strategy={"kind": kind}, review=plan)
    said = {"action": "revise", "feedback": "Shorter, please."}
    refused = problem(await reviewed(api, refinement_id, said), 422, "invalid_request")
    assert refused["errors"][0]["pointer"] == "/feedback"
    assert "replace the draft" in refused["detail"]


async def test_a_reviewers_own_draft_has_to_keep_what_is_locked(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await paused(api, worker, locked=[DRAFT[:10]])
    said = {"action": "replace", "draft": "My own words."}
    refused = problem(await reviewed(api, refinement_id, said), 422, "invalid_request")
    assert refused["errors"][0]["pointer"] == "/draft"
    assert DRAFT[:10] in refused["detail"]
    kept = await reviewed(api, refinement_id, {"action": "replace", "draft": f"{DRAFT[:10]}!"})
    assert kept.status_code == 202


async def test_a_draft_in_place_of_a_part_has_to_keep_what_is_locked_in_that_part(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api, locked=["First line.", "Second line."])
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(1, "First line. And more.", 0.4, search="parts/section-1/")
    await manual.pause()
    said = {"action": "replace", "draft": "My own words."}
    refused = problem(await reviewed(api, refinement_id, said), 422, "invalid_request")
    assert "First line." in refused["detail"]
    said["draft"] = "Mine. First line."
    for replayed in (None, "true"):
        answer = await reviewed(api, refinement_id, said, **{"Idempotency-Key": "word-1"})
        assert (answer.status_code, answer.headers.get("idempotency-replayed")) == (202, replayed)


async def test_a_review_of_another_step_than_the_one_pending_is_a_conflict(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await paused(api, worker)
    said = {"action": "approve", "path": "iterations/4/review"}
    refused = problem(await reviewed(api, refinement_id, said), 409, "conflict")
    assert "iterations/0/review" in refused["detail"]


async def test_a_review_that_was_not_asked_for_is_a_conflict(api: httpx.AsyncClient) -> None:
    refinement_id = await submitted(api)
    refused = problem(await reviewed(api, refinement_id, {"action": "approve"}), 409, "conflict")
    assert "not waiting" in refused["detail"]


async def test_a_review_of_an_unknown_refinement_is_not_found(api: httpx.AsyncClient) -> None:
    unknown = "ref_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"
    problem(await reviewed(api, unknown, {"action": "approve"}), 404, "not_found")


async def test_a_review_sent_twice_with_one_key_is_taken_once(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await paused(api, worker)
    key = {"Idempotency-Key": '"word-1"'}
    for replayed in (None, "true"):
        answer = await reviewed(api, refinement_id, {"action": "approve"}, **key)
        assert (answer.status_code, answer.json()["status"]) == (202, "queued")
        assert answer.headers.get("idempotency-replayed") == replayed
    kinds = [event["type"] for event in await events(api, refinement_id)]
    assert kinds.count("refinement.reviewed") == 1
    other = await reviewed(api, refinement_id, {"action": "reject"}, **key)
    problem(other, 422, "idempotency_mismatch")
    problem(await reviewed(api, refinement_id, {"action": "reject"}), 409, "conflict")


async def test_finish_ends_the_wait_for_a_reviewer(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await paused(api, worker)
    finished = await api.post(f"/v1/refinements/{refinement_id}/finish")
    assert (finished.status_code, finished.json()["status"]) == (202, "queued")
    assert (await events(api, refinement_id))[-1]["data"] == {"reason": "finished_early"}


async def test_limits_of_a_paused_refinement_can_be_changed(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = f"/v1/refinements/{await paused(api, worker)}"
    assert (await api.patch(url, json={"max_iterations": 9})).json()["max_iterations"] == 9
    snapshot = (await api.get(url)).json()
    assert (snapshot["status"], snapshot["max_iterations"]) == ("paused", 9)


@pytest.mark.parametrize(
    "plan",
    [
        {"when": "sometimes"},
        {},
        {"when": "each_iteration", "timeout_s": 0},
        {"when": "each_iteration", "timeout_s": 604_801},
        {"when": "before_completion", "on_timeout": "panic"},
    ],
)
async def test_a_plan_for_reviews_that_cannot_be_kept_is_refused(
    api: httpx.AsyncClient, plan: dict[str, Any]
) -> None:
    body = {"draft": DRAFT, "review": plan}
    problem(await api.post("/v1/refinements", json=body), 422, "invalid_request")


async def test_a_plan_for_reviews_waits_a_week_unless_it_says_otherwise(
    api: httpx.AsyncClient,
) -> None:
    refinement_id = await submitted(api, review={"when": "each_iteration"})
    request = (await api.get(f"/v1/refinements/{refinement_id}/request")).json()
    assert request["review"] == {
        "when": "each_iteration",
        "timeout_s": 604_800,
        "on_timeout": "finish",
        "reviewers": [],
        "approvals": "all",
    }
