"""Cancel, finish, change and erase."""

import asyncio

import httpx
import pytest

from app.store import WorkerStore
from tests.api.api_client import (
    DRAFT,
    ManualWorker,
    ended,
    paused,
    problem,
    submitted,
    watching,
)


async def test_cancel_ends_at_once_what_no_worker_has_claimed(api: httpx.AsyncClient) -> None:
    url = f"/v1/refinements/{await submitted(api)}"
    response = await api.post(f"{url}/cancel")
    assert response.status_code == 202
    assert response.json()["status"] == "canceled"
    assert (await api.post(f"{url}/cancel")).status_code == 202


async def test_cancel_is_over_when_work_has_stopped(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = f"/v1/refinements/{(refinement_id := await submitted(api))}"
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, DRAFT, 0.4)
    assert (await api.post(f"{url}/cancel")).json()["status"] == "canceling"
    await manual.stop()
    snapshot = (await api.get(url)).json()
    assert (snapshot["status"], snapshot["stop_reason"]) == ("canceled", "canceled")
    assert snapshot["result"]["draft"] == DRAFT


@pytest.mark.parametrize("command", ["cancel", "finish"])
async def test_a_command_on_what_has_ended_is_a_conflict(
    api: httpx.AsyncClient, worker: WorkerStore, command: str
) -> None:
    refinement_id = await ended(api, worker)
    problem(await api.post(f"/v1/refinements/{refinement_id}/{command}"), 409, "conflict")


async def test_finish_is_journaled_once_a_draft_was_judged(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = f"/v1/refinements/{(refinement_id := await submitted(api))}"
    manual = await ManualWorker.claim(worker, refinement_id)
    before = (await api.post(f"{url}/finish")).json()["last_event"]
    assert before == 2
    await manual.judge(0, DRAFT, 0.4)
    judged = (await api.get(url)).json()["last_event"]
    assert (await api.post(f"{url}/finish")).json()["last_event"] == judged + 1
    assert (await api.post(f"{url}/finish")).json()["last_event"] == judged + 1


async def test_a_change_answers_with_the_limits_now_in_force(api: httpx.AsyncClient) -> None:
    url = f"/v1/refinements/{await submitted(api)}"
    limits = (await api.patch(url, json={"threshold": 0.5})).json()
    assert (limits["threshold"], limits["max_iterations"], limits["max_seconds"]) == (0.5, 3, 600)
    snapshot = (await api.get(url)).json()
    assert (snapshot["threshold"], snapshot["last_event"]) == (0.5, 2)


async def test_a_change_is_refused_like_any_other_body(api: httpx.AsyncClient) -> None:
    url = f"/v1/refinements/{await submitted(api)}"
    refused = problem(await api.patch(url, json={"patience": 3}), 422, "invalid_request")
    assert refused["errors"][0]["pointer"] == "/patience"


async def test_what_was_erased_is_a_404_and_its_watchers_streams_end(
    api: httpx.AsyncClient,
) -> None:
    refinement_id = await submitted(api)
    async with watching(api, refinement_id) as events:
        assert (await anext(events)).id == 1
        response = await api.delete(f"/v1/refinements/{refinement_id}")
        assert (response.status_code, response.content) == (204, b"")
        assert [event async for event in events] == []
    for method in ("GET", "DELETE"):
        problem(await api.request(method, f"/v1/refinements/{refinement_id}"), 404, "not_found")


async def test_a_long_poll_of_what_is_erased_is_a_404(api: httpx.AsyncClient) -> None:
    refinement_id = await submitted(api)
    polling = asyncio.create_task(api.get(f"/v1/refinements/{refinement_id}?wait=30"))
    await asyncio.sleep(0.2)
    await api.delete(f"/v1/refinements/{refinement_id}")
    problem(await polling, 404, "not_found")


async def test_a_pause_is_journaled_at_once_and_only_once(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api)
    url = f"/v1/refinements/{refinement_id}"
    asked = await api.post(f"{url}/pause", json={"timeout_s": 60})
    assert (asked.status_code, asked.json()["status"]) == (202, "queued")
    assert (await api.post(f"{url}/pause")).json() == asked.json()
    page = await api.get(f"{url}/events", headers={"Accept": "application/json"})
    assert [it["data"].get("pause_requested") for it in page.json()["data"]] == [None, True]
    problem(await api.post(f"{url}/pause", json={"timeout_s": 0}), 422, "invalid_request")
    refused = await api.post(f"{url}/pause", headers={"If-Match": '"1"'})
    problem(refused, 412, "precondition_failed")
    await api.post(f"{url}/finish")
    problem(await api.post(f"{url}/pause"), 409, "conflict")


SENT = {"cancel": None, "finish": None, "": {"threshold": 0.5}, "reviews": {"action": "approve"}}


@pytest.mark.parametrize("command", SENT)
async def test_a_command_about_another_version_is_refused_and_changes_nothing(
    api: httpx.AsyncClient, worker: WorkerStore, command: str
) -> None:
    url = f"/v1/refinements/{await paused(api, worker)}"
    now = (await api.get(url)).headers["etag"]
    method = "POST" if command else "PATCH"
    to = f"{url}/{command}" if command else url
    for tag in ('"1"', f"W/{now}", "nonsense", '"1", "2"'):
        headers = {"If-Match": tag}
        refused = await api.request(method, to, json=SENT[command], headers=headers)
        problem(refused, 412, "precondition_failed")
    assert (await api.get(url)).headers["etag"] == now
    headers = {"If-Match": f'"1", {now}'}
    assert (await api.request(method, to, json=SENT[command], headers=headers)).is_success
    assert (await api.get(url)).headers["etag"] != now


@pytest.mark.parametrize("headers", [{}, {"If-Match": "*"}])
async def test_without_a_version_a_command_is_about_any(
    api: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    url = f"/v1/refinements/{await submitted(api)}"
    assert (await api.post(f"{url}/cancel", headers=headers)).json()["status"] == "canceled"


async def test_a_review_that_is_sent_again_succeeds_although_the_version_has_changed(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = f"/v1/refinements/{await paused(api, worker)}"
    headers = {"If-Match": (await api.get(url)).headers["etag"], "Idempotency-Key": "r1"}
    for _ in range(2):
        sent = await api.post(f"{url}/reviews", json=SENT["reviews"], headers=headers)
        assert sent.status_code == 202


async def test_a_change_to_what_is_in_force_changes_nothing(api: httpx.AsyncClient) -> None:
    url = f"/v1/refinements/{await submitted(api)}"
    limits = (await api.patch(url, json={"threshold": 0.5})).json()
    before = (await api.get(url)).headers["ETag"]
    for change in ({"threshold": 0.5}, {"max_iterations": limits["max_iterations"]}, {}):
        again = await api.patch(url, json=change, headers={"Idempotency-Key": f"{change}"})
        assert (again.status_code, again.json()) == (200, limits)
    assert (await api.get(url)).headers["ETag"] == before


@pytest.mark.parametrize("first", [0.5, 0.8], ids=["changes", "is in force"])
async def test_a_change_that_comes_again_late_does_not_undo_a_later_one(
    api: httpx.AsyncClient, first: float
) -> None:
    url = f"/v1/refinements/{await submitted(api, threshold=0.8)}"
    with_key = {"Idempotency-Key": "change-1"}
    await api.patch(url, json={"threshold": first}, headers=with_key)
    await api.patch(url, json={"threshold": 0.9})
    again = await api.patch(url, json={"threshold": first}, headers=with_key)
    assert (again.status_code, again.json()["threshold"]) == (200, 0.9)
    other = await api.patch(url, json={"threshold": 0.1}, headers=with_key)
    problem(other, 422, "idempotency_mismatch")


@pytest.mark.parametrize("command", ["cancel", "finish"])
async def test_a_command_is_answered_again_after_the_end(
    api: httpx.AsyncClient, worker: WorkerStore, command: str
) -> None:
    url = f"/v1/refinements/{(refinement_id := await submitted(api))}"
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, DRAFT, 0.4)
    with_key = {"Idempotency-Key": "once"}
    assert (await api.post(f"{url}/{command}", headers=with_key)).status_code == 202
    await manual.complete() if command == "finish" else await manual.stop()
    last = (await api.get(url)).json()["last_event"]
    again = await api.post(f"{url}/{command}", headers=with_key)
    assert (again.status_code, again.json()["last_event"]) == (202, last)


async def test_a_pause_that_comes_again_late_does_not_pause_what_was_resumed(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = f"/v1/refinements/{await paused(api, worker)}"
    with_key = {"Idempotency-Key": "pause-1"}
    assert (await api.post(f"{url}/pause", headers=with_key)).status_code == 202
    resumed = (await api.post(f"{url}/reviews", json=SENT["reviews"])).json()
    again = (await api.post(f"{url}/pause", headers=with_key)).json()
    assert (again["status"], again["last_event"]) == ("queued", resumed["last_event"])
    other = await api.post(f"{url}/pause", json={"timeout_s": 61}, headers=with_key)
    problem(other, 422, "idempotency_mismatch")
