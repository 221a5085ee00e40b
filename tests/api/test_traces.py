"""The trace of a client: accepted at submission, stored with the refinement, and passed on."""

import json

import httpx
from aiohttp import web

from app.main import create_app
from app.queue import RefinementQueue
from app.service.watching import Shutdown
from app.settings import Settings
from app.store import WorkerStore, open_store
from app.telemetry import Origin, TraceContext
from tests.api.api_client import REQUEST, ended
from tests.api.conftest import running
from tests.local_endpoint import SECRET, answering_with, endpoint
from tests.telemetry.collector import RecordedSpans
from tests.waiting import TIMEOUT_S
from workers.webhooks import WebhookSender

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
TRACED = {"traceparent": PARENT, "tracestate": "vendor=1", "X-Request-Id": "mine-7"}


async def origin_of(worker: WorkerStore, refinement_id: str) -> Origin:
    return Origin.decode((await worker.load(refinement_id)).origin)


async def test_request_id_and_trace_of_a_submission_are_stored_with_the_refinement(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    made = await api.post("/v1/refinements", json=REQUEST, headers=TRACED)
    found = await origin_of(worker, made.json()["id"])
    assert found == Origin("mine-7", TraceContext(PARENT, "vendor=1"))


async def test_an_invalid_traceparent_is_ignored_as_the_standard_demands(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    given = {"traceparent": "00-nothing", "X-Request-Id": "mine-7"}
    made = await api.post("/v1/refinements", json=REQUEST, headers=given)
    assert made.status_code == 202
    assert await origin_of(worker, made.json()["id"]) == Origin("mine-7")


async def test_the_span_of_the_request_stands_between_client_and_worker(
    settings: Settings, worker: WorkerStore, redis_url: str
) -> None:
    recorded, shutdown = RecordedSpans(), Shutdown()
    with running(settings, create_app(settings, shutdown, recorded.traces)) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            made = await client.post("/v1/refinements", json=REQUEST, headers=TRACED)
            await client.get("/healthz")
            found = await origin_of(worker, made.json()["id"])
    (span,) = recorded.ended
    assert span.context is not None
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == SPAN
    assert found.trace is not None
    assert found.trace.traceparent == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert span.name == "POST /v1/refinements"
    assert dict(span.attributes or {}) == {
        "http.request.method": "POST",
        "url.path": "/v1/refinements",
        "http.route": "/v1/refinements",
        "http.response.status_code": 202,
        "hone.tenant": "default",
        "hone.refinement.id": made.json()["id"],
    }


async def test_refinements_of_a_batch_refer_to_its_trace(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    line = json.dumps({"custom_id": "a", "request": REQUEST}).encode()
    headers = {**TRACED, "Content-Type": "application/jsonl"}
    batch = (await api.post("/v1/batches", content=line, headers=headers)).json()
    await worker.feed_batches()
    (one,) = (await api.get(batch["links"]["refinements"])).json()["data"]
    found = await origin_of(worker, one["id"])
    assert found == Origin("mine-7", TraceContext(PARENT, "vendor=1"), is_link=True)


async def test_a_webhook_belongs_to_the_trace_of_the_submission(
    keyed: Settings, keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore
) -> None:
    keyed_api.headers.update(TRACED)
    recorded = RecordedSpans()
    async with (
        endpoint(answering_with("")) as (url, asked, client),
        open_store(keyed, RefinementQueue(keyed.queue)) as store,
    ):
        await ended(keyed_api, keyed_worker, webhook={"url": url, "secret": SECRET})
        (taken,) = await store.webhooks.lease_due(1, 60)
        await WebhookSender(store, store.webhooks, client, traces=recorded.traces).send(taken)
    (span,) = recorded.ended
    assert span.context is not None
    assert sent_in(asked[0]) == (f"00-{TRACE}-{span.context.span_id:016x}-01", "vendor=1")
    assert dict(span.attributes or {}).items() >= {"http.response.status_code": 200}.items()


def sent_in(request: web.Request) -> tuple[str, str]:
    return request.headers["traceparent"], request.headers["tracestate"]
