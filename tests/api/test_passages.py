"""Feedback about marked passages: what is taken, and what is refused because it cannot be told."""

from typing import Any

import httpx
import pytest

from app.store import WorkerStore
from tests.api.api_client import DRAFT, ManualWorker, paused, problem, submitted
from tests.api.test_reviews import events, reviewed

GENERATOR = {"generator": "openai:gpt-5-mini", "critic": "offline:editor"}
FALLING_BACK = {"model": "openai:gpt-5-mini", "fallbacks": ["offline:editor"]}
FEEDBACK = {"action": "revise", "feedback": "Shorter."}
WORD = DRAFT.split()[0]


async def asked(keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, **fields: Any) -> str:
    """Submit for a model that can follow feedback, and let it be reviewed; return the id."""
    return await paused(keyed_api, keyed_worker, models=GENERATOR, **fields)


async def test_marked_passages_are_journaled_as_they_were_given(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore
) -> None:
    refinement_id = await asked(keyed_api, keyed_worker)
    marks: list[dict[str, Any]] = [
        {"quote": DRAFT[-9:]},
        {"start": 0, "end": len(WORD), "quote": WORD},
    ]
    key = {"Idempotency-Key": "marks"}
    for replayed in (None, "true"):
        answer = await reviewed(keyed_api, refinement_id, {**FEEDBACK, "spans": marks}, **key)
        assert (answer.status_code, answer.json()["status"]) == (202, "queued")
        assert answer.headers.get("idempotency-replayed") == replayed
    told = (await events(keyed_api, refinement_id))[-1]["data"]
    assert told["feedback"] == "Shorter."
    nothing: dict[str, Any] = {"quote": None, "start": None, "end": None}
    assert told["spans"] == [nothing | it for it in marks]
    other = {**FEEDBACK, "spans": marks[:1]}
    problem(await reviewed(keyed_api, refinement_id, other, **key), 422, "idempotency_mismatch")


@pytest.mark.parametrize(
    ("spans", "pointer"),
    [
        ([{"quote": WORD}, {"quote": "not in it"}], "/spans/1"),
        ([{"quote": "e"}], "/spans/0"),
        ([{"start": 0, "end": 9_999}], "/spans/0"),
        ([{"start": 0, "end": 4}, {"start": 3, "end": 6}], "/spans/1"),
        ([{"start": 0}], "/spans/0"),
        ([{}], "/spans/0"),
        ([{"quote": WORD, "words": 1}], "/spans/0/words"),
    ],
)
async def test_a_passage_that_the_draft_under_review_does_not_have_once_is_refused(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, spans: list[Any], pointer: str
) -> None:
    refinement_id = await asked(keyed_api, keyed_worker)
    answer = await reviewed(keyed_api, refinement_id, {**FEEDBACK, "spans": spans})
    assert problem(answer, 422, "invalid_request")["errors"][0]["pointer"] == pointer
    assert (await keyed_api.get(f"/v1/refinements/{refinement_id}")).json()["status"] == "paused"


async def test_locked_text_cannot_be_marked(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore
) -> None:
    refinement_id = await asked(keyed_api, keyed_worker, locked=[DRAFT[:10]])
    answer = await reviewed(
        keyed_api, refinement_id, {**FEEDBACK, "spans": [{"start": 5, "end": 20}]}
    )
    assert "locked" in problem(answer, 422, "invalid_request")["detail"]


@pytest.mark.parametrize(
    "said",
    [
        {"action": "revise", "spans": [{"quote": WORD}]},
        {"action": "approve", "feedback": "Fine.", "spans": [{"quote": WORD}]},
        {**FEEDBACK, "spans": [{"start": n, "end": n + 1} for n in range(21)]},
    ],
)
async def test_passages_go_with_feedback_for_a_revision(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, said: dict[str, Any]
) -> None:
    problem(
        await reviewed(keyed_api, await asked(keyed_api, keyed_worker), said),
        422,
        "invalid_request",
    )


async def test_a_review_of_passages_that_names_another_version_is_refused(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore
) -> None:
    refinement_id = await asked(keyed_api, keyed_worker)
    said = {**FEEDBACK, "spans": [{"quote": WORD}]}
    refused = await reviewed(keyed_api, refinement_id, said, **{"If-Match": '"1"'})
    problem(refused, 412, "precondition_failed")


async def test_passages_of_what_waits_for_no_review_are_a_conflict(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore
) -> None:
    refinement_id = await asked(keyed_api, keyed_worker)
    await reviewed(keyed_api, refinement_id, {"action": "approve"})
    await (await ManualWorker.claim(keyed_worker, refinement_id)).complete()
    said = {**FEEDBACK, "spans": [{"quote": WORD}]}
    problem(await reviewed(keyed_api, refinement_id, said), 409, "conflict")


MARKED = {"feedback": "Shorter.", "spans": [{"quote": WORD}]}


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"feedback": "Shorter.", "draft": None, "task": "Explain."}, "/draft"),
        ({"spans": [{"quote": WORD}]}, "/feedback"),
        ({**MARKED, "spans": [{"quote": "not in it"}]}, "/spans/0"),
        ({**MARKED, "locked": [DRAFT[:10]], "spans": [{"start": 5, "end": 20}]}, "/spans/0"),
        ({**MARKED, "strategy": {"kind": "nested"}}, "/feedback"),
        ({**MARKED, "strategy": {"kind": "best_of_n"}}, "/feedback"),
        ({**MARKED, "models": {"generator": "offline:editor"}}, "/feedback"),
        ({**MARKED, "models": {"generator": FALLING_BACK}}, "/models/generator/fallbacks/0"),
    ],
)
async def test_feedback_that_no_revision_can_follow_is_refused(
    keyed_api: httpx.AsyncClient, fields: dict[str, Any], pointer: str
) -> None:
    body = {"draft": DRAFT, "models": GENERATOR, **fields}
    answer = await keyed_api.post("/v1/refinements", json=body)
    assert problem(answer, 422, "invalid_request")["errors"][0]["pointer"] == pointer


async def test_an_estimate_leaves_out_the_judgement_of_the_given_draft(
    keyed_api: httpx.AsyncClient,
) -> None:
    models = {"generator": "openai:gpt-5-mini", "critic": "openai:gpt-5-mini"}
    body = {"draft": DRAFT, "models": models, "max_iterations": 1}
    before, after = [
        (await keyed_api.post("/v1/estimates", json={**body, **more})).json()["cap"]["calls"]
        for more in ({}, MARKED)
    ]
    assert before - after == 3


async def test_what_feedback_changed_is_shown_against_the_given_draft(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore
) -> None:
    refinement_id = await submitted(keyed_api, models=GENERATOR, **MARKED)
    manual = await ManualWorker.claim(keyed_worker, refinement_id)
    await manual.judge(1, "New words.", 0.9)
    await manual.complete()
    url = f"/v1/refinements/{refinement_id}"
    diff = (await keyed_api.get(f"{url}/diff?from=0&to=1")).json()
    assert diff["unified"].startswith("--- iterations/0\n+++ iterations/1\n")
    report = (await keyed_api.get(f"{url}/report?format=md")).text
    assert "## From `iterations/0` to `iterations/1`" in report
    assert "Feedback that the first revision follows:" in report
    continued = await keyed_api.post(f"{url}/continue", json={"max_iterations": 2})
    request = (await keyed_api.get(f"{continued.json()['links']['self']}/request")).json()
    assert (request["feedback"], request["spans"]) == (None, [])


@pytest.mark.parametrize(
    ("wishes", "kind"),
    [
        ({"feedback": "Shorter."}, "iterative"),
        ({"feedback": "Shorter.", "spans": [{"quote": "Better"}]}, "iterative"),
        ({}, "best_of_n"),
    ],
)
async def test_a_continuation_with_feedback_is_about_the_draft_that_it_starts_from(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, wishes: dict[str, Any], kind: str
) -> None:
    parent = await submitted(keyed_api, models=GENERATOR, strategy={"kind": "best_of_n"})
    manual = await ManualWorker.claim(keyed_worker, parent)
    await manual.judge(1, "Better.", 0.5)
    await manual.complete()
    url = f"/v1/refinements/{parent}/continue"
    child = await keyed_api.post(url, json=wishes)
    assert (child.status_code, child.json()["strategy"]) == (202, kind)
    refused = await keyed_api.post(url, json={**wishes, **MARKED})
    assert problem(refused, 422, "invalid_request")["errors"][0]["pointer"] == "/spans/0"
