"""The outermost ASGI layer: gives each request an id, and logs it once it was answered."""

import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.telemetry import request_id, safe_request_id
from app.telemetry.metrics import REQUEST_SECONDS, REQUESTS

HEADER = b"x-request-id"
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})

log = logging.getLogger("hone.requests")


class Observed:
    """Adds `X-Request-Id` to each response, the client's own if it sent a usable one.

    One line is logged per request, also for a stream, when it ends: method, route, status, seconds,
    tenant, key, and the refinement that it is about.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == HEADER), None)
        own = safe_request_id(given)
        told = request_id.set(own)
        began, status, made = time.perf_counter(), 0, b""
        head_s = 0.0

        async def answer(message: Message) -> None:
            nonlocal status, made, head_s
            if message["type"] == "http.response.start":
                status, head_s = message["status"], time.perf_counter() - began
                headers = message["headers"]
                made = next((value for name, value in headers if name == b"location"), b"")
                message = {**message, "headers": [*headers, (HEADER, own.encode())]}
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            route = _route(scope)
            REQUESTS.labels(scope["method"], route, str(status or "none")).inc()
            REQUEST_SECONDS.labels(route).observe(head_s)
            if log.isEnabledFor(logging.INFO):
                seconds = time.perf_counter() - began
                log.log(
                    _level(scope, status), "request", extra=_fields(scope, status, seconds, made)
                )
            request_id.reset(told)


def _level(scope: Scope, status: int) -> int:
    if status >= 500:
        return logging.WARNING
    is_probe = scope["path"] in PROBES and status < 400
    return logging.DEBUG if is_probe else logging.INFO


def _fields(scope: Scope, status: int, seconds: float, made: bytes) -> dict[str, Any]:
    caller = scope.get("state", {}).get("caller")
    parameters = scope.get("path_params", {})
    return {
        "method": scope["method"],
        "route": _route(scope),
        "status": status or None,  # none if the client went first
        "seconds": round(seconds, 4),
        "tenant": getattr(caller, "tenant", None),
        "key": getattr(caller, "key_id", None),
        "refinement": parameters.get("refinement_id") or _id_in(made),
    }


def _route(scope: Scope) -> str:
    """Return the template of the path; of one that leads nowhere nothing is told."""
    return getattr(scope.get("route"), "path", None) or "(none)"


def _id_in(location: bytes) -> str | None:
    """Return the id of the refinement that was created."""
    before, _, last = location.decode("latin-1").rpartition("/v1/refinements/")
    return last if before == "" and last and "/" not in last else None
