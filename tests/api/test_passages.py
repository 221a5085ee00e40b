"""Feedback about marked passages: what is taken, and what is refused because it cannot be told."""

from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from app.store import WorkerStore, keys
from tests.api.api_client import DRAFT, ManualWorker, paused, problem
from tests.api.test_reviews import events, reviewed

GENERATOR = {"generator": "openai:gpt-5-mini", "critic": "offline:editor"}
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


async def test_what_an_earlier_release_accepted_takes_no_marks(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await asked(keyed_api, keyed_worker)
    async with Redis.from_url(redis_url) as redis:
        await redis.hset(keys.SUMMARY + refinement_id, "engine_version", "2")
    said = {**FEEDBACK, "spans": [{"quote": WORD}]}
    refused = problem(await reviewed(keyed_api, refinement_id, said), 409, "conflict")
    assert "earlier release" in refused["detail"]
