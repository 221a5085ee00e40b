"""The outermost ASGI layer: gives each request an id, and logs it once it was answered."""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.telemetry import (
    NO_TRACES,
    Origin,
    TraceContext,
    Traces,
    TraceSpan,
    about_request,
    safe_request_id,
)
from app.telemetry.metrics import request_counter, request_seconds

HEADER = b"x-request-id"
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})

log = logging.getLogger("hone.requests")


class Observed:
    """Adds `X-Request-Id` to each response, the client's own if it sent a usable one.

    One line is logged per request, also for a stream, when it ends: method, route, status, seconds,
    tenant, key, and the refinement that it is about. A span is recorded for it, probes excepted, in
    the trace of the client, if it sent a valid `traceparent`.
    """

    def __init__(self, app: ASGIApp, traces: Traces = NO_TRACES) -> None:
        self._app = app
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        known_as, trace = _origin_of(scope["headers"])
        traces = NO_TRACES if scope["path"] in PROBES else self._traces
        attributes = {"http.request.method": scope["method"], "url.path": scope["path"]}
        with (
            about_request(known_as),
            traces.span(Origin(known_as, trace), scope["method"], "server", attributes) as span,
        ):
            await self._answer(scope, receive, send, known_as, span)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, known_as: str, span: TraceSpan
    ) -> None:
        began, status, made = time.perf_counter(), 0, b""
        head_s = 0.0

        async def answer(message: Message) -> None:
            nonlocal status, made, head_s
            if message["type"] == "http.response.start":
                status, head_s = message["status"], time.perf_counter() - began
                headers = message["headers"]
                made = next((value for name, value in headers if name == b"location"), b"")
                message = {**message, "headers": [*headers, (HEADER, known_as.encode())]}
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            route = _route(scope)
            request_counter(scope["method"], route, str(status or "none")).inc()
            request_seconds(route).observe(head_s)
            if span.is_recorded or log.isEnabledFor(logging.INFO):
                fields = _fields(scope, status, time.perf_counter() - began, made)
                if span.is_recorded:
                    _describe(span, fields)
                log.log(_level(scope, status), "request", extra=fields)


def _origin_of(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, TraceContext | None]:
    """Return the id of a request, and its place in a trace, if it has one."""
    given, parents, states = None, [], []
    for name, value in headers:
        if name == HEADER and given is None:
            given = value
        elif name == b"traceparent":
            parents.append(value)
        elif name == b"tracestate":
            states.append(value)
    if len(parents) != 1:
        return safe_request_id(given), None
    state = b",".join(states).decode("latin-1")
    return safe_request_id(given), TraceContext.read(parents[0].decode("latin-1"), state)


def _describe(span: TraceSpan, fields: Mapping[str, Any]) -> None:
    """Name a span as OpenTelemetry's conventions for HTTP servers ask, by the fields of the log."""
    status = fields["status"]
    span.set(
        {
            "http.route": fields["route"],
            "http.response.status_code": status,
            "hone.tenant": fields["tenant"],
            "hone.refinement.id": fields["refinement"],
        },
        name=f"{fields['method']} {fields['route']}",
        error=str(status) if status and status >= 500 else None,
    )


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
