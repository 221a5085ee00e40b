"""Requests are answered directly, and as the framework would have answered them."""

from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api import administration, routes, webhooks
from app.api.dispatch import TRACED, Dispatcher, is_direct
from app.main import create_app
from app.settings import Settings
from tests.api.api_client import submitted
from tests.api.conftest import running
from tests.waiting import TIMEOUT_S

ROUTERS = (
    routes.refinements,
    routes.journal,
    routes.server,
    administration.keys,
    administration.tokens,
    administration.tenants,
    administration.audit,
    webhooks.deliveries,
    webhooks.endpoints,
)
UNKNOWN = "ref_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"
JSON = {"content-type": "application/json"}

REQUESTS: tuple[tuple[str, str, dict[str, str], bytes], ...] = (
    ("GET", "{ref}", {}, b""),
    ("GET", "{ref}?wait=0", {"if-none-match": '"1"'}, b""),
    ("GET", "{ref}", {"if-none-match": '"x", W/"1"'}, b""),
    ("GET", "{ref}?wait=61", {}, b""),
    ("GET", "{ref}?wait=nan&wait=x", {}, b""),
    ("HEAD", "{ref}", {}, b""),
    ("PUT", "{ref}", {}, b""),
    ("GET", "/v1/refinements/nonsense", {}, b""),
    ("GET", f"/v1/refinements/{UNKNOWN}", {}, b""),
    ("GET", "/v1/refinements/", {}, b""),
    ("GET", "{ref}/", {}, b""),
    ("GET", "{ref}/nothing", {}, b""),
    ("GET", "{ref}/events?limit=1", {"accept": "application/json"}, b""),
    ("GET", "{ref}/events?limit=1&limit=0", {"accept": "application/json"}, b""),
    ("GET", "{ref}/events?limit=0&deltas=perhaps", {}, b""),
    ("GET", "{ref}/events", {"accept": "text/html"}, b""),
    ("GET", "{ref}/events", {"last-event-id": "x"}, b""),
    ("GET", "{ref}/events?after=7", {}, b""),
    ("GET", "{ref}/iterations?path=stages", {}, b""),
    ("GET", "{ref}/iterations/x", {}, b""),
    ("GET", "{ref}/diff", {}, b""),
    ("GET", "{ref}/report?format=pdf", {}, b""),
    ("GET", "{ref}/request", {}, b""),
    ("GET", "/v1/refinements?status=odd&limit=1000", {}, b""),
    ("GET", "/v1/refinements?metadata.a=b&odd=1", {}, b""),
    ("GET", "/v1/insights?since=yesterday", {}, b""),
    ("GET", "/v1/strategies", {}, b""),
    ("GET", "/healthz", {}, b""),
    ("GET", "/nothing", {}, b""),
    ("POST", "/v1/refinements", JSON, b"{}"),
    ("POST", "/v1/refinements", JSON, b"{"),
    ("POST", "/v1/refinements", {"content-type": "text/plain"}, b"{}"),
    ("POST", "/v1/refinements", {**JSON, "idempotency-key": "x" * 300}, b"{}"),
    ("POST", "{ref}/retry", {}, b""),
    ("POST", "{ref}/reviews", JSON, b'{"action": "approve"}'),
    ("DELETE", f"/v1/refinements/{UNKNOWN}", {}, b""),
)


class FrameworkOnRequest:
    """Lets FastAPI answer a request with the header `x-framework`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if any(name == b"x-framework" for name, _ in scope.get("headers", ())):
            scope[TRACED] = None
        await self._app(scope, receive, send)


@pytest.fixture
async def either(settings: Settings, redis_url: str) -> AsyncIterator[httpx.AsyncClient]:
    app = cast("Any", FrameworkOnRequest(create_app(settings)))
    with running(settings, app) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            yield client


def test_every_operation_is_called_directly() -> None:
    left = [route for router in ROUTERS for route in router.routes if not is_direct(route)]
    assert left == []


async def test_an_answer_is_that_of_the_framework(either: httpx.AsyncClient) -> None:
    ref = f"/v1/refinements/{await submitted(either)}"
    for method, path, headers, content in REQUESTS:
        answers = []
        for more in ({}, {"x-framework": "yes"}):
            answer = await either.request(
                method, path.format(ref=ref), headers=headers | more, content=content
            )
            varying = {"date", "x-request-id"}
            shown = {name: it for name, it in answer.headers.items() if name not in varying}
            answers.append((answer.status_code, shown, answer.content))
        assert answers[0] == answers[1], (method, path)


async def test_a_route_that_needs_the_framework_is_left_to_it() -> None:
    async def background(request: Request, _session: str = "") -> str:
        path: str = request.scope["route"].path
        return path

    def blocking() -> dict[str, str]:
        return {}

    router = APIRouter()
    router.add_api_route("/a", background)
    router.add_api_route("/b", blocking)
    router.add_api_route("/c/{rest:path}", background)
    router.add_api_route("/d/e", blocking)
    router.add_api_route("/d/{name}", background)  # direct, and not to answer for the one above
    assert [is_direct(route) for route in router.routes] == [True, False, False, False, True]
    app = FastAPI()
    app.include_router(router)
    app.add_middleware(Dispatcher, api=app, routes=router.routes)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert [(await client.get(path)).status_code for path in ("/a", "/b", "/c/d/e")] == [
            200
        ] * 3
        assert (await client.get("/d/e")).json() == {}
