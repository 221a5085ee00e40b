"""Continuing: a new refinement from the result of one that has ended."""

from typing import Any

import httpx
import pytest

from app.contract.overlays import PartialRequest
from app.contract.requests import RefinementRequest
from app.service.service import continuation_of
from app.store import WorkerStore
from tests.api.api_client import DRAFT, REQUEST, ManualWorker, ended, paused, problem, submitted

REVIEW = {"when": "each_iteration", "timeout_s": 60, "on_timeout": "reject"}


async def request_of(api: httpx.AsyncClient, refinement_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(f"/v1/refinements/{refinement_id}/request")).json()
    return found


async def continued(
    api: httpx.AsyncClient, refinement_id: str, body: dict[str, Any], **headers: str
) -> httpx.Response:
    query = {"path": body["path"]} if "path" in body else {}
    changes = {name: value for name, value in body.items() if name != "path"}
    url = f"/v1/refinements/{refinement_id}/continue"
    return await api.post(url, params=query, json=changes, headers=headers)


async def given(api: httpx.AsyncClient, worker: WorkerStore, **fields: Any) -> str:
    """Submit, and let it end with the result `Better.`; return the id."""
    refinement_id = await submitted(api, **fields)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(1, "Better.", 0.5)
    await manual.complete()
    return refinement_id


async def test_it_starts_from_the_best_draft_and_keeps_the_rest(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    fields = {"threshold": 0.9, "metadata": {"ticket": "1"}, "review": REVIEW}
    parent = await given(api, worker, **fields)
    response = await continued(api, parent, {"max_iterations": 7})
    child = response.json()
    assert (response.status_code, child["status"], child["parent"]) == (202, "queued", parent)
    assert response.headers["location"] == child["links"]["self"]
    assert child["links"]["self"] != f"/v1/refinements/{parent}"
    before, after = await request_of(api, parent), await request_of(api, child["id"])
    assert after == before | {"draft": "Better.", "max_iterations": 7}
    assert (await api.get(f"/v1/refinements/{parent}")).json()["parent"] is None


async def test_what_the_body_names_replaces_what_was_requested(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    parent = await given(api, worker, review=REVIEW, metadata={"ticket": "1"})
    wishes = {
        "threshold": 0.5,
        "strategy": {"kind": "best_of_n", "n": 2, "refine": True},
        "metadata": {},
        "review": None,
        "stop": {"patience": 4},
        "models": {"critic": "offline:editor"},
    }
    child = (await continued(api, parent, wishes)).json()
    request = await request_of(api, child["id"])
    assert request["strategy"] == wishes["strategy"]
    assert (request["threshold"], request["metadata"], request["review"]) == (0.5, {}, None)
    assert request["stop"]["patience"] == 4
    assert request["models"]["critic"] == "offline:editor"


TOOL = {
    "name": "search",
    "description": "Searches.",
    "url": "https://example.com/search",
    "parameters": {"type": "object"},
}
PARTS = {"kind": "nested", "parts": [{"name": "one", "instructions": "Write it."}]}


@pytest.mark.parametrize(
    ("requested", "named", "played"),
    [
        (PARTS, {}, "iterative"),
        (PARTS, {"strategy": {"kind": "nested"}}, "nested"),
        ({"kind": "nested", "parts": []}, {}, "nested"),
        ({"kind": "stepwise"}, {}, "stepwise"),
        ({"kind": "self_consistency", "n": 3}, {}, "iterative"),
        ({"kind": "plan_execute"}, {}, "plan_execute"),
        ({"kind": "plan_execute"}, {"strategy": {"kind": "critique"}}, "critique"),
    ],
)
def test_a_strategy_that_cannot_start_from_a_draft_gives_way_to_iterative(
    requested: dict[str, Any], named: dict[str, Any], played: str
) -> None:
    draft = "Mine." if requested == {"kind": "nested", "parts": []} else None
    tools = [TOOL] if requested["kind"] == "plan_execute" else []
    request = RefinementRequest.model_validate(
        {"task": "Write.", "draft": draft, "strategy": requested, "tools": tools}
    )
    overlay = continuation_of(request, "Ours.", PartialRequest.model_validate(named))
    wanted = overlay.request()
    assert (wanted.draft, wanted.strategy.kind) == ("Ours.", played)
    assert bool(wanted.tools) == (played == "plan_execute")


@pytest.mark.parametrize("state", ["queued", "paused", "without a result"])
async def test_what_has_no_result_yet_is_a_conflict(
    api: httpx.AsyncClient, worker: WorkerStore, state: str
) -> None:
    parent = await (paused(api, worker) if state == "paused" else submitted(api))
    if state == "without a result":
        await api.post(f"/v1/refinements/{parent}/cancel")
    problem(await continued(api, parent, {}), 409, "conflict")


async def test_what_was_canceled_with_a_result_can_be_continued(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    parent = await paused(api, worker)
    await api.post(f"/v1/refinements/{parent}/cancel")
    assert (await continued(api, parent, {})).status_code == 202


async def test_what_does_not_go_together_is_refused(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    parent = await ended(api, worker)
    for wishes, pointer in (
        ({"strategy": {"kind": "best_of_n", "n": 9}}, "/max_iterations"),
        ({"models": {"generator": "nobody:knows"}}, "/models/generator"),
        ({"max_iterations": 0}, "/max_iterations"),
        ({"threshold": None}, "/threshold"),
        ({"draft": "Mine."}, "/draft"),
        ({"preset": "mail"}, "/preset"),
        ({"path": "iterations/7"}, "/path"),
        ({"path": ""}, "/path"),
        ({"locked": ["Not in it."]}, "/locked/0"),
        ({"tools": [TOOL]}, "/tools"),
        ({"criteria": [{"name": "tone"}, {"name": "tone"}]}, "/criteria"),
        ({"strategy": {"kind": "self_correction"}}, "/validators"),
        ({"strategy": {"kind": "self_consistency"}}, "/draft"),
    ):
        found = problem(await continued(api, parent, wishes), 422, "invalid_request")
        assert found["errors"][0]["pointer"] == pointer, wishes


async def test_it_starts_from_any_judged_draft_and_says_which(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    parent = await submitted(api)
    manual = await ManualWorker.claim(worker, parent)
    await manual.judge(0, DRAFT, 0.4)
    await manual.judge(1, "Better.", 0.5)
    await manual.complete()
    for body, path, draft in (
        ({}, "iterations/1", "Better."),
        ({"path": "iterations/0"}, "iterations/0", DRAFT),
    ):
        child = (await continued(api, parent, body)).json()
        origin = {"id": parent, "path": path, "iteration": int(path[-1])}
        assert (child["parent"], child["continued_from"]) == (parent, origin)
        assert (await request_of(api, child["id"]))["draft"] == draft
        listed = (await api.get("/v1/refinements")).json()["data"]
        assert listed[0]["continued_from"] == origin
        report = (await api.get(f"{child['links']['self']}/report?format=md")).text
        assert f"`{parent}`, from `{path}`" in report
    assert (await api.get(f"/v1/refinements/{parent}")).json()["continued_from"] is None


async def test_task_criteria_validators_and_context_can_be_others(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    parent = await given(api, worker, task="Explain.", validators=[{"kind": "json"}])
    wishes = {
        "task": None,
        "criteria": [{"name": "conciseness"}, {"name": "spelling"}],
        "validators": [{"kind": "length", "max_words": 9}],
        "context": [{"name": "policy.md", "text": "14 days."}],
        "outputs": [],
        "locked": ["Better"],
        "compare": True,
    }
    request = await request_of(api, (await continued(api, parent, wishes)).json()["id"])
    assert (request["task"], request["draft"]) == (None, "Better.")
    assert [it["name"] for it in request["criteria"]] == ["conciseness", "spelling"]
    assert [it["kind"] for it in request["validators"]] == ["length"]
    assert (request["grounding"], request["locked"]) == ("context", ["Better"])
    assert request["compare"]
    again = await given(api, worker, grounding="context")
    request = await request_of(api, (await continued(api, again, {"context": []})).json()["id"])
    assert request["grounding"] == "context"


async def test_an_error_in_a_field_of_the_continued_request_says_so(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    parent = await ended(api, worker)
    wishes = {"strategy": {"kind": "best_of_n", "n": 9}}
    refused = problem(await continued(api, parent, wishes), 422, "invalid_request")
    (wrong,) = refused["errors"]
    assert wrong["pointer"] == "/max_iterations"
    assert wrong["detail"].endswith("(a field of the continued refinement)")


async def test_a_key_stands_for_one_continuation_of_one_refinement(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    first, second = await ended(api, worker), await ended(api, worker)
    key = {"Idempotency-Key": "k"}
    child = await continued(api, first, {}, **key)
    again = await continued(api, first, {}, **key)
    assert again.json()["id"] == child.json()["id"]
    assert again.headers["idempotency-replayed"] == "true"
    problem(await continued(api, second, {}, **key), 422, "idempotency_mismatch")
    problem(await continued(api, first, {"threshold": 0.1}, **key), 422, "idempotency_mismatch")
    submission = await api.post("/v1/refinements", json=REQUEST, headers=key)
    problem(submission, 422, "idempotency_mismatch")


async def test_the_parent_can_be_erased(api: httpx.AsyncClient, worker: WorkerStore) -> None:
    parent = await ended(api, worker)
    child = (await continued(api, parent, {})).json()
    await api.delete(f"/v1/refinements/{parent}")
    assert (await api.get(child["links"]["self"])).json()["parent"] == parent
