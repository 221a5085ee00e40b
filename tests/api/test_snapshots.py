"""Looking at one refinement."""

import asyncio

import httpx
import pytest

from app.store import WorkerStore
from tests.api.api_client import ManualWorker, ended, problem, submitted

NOBODY = "ref_00000000000000000000000000"


async def test_the_tag_is_the_last_event_and_spares_the_body(api: httpx.AsyncClient) -> None:
    url = f"/v1/refinements/{await submitted(api)}"
    first = await api.get(url)
    assert first.headers["etag"] == f'"{first.json()["last_event"]}"'
    same = await api.get(url, headers={"If-None-Match": first.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["etag"] == first.headers["etag"]
    assert (await api.get(url, headers={"If-None-Match": '"99"'})).status_code == 200


@pytest.mark.parametrize("known", [True, False])
async def test_wait_holds_the_request_until_there_is_news(
    api: httpx.AsyncClient, worker: WorkerStore, known: bool
) -> None:
    refinement_id = await submitted(api)
    headers = {"If-None-Match": '"1"'} if known else {}
    polling = asyncio.create_task(
        api.get(f"/v1/refinements/{refinement_id}?wait=30", headers=headers)
    )
    await asyncio.sleep(0.2)
    assert not polling.done()
    await ManualWorker.claim(worker, refinement_id)
    response = await polling
    assert response.status_code == 200
    assert response.json()["status"] == "running"


async def test_a_wait_without_news_is_a_304_only_for_clients_that_have_the_snapshot(
    api: httpx.AsyncClient,
) -> None:
    url = f"/v1/refinements/{await submitted(api)}?wait=0.2"
    first = await api.get(url)
    assert (first.status_code, first.json()["status"]) == (200, "queued")
    known = await api.get(url, headers={"If-None-Match": first.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")
    assert known.headers["etag"] == '"1"'


async def test_what_has_ended_is_not_waited_for(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    url = f"/v1/refinements/{await ended(api, worker)}?wait=60"
    response = await api.get(url)
    assert response.status_code == 200
    same = await api.get(url, headers={"If-None-Match": response.headers["etag"]})
    assert same.status_code == 304


async def test_the_result_is_shown_once_it_has_ended(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    snapshot = (await api.get(f"/v1/refinements/{await ended(api, worker)}")).json()
    assert snapshot["status"] == "succeeded"
    assert snapshot["result"]["draft"] == "Draft 1."
    assert snapshot["result"]["sha256"] == snapshot["best"]["sha256"]


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "inf", "x", ""])
async def test_a_wait_is_0_to_60_seconds(api: httpx.AsyncClient, wait: str) -> None:
    refinement_id = await submitted(api)
    problem(await api.get(f"/v1/refinements/{refinement_id}?wait={wait}"), 422, "invalid_request")


@pytest.mark.parametrize("refinement_id", [NOBODY, "x", "ref_", "%00", "ref_%2e%2e", "\u2028" * 9])
@pytest.mark.parametrize("rest", ["", "/events", "/iterations", "/request", "/diff?from=0&to=1"])
async def test_what_is_not_there_is_a_404(
    api: httpx.AsyncClient, refinement_id: str, rest: str
) -> None:
    problem(await api.get(f"/v1/refinements/{refinement_id}{rest}"), 404, "not_found")
