"""Refinements that wait for a model, as clients see them, and deadlines."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from app.contract.events import EventType
from app.contract.waiting import Waiting
from app.store import Entry, Fields, Parking, WorkerStore
from tests.api.api_client import DRAFT, REQUEST, ManualWorker, ended, problem, submitted

MODEL = "openai:gpt-5-mini"
WAITING = {
    "key": "iterations/1/revise",
    "reason": "unauthorized",
    "model": MODEL,
    "until": "2026-01-31T09:00:07Z",
    "since": "2026-01-31T09:00:00Z",
    "detail": "openai:gpt-5-mini refused the API key.",
}


async def parked(api: httpx.AsyncClient, worker: WorkerStore) -> str:
    """Return the address of a refinement that has judged a draft and waits for a model."""
    refinement_id = await submitted(api)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, DRAFT, 0.4)
    waiting = Waiting.model_validate(WAITING)
    fields = Fields(phase=(waiting.key,), waiting=(waiting,))
    entries = [Entry(EventType.STEP_WAITING, waiting)]
    state = await manual._journal.append(entries, fields, parking=Parking((MODEL,)))
    assert state.is_parked
    return f"/v1/refinements/{refinement_id}"


async def test_the_snapshot_the_list_and_the_journal_say_what_is_waited_for(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = await parked(api, worker)
    snapshot = (await api.get(url)).json()
    assert (snapshot["status"], snapshot["waiting"]) == ("running", WAITING | {"lost": None})
    assert snapshot["phase"] == [WAITING["key"]]
    (listed,) = (await api.get("/v1/refinements", params={"status": "running"})).json()["data"]
    assert listed == snapshot
    events = (await api.get(f"{url}/events", headers={"Accept": "application/json"})).json()
    assert events["data"][-1]["type"] == "step.waiting"
    assert events["data"][-1]["data"] == WAITING | {"lost": None}


async def test_the_report_says_what_is_waited_for(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    report = (await api.get(f"{await parked(api, worker)}/report")).text
    assert "waits until 2026-01-31 09:00:07 UTC for openai:gpt-5-mini" in report
    assert "which refused the API key" in report


async def test_commands_act_on_it_without_a_worker(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = await parked(api, worker)
    limits = (await api.patch(url, json={"max_wait_seconds": 60})).json()
    assert limits["max_wait_seconds"] == 60
    finishing = (await api.post(f"{url}/finish")).json()
    assert (finishing["status"], finishing["waiting"]) == ("running", None)
    canceled = (await api.post(f"{await parked(api, worker)}/cancel")).json()
    assert (canceled["status"], canceled["waiting"]) == ("canceled", None)
    assert canceled["result"]["draft"] == DRAFT
    assert (await api.delete(gone := await parked(api, worker))).status_code == 204
    assert (await api.get(gone)).status_code == 404
    assert await worker.parked(9) == {}


@pytest.mark.parametrize(
    ("deadline", "why"),
    [
        ("2020-01-01T00:00:00Z", "not in the future"),
        ("2999-01-01T00:00:00Z", "more than 30 days"),
        ("2026-01-31T09:00:00", "a time with an offset"),
        (1_900_000_000, "a time with an offset"),
        ("tomorrow", "a time with an offset"),
        ("0001-01-01T00:00:00+23:59", "not in the future"),
    ],
)
async def test_a_deadline_is_a_time_with_an_offset_that_is_ahead(
    api: httpx.AsyncClient, deadline: object, why: str
) -> None:
    response = await api.post("/v1/refinements", json={**REQUEST, "deadline": deadline})
    found = problem(response, 422, "invalid_request")
    assert found["errors"][0]["pointer"] == "/deadline"
    assert why in str(found)


async def test_a_start_is_a_time_before_the_deadline_and_shown(api: httpx.AsyncClient) -> None:
    now = datetime.now(UTC)
    start, deadline = (f"{now + timedelta(hours=it):%Y-%m-%dT%H:%M:%SZ}" for it in (1, 2))
    wrong = {**REQUEST, "start_after": deadline, "deadline": start}
    found = problem(await api.post("/v1/refinements", json=wrong), 422, "invalid_request")
    assert found["errors"][0]["pointer"] == "/start_after"
    body = {**REQUEST, "start_after": start, "deadline": deadline, "priority": "batch"}
    snapshot = (await api.post("/v1/refinements", json=body)).json()
    assert (snapshot["status"], snapshot["start_after"]) == ("queued", start)
    assert snapshot["priority"] == "batch"


async def test_a_deadline_is_that_of_one_refinement(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    refinement_id = await ended(api, worker, deadline=at)
    url = f"/v1/refinements/{refinement_id}"
    assert (await api.get(f"{url}/request")).json()["deadline"] is not None
    following = (await api.post(f"{url}/continue", json={})).json()
    given = (await api.get(f"{following['links']['self']}/request")).json()
    assert given["deadline"] is None
