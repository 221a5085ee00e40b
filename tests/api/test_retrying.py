"""`POST /v1/refinements/{id}/retry`, and how a retried refinement is watched and read."""

import asyncio
from typing import Any

import httpx
import pytest

from app.service.watching import BATCH
from app.store import WorkerStore
from tests.api.api_client import (
    DRAFT,
    ManualWorker,
    ended,
    problem,
    server_sent,
    submitted,
    watching,
)

CRITIQUE = "iterations/1/critique"


async def failed(api: httpx.AsyncClient, worker: WorkerStore, more_events: int = 0) -> str:
    """Submit and let a worker judge the draft, then fail at the next one; return its URL."""
    refinement_id = await submitted(api)
    manual = await ManualWorker.claim(worker, refinement_id)
    for number in range(more_events):
        await manual.start(f"step {number}")
    await manual.judge(0, DRAFT, 0.4)
    await manual.fail(CRITIQUE)
    return f"/v1/refinements/{refinement_id}"


async def go_on(worker: WorkerStore, url: str) -> None:
    """Let a worker claim it, judge a better draft and succeed."""
    manual = await ManualWorker.claim(worker, url.rpartition("/")[2])
    await manual.judge(1, "Better.", 0.9)
    await manual.complete()


async def test_a_failed_refinement_is_queued_under_the_limits_that_were_sent(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = await failed(api, worker)
    before = (await api.get(url)).json()
    assert before["links"]["retry"] == f"{url}/retry"
    assert before["error"]["steps"] == [CRITIQUE]
    response = await api.post(f"{url}/retry", json={"threshold": 0.5})
    assert response.status_code == 202
    retried = response.json()
    assert (retried["status"], retried["threshold"], retried["error"]) == ("queued", 0.5, None)
    (entry,) = (await events_of(api, url))[-1:]
    assert (entry["type"], entry["data"]["voided"]) == ("refinement.retried", [CRITIQUE])


@pytest.mark.parametrize("content", [b"", b"{}"])
async def test_a_body_is_not_required(
    api: httpx.AsyncClient, worker: WorkerStore, content: bytes
) -> None:
    url = await failed(api, worker)
    headers = {"Content-Type": "application/json"} if content else {}
    response = await api.post(f"{url}/retry", content=content, headers=headers)
    assert (response.status_code, response.json()["status"]) == (202, "queued")


async def test_another_status_is_a_conflict_that_says_what_to_do(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = f"/v1/refinements/{await ended(api, worker)}"
    detail = problem(await api.post(f"{url}/retry"), 409, "conflict")["detail"]
    assert "is succeeded" in detail
    assert "can be continued" in detail
    unknown = "/v1/refinements/ref_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"
    problem(await api.post(f"{unknown}/retry"), 404, "not_found")


async def test_wrong_limits_are_refused_and_change_nothing(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = await failed(api, worker)
    before = (await api.get(url)).json()
    for body in ({"max_iterations": 0}, {"draft": "mine"}, {"max_cost_usd": 0}):
        problem(await api.post(f"{url}/retry", json=body), 422, "invalid_request")
    problem(await api.post(f"{url}/retry", content=b"{}"), 415, "unsupported_media_type")
    assert (await api.get(url)).json() == before


async def test_a_retry_sent_again_with_its_key_takes_effect_once(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = await failed(api, worker)
    headers = {"Idempotency-Key": "retry-1"}
    first, again = [await api.post(f"{url}/retry", json={}, headers=headers) for _ in range(2)]
    assert first.json() == again.json()
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    other = await api.post(f"{url}/retry", json={"threshold": 0.1}, headers=headers)
    problem(other, 422, "idempotency_mismatch")


async def test_a_retry_can_be_waited_for_like_a_submission(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url, wait = await failed(api, worker), {"Prefer": "wait=30"}
    waiting = asyncio.create_task(api.post(f"{url}/retry", headers=wait))
    while (await api.get(url)).json()["status"] == "failed":  # noqa: ASYNC110 - it is in Redis
        await asyncio.sleep(0.01)
    await go_on(worker, url)
    ended = await waiting
    assert (ended.status_code, ended.json()["status"]) == (200, "succeeded")
    assert ended.headers["preference-applied"] == "wait=30"
    assert ended.headers["location"] == url
    url = await failed(api, worker)
    early = await api.post(f"{url}/retry", headers={"Prefer": "wait=0"})
    assert (early.status_code, early.json()["status"]) == (202, "queued")
    assert early.headers["retry-after"] == "1"


async def test_a_stream_ends_with_the_failure_and_a_reconnect_goes_on_after_a_retry(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = await failed(api, worker)
    refinement_id = url.rpartition("/")[2]
    async with watching(api, refinement_id) as events:
        seen = [event async for event in events]
    reconnect = {"Last-Event-ID": str(seen[-1].id)}
    assert seen[-1].event["data"] == (await api.get(url)).json()
    assert (await api.get(f"{url}/events", headers=reconnect)).status_code == 204
    await api.post(f"{url}/retry")
    async with watching(api, refinement_id, **reconnect) as events:
        live = [await anext(events)]
        await go_on(worker, url)
        live += [event async for event in events]
    assert [it.type for it in live][:2] == ["refinement.retried", "refinement.resumed"]
    assert live[-1].type == "refinement.completed"
    async with watching(api, refinement_id) as events:  # its batches hold 8 events
        assert [event async for event in events] == [*seen, *live]


async def test_a_stream_does_not_end_at_a_failure_that_fills_a_batch(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = await failed(api, worker, more_events=BATCH)
    ended_with = (await api.get(url)).json()["last_event"]
    await api.post(f"{url}/retry")
    await go_on(worker, url)
    last = (await api.get(url)).json()["last_event"]
    for after in range(ended_with):
        headers = {"Last-Event-ID": str(after)}
        async with api.stream("GET", f"{url}/events", headers=headers) as response:
            found = [event.id async for event in server_sent(response)]
        assert found == list(range(after + 1, last + 1))


async def test_a_long_poll_is_answered_by_the_retry(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = await failed(api, worker)
    tag = (await api.get(url)).headers["ETag"]
    headers = {"If-None-Match": tag}
    assert (await api.get(f"{url}?wait=30", headers=headers)).status_code == 304
    await api.post(f"{url}/retry")
    polled = await api.get(f"{url}?wait=30", headers=headers)
    assert (polled.status_code, polled.json()["status"]) == (200, "queued")
    waiting = asyncio.create_task(
        api.get(f"{url}?wait=30", headers={"If-None-Match": polled.headers["ETag"]})
    )
    await go_on(worker, url)
    assert (await waiting).status_code == 200


async def test_iterations_diff_and_report_show_one_history(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = await failed(api, worker)
    await api.post(f"{url}/retry", json={"max_iterations": 7})
    await go_on(worker, url)
    found = (await api.get(f"{url}/iterations")).json()["data"]
    assert [(it["path"], it["draft"]) for it in found][-1] == ("iterations/1", "Better.")
    paid = found[-1]["usage"]["calls"]
    assert paid == 3  # the draft, the failed critique and the critique
    assert (await api.get(f"{url}/diff?from=0&to=1")).status_code == 200
    report = (await api.get(f"{url}/report?format=md")).text
    assert "retried after `unreadable_critique`; 1 step voided" in report
    assert "maximum drafts from 3 to 7" in report
    assert "a worker was lost" not in report
    assert "**Passed.** The score is 0.90; the threshold is 0.85." in report


async def events_of(api: httpx.AsyncClient, url: str) -> list[dict[str, Any]]:
    page = await api.get(f"{url}/events", headers={"Accept": "application/json"})
    found: list[dict[str, Any]] = page.json()["data"]
    return found
