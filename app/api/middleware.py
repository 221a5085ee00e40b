"""The middleware that each request passes before its route, in this order.

`Observed` gives the request an id and logs it once it was answered. `Boundary` says which hosts,
origins and bodies are let in, and adds response headers. `AccessControl` lets in callers with the
scope that the operation needs. `InCell` has the request answered in the cell of what it is about;
it is there only where there are several cells.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from ipaddress import ip_address
from math import inf
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.callers import Caller, Directory, KeyEnded, Metering, RequestsLeft, may_be_key
from app.access.signed import session_in
from app.api.dependencies import idempotency_key
from app.api.problems import OPENAI, RATE_LIMIT, CrossSite, Misdirected, is_openai, response_of
from app.contract import access
from app.contract.access import OPERATOR
from app.contract.errors import (
    BodyTooLarge,
    Forbidden,
    HoneError,
    MalformedHeader,
    Overloaded,
    Unauthenticated,
)
from app.settings import Settings, listens_on_loopback
from app.store.cell_records import missing
from app.store.cells import Cells
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

REQUEST_ID = b"x-request-id"
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
                message = {**message, "headers": [*headers, (REQUEST_ID, known_as.encode())]}
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
        if name == REQUEST_ID and given is None:
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
    _, found, last = location.decode("latin-1").rpartition("/v1/refinements/")
    return last if found and "/" not in last else None


DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}


class Sender(Enum):
    """What a request comes from."""

    NO_PAGE = auto()
    """A program, or a person who has typed the address."""

    OWN_PAGE = auto()
    FOREIGN_PAGE = auto()


def sender_of(scope: Scope) -> Sender:
    """Return what a request comes from, as its browser says.

    `Sec-Fetch-Site` tells (W3C Fetch Metadata). Browsers send it over TLS and to loopback only;
    else `Origin` tells, which they send with every request that may have an effect. The
    scheme of the scope must be the one that the browser sees, which a proxy may have changed.
    """
    headers = dict(scope["headers"])
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site == b"same-origin":
        return Sender.OWN_PAGE
    if site not in {None, b"none"}:
        return Sender.FOREIGN_PAGE
    if origin is None:
        return Sender.NO_PAGE
    scheme, _, authority = origin.lower().partition(b"://")
    port = DEFAULT_PORTS.get(scheme)
    host = headers.get(b"host", b"").lower()
    is_own = (
        port is not None
        and scheme == str(scope.get("scheme", "http")).encode()
        and authority.removesuffix(port) == host.removesuffix(port)
    )
    return Sender.OWN_PAGE if is_own else Sender.FOREIGN_PAGE


OPENED_IN_A_TURN = 8
"""How many event streams are opened in one turn of the event loop."""

HOST = re.compile(
    rb"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::[0-9]{0,5})?", re.IGNORECASE
)
FORWARDED_SCHEME = re.compile(rb'[^,]*\bproto="?([a-z]+)', re.IGNORECASE)
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
BATCHES = "/v1/batches"
MOST_KNOWN = 1_000
LARGEST_AT_ONCE = 8
"""Bodies of the greatest size that may arrive at the same time, or more that are smaller."""
BODIES_OF_A_BATCH = 32
"""How many times the greatest size of another body the body of a batch may have."""

SMALL = 65_536
RETRY_AFTER_S = 1

RawHeaders = list[tuple[bytes, bytes]]

NOSNIFF = (b"x-content-type-options", b"nosniff")
NO_STORE = (b"cache-control", b"no-store")
OWN_PAGES_ONLY = (b"cross-origin-resource-policy", b"same-origin")
NOT_IN_FRAMES = (b"content-security-policy", b"frame-ancestors 'none'")
"""An `<object>` of a foreign page that may not be shown fails, whatever the status is."""

OF_OPENAI = (
    *("Arch", "Async", "Helper-Method", "Lang", "OS", "Package-Version", "Poll-Helper"),
    *("Retry-Count", "Runtime", "Runtime-Version", "Timeout"),
)
"""What OpenAI's libraries say about themselves in headers."""

MAY_BE_READ = (
    b"ETag, Idempotency-Replayed, Link, Location, Preference-Applied, RateLimit, RateLimit-Policy,"
    b" Retry-After, WWW-Authenticate, X-Request-Id"
)
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Accept, Authorization, Content-Type, Idempotency-Key,"
    " If-Match, If-None-Match, Last-Event-ID, Prefer"
    + "".join(f", X-Stainless-{about}" for about in OF_OPENAI),
    "Access-Control-Max-Age": "7200",
}


@dataclass(frozen=True, slots=True)
class HostNames:
    """The names and addresses by which a server that listens on `host` is known.

    On loopback these are the names and addresses of loopback; elsewhere also every other IP
    address, because a page that reaches the server by DNS rebinding has a name. `allowed` adds
    names: `hone.example.com`, `*.example.com` or, for any, `*`.
    """

    host: str
    allowed: frozenset[str]

    def has(self, name: str) -> bool:
        """Return whether a name, or an address without brackets, is one of them."""
        name = name.lower().rstrip(".")
        parents = (f"*.{name.split('.', dots)[-1]}" for dots in range(1, name.count(".") + 1))
        if name in self.allowed or "*" in self.allowed or not self.allowed.isdisjoint(parents):
            return True
        try:
            return ip_address(name).is_loopback or not listens_on_loopback(self.host)
        except ValueError:
            return name == "localhost" or name.endswith(".localhost") or name == self.host.lower()


@dataclass(slots=True)
class _Head:
    """What the boundary reads of a request's headers."""

    hosts: int = 0
    host: bytes = b""
    origin: bytes | None = None
    is_of_browser: bool = False  # which says what page it is of
    is_preflight: bool = False
    scheme: bytes | None = None  # that the browser sees, as a proxy says
    length: int | None = None  # the announced length of the body
    has_body: bool = False


def _read(headers: RawHeaders) -> _Head:
    head = _Head()
    for name, value in headers:
        if name == b"host":
            head.hosts += 1
            head.host = value
        elif name == b"origin":
            head.origin = value
            head.is_of_browser = True
        elif name == b"sec-fetch-site":
            head.is_of_browser = True
        elif name == b"content-length":
            head.has_body = True
            head.length = int(value) if value.isdigit() else None
        elif name == b"transfer-encoding":
            head.has_body = True
        elif name == b"access-control-request-method":
            head.is_preflight = True
        elif name == b"x-forwarded-proto":
            head.scheme = value.partition(b",")[0].strip().lower()
        elif name == b"forwarded" and head.scheme is None:
            said = FORWARDED_SCHEME.match(value)
            head.scheme = said[1].lower() if said else None
    return head


class _Arriving:
    """The bodies that have not been read yet: how large one may be, and all of them together."""

    def __init__(self, max_bytes: int, most_at_once: float | None = None) -> None:
        self._max_bytes = max_bytes
        self._most_at_once = LARGEST_AT_ONCE * max_bytes if most_at_once is None else most_at_once
        self._total = 0

    def require_room_for_one(self, size: int) -> None:
        """Raise BodyTooLarge if no body may have that size."""
        if size > self._max_bytes:
            raise BodyTooLarge(
                f"the body must have at most {self._max_bytes} bytes;"
                " HONE_MAX_BODY_BYTES sets how many"
            )

    def add(self, size: int, of: int) -> None:
        """Add the next bytes of a body that now has `of`; raise BodyTooLarge or Overloaded.

        Bodies of at most 64 KiB are not refused for what others send.
        """
        self._total += size
        self.require_room_for_one(of)
        if self._total > self._most_at_once and of > SMALL:
            raise Overloaded("too many large bodies arrive at once", retry_after_s=RETRY_AFTER_S)

    def remove(self, size: int) -> None:
        """Remove a body, or a part of one."""
        self._total -= size


class _Body:
    """Receives a body, and counts it among those that arrive until it has been read.

    A body announced as too large is refused only when it is read, after authentication, so unknown
    callers get 401 instead of 413.
    """

    def __init__(self, receive: Receive, arriving: _Arriving, announced: int) -> None:
        self._receive = receive
        self._arriving = arriving
        self._announced = announced
        self._size = 0
        self._counted = 0

    async def receive(self) -> Message:
        """Return the next message of the request; raise BodyTooLarge or Overloaded."""
        self._arriving.require_room_for_one(self._announced)
        message = await self._receive()
        if size := len(message.get("body", b"")):
            self._size += size
            self._counted += size
            self._arriving.add(size, self._size)
        if not message.get("more_body") and self._counted:
            asyncio.get_running_loop().call_soon(self.has_been_read)  # it is parsed at once
        return message

    def has_been_read(self) -> None:
        """Count it no longer."""
        self._arriving.remove(self._counted)
        self._counted = 0


class Boundary:
    """ASGI layer in front of everything else.

    It answers 400 and 421 to requests for another host (DNS rebinding), 403 to state-changing
    requests of foreign web pages, 413 to bodies that are too large, 503 if too many large ones
    arrive at once, and preflight requests of the
    origins in `HONE_CORS_ORIGINS`. It answers HEAD as GET without the body, adds the root path, and
    forbids browsers to store responses, to guess their types, and to embed them in foreign pages.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._names = HostNames(settings.host, frozenset(settings.allowed_hosts.lower().split()))
        self._known: set[bytes] = set()
        self._origins = frozenset(settings.cors_origins.lower().encode().split())
        self._root = settings.root_path
        self._opening = asyncio.Semaphore(OPENED_IN_A_TURN)
        self._arriving = _Arriving(settings.max_body_bytes)
        self._batches = _Arriving(BODIES_OF_A_BATCH * settings.max_body_bytes, inf)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"].endswith("/events"):
            async with self._opening:  # few in a turn of the event loop: thousands hold up no other
                await asyncio.sleep(0)
        head = _read(scope["headers"])
        if self._root:
            scope = self._rooted(scope)
        if head.scheme in DEFAULT_PORTS:
            # No foreign page can say it: its browser would ask first, with a preflight.
            scope = {**scope, "scheme": head.scheme.decode()}
        answer = self._answering(head, send)
        arriving = self._arriving_with(scope)
        try:
            self._require_known_host(head)
            self._require_own_page(head, scope)
            if scope["method"] in SAFE:  # no route reads its body
                arriving.require_room_for_one(head.length or 0)
        except HoneError as refusal:
            await response_of(refusal, scope)(scope, receive, answer)
            return
        if head.is_preflight and head.origin in self._origins and scope["method"] == "OPTIONS":
            await Response(status_code=204, headers=PREFLIGHT)(scope, receive, answer)
            return
        if scope["method"] == "HEAD":
            scope, answer = {**scope, "method": "GET", "is_head": True}, _without_body(answer)
        if not head.has_body or scope["method"] in SAFE:
            await self._app(scope, receive, answer)
            return
        body = _Body(receive, arriving, head.length or 0)
        try:
            await self._app(scope, body.receive, answer)
        finally:
            body.has_been_read()

    def _rooted(self, scope: Scope) -> Scope:
        """Return the scope with the root path, which a proxy may have stripped off the path."""
        path: str = scope["path"]
        if path != self._root and not path.startswith(f"{self._root}/"):
            path = self._root + path
        return {**scope, "root_path": self._root, "path": path}

    def _rooted_location(self, headers: RawHeaders) -> RawHeaders:
        if not self._root:
            return headers
        root = self._root.encode()
        return [
            (name, root + value if name == b"location" and value.startswith(b"/v1/") else value)
            for name, value in headers
        ]

    def _require_known_host(self, head: _Head) -> None:
        if head.hosts == 1 and head.host in self._known:
            return
        if head.hosts != 1:
            raise MalformedHeader(f"a request must have one Host header; this one has {head.hosts}")
        read = HOST.fullmatch(head.host)
        if read is None or len(head.host) > 300:
            raise MalformedHeader("Host must be a name or an address, with or without a port")
        name = (read["v6"] or read["name"]).decode()
        if not self._names.has(name):
            raise Misdirected(
                f"this server is not known as {name}; the setting HONE_ALLOWED_HOSTS adds names"
            )
        if len(self._known) < MOST_KNOWN:
            self._known.add(head.host)

    def _require_own_page(self, head: _Head, scope: Scope) -> None:
        """Raise CrossSite for a state-changing request of a page that is not of this server."""
        if scope["method"] in SAFE or not head.is_of_browser or head.origin in self._origins:
            return
        if sender_of(scope) is Sender.FOREIGN_PAGE:
            raise CrossSite(
                "the request comes from a page of another origin; the setting HONE_CORS_ORIGINS"
                " allows origins, and a proxy that ends TLS must send X-Forwarded-Proto"
            )

    def _arriving_with(self, scope: Scope) -> _Arriving:
        """Return the bodies among which this one counts; a batch is read as a stream."""
        return self._batches if scope["path"] == self._root + BATCHES else self._arriving

    def _answering(self, head: _Head, send: Send) -> Send:
        """Return a `send` that adds the headers of every response."""
        extra = [NOSNIFF]
        if self._origins:
            extra.append((b"vary", b"Origin"))
        if head.origin is not None and head.origin in self._origins:
            extra.append((b"access-control-allow-origin", head.origin))
            extra.append((b"access-control-expose-headers", MAY_BE_READ))
        else:
            extra.append(OWN_PAGES_ONLY)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], *extra]
                given = {name for name, _ in headers}
                headers += [
                    header for header in (NO_STORE, NOT_IN_FRAMES) if header[0] not in given
                ]
                message = {**message, "headers": self._rooted_location(headers)}
            await send(message)

        return answer


def _without_body(answer: Send) -> Callable[[Message], Awaitable[None]]:
    """Return a `send` that ends the response after its head, also if it is a stream."""

    async def head_only(message: Message) -> None:
        if message["type"] == "http.response.start":
            await answer(message)
            await answer({"type": "http.response.body", "body": b""})

    return head_only


OPEN = ("/", "/healthz", "/openapi.json", "/docs", "/console")
"""What needs no key: it says nothing about any tenant, and how to get in."""

PAGES = ("/docs/", "/console/")
SESSION = "/console/session"
"""Reading it tells who the caller is; signing in and out need no key yet, or no longer."""

ADMINISTRATION = ("/metrics/", "/v1/keys/", "/v1/tenants/", "/v1/audit/")
READ_METHODS = ("GET", "HEAD")
REVIEWING = re.compile(r"/v1/refinements/[^/]+/(?:reviews|ratings)")
READING = re.compile(r"/v1/refinements/[^/]+/tokens")
"""Whole paths: the last segment of another path may be a name that a client has chosen."""

WITHOUT_EFFECT = ("/v1/estimates",)
NOT_FOR_TOKENS = ("/request", "/webhooks")
"""What has the addresses of endpoints, which the page of a reader has no use for."""

TOKEN = b"token="
NO_KEY = "none"
"""What `Hone-Session` says of a page that was loaded without a session."""

FORWARDED = frozenset(
    (
        b"via", b"forwarded", b"x-forwarded", b"forwarded-for", b"x-real-ip", b"x-client-ip",
        b"client-ip", b"true-client-ip", b"x-true-client-ip", b"cf-connecting-ip",
        b"cf-connecting-ipv6", b"cf-ray", b"x-cluster-client-ip", b"x-original-forwarded-for",
        b"x-original-host", b"x-original-url", b"x-envoy-external-address", b"fastly-client-ip",
        b"fly-client-ip", b"x-azure-clientip", b"x-azure-socketip", b"x-appengine-user-ip",
        b"do-connecting-ip", b"x-proxyuser-ip", b"proxy-client-ip", b"wl-proxy-client-ip",
        b"x-sourceip-address", b"cdn-loop", b"x-amzn-trace-id", b"x-scheme", b"x-host",
        b"front-end-https", b"tailscale-user-login",
    )
)  # fmt: skip
"""Header fields that proxies add, as far as they are known; and all that begin as below."""

FORWARDED_PREFIXES = (b"x-forwarded-", b"x-envoy-", b"cf-", b"x-azure-", b"x-vercel-")
LOOPBACK = HostNames("127.0.0.1", frozenset())
BEARER = b"bearer "
MANAGED = "managed"
"""In the state of a request: the tenant that an administrator manages, or whose log it reads."""

RECORDED = (401, 403, 429)
CHALLENGE = {"WWW-Authenticate": "Bearer"}  # RFC 9110, 15.5.2
TRUSTED_S = 1.0
"""Seconds for which it holds that a key works; a longer wait asks again before it answers."""


def scope_needed(method: str, path: str) -> access.Scope | None:
    """Return the scope that a request needs, or None if it needs no key.

    `path` is a path or the template of a route; both need the same.
    """
    if path == SESSION:
        return access.Scope.READ if method in READ_METHODS else None
    if path in OPEN or path.startswith(PAGES):
        return None
    if f"{path}/".startswith(ADMINISTRATION):
        return access.Scope.ADMIN
    if method in READ_METHODS or READING.fullmatch(path):
        return access.Scope.READ
    return access.Scope.REVIEW if REVIEWING.fullmatch(path) else access.Scope.SUBMIT


class _NothingMore(ClientDisconnect):
    """Ends a response as if the client had gone."""


class AccessControl:
    """ASGI layer that answers 401 or 403, or passes the caller on in the state of the request.

    A response that goes on, such as an event stream, ends when the key stops working.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = routed_path(scope)
        needed = scope_needed(scope["method"], path)
        if needed is None:
            await self._app(scope, receive, send)
            return
        directory: Directory = scope["state"]["directory"]
        fields: Mapping[str, str] = {}
        caller: Caller | None = None
        try:
            caller = await _caller(directory, scope)
            if (left := await _counted(scope["state"], caller)) is not None:
                fields = scope["state"][RATE_LIMIT] = left.headers()
                left.require()
            _require(needed, caller, scope["method"], path)
        except HoneError as error:
            _count_refused(scope, caller, error)
            if isinstance(error, Unauthenticated):
                fields = CHALLENGE
            await response_of(error, scope, fields)(scope, receive, send)
            return
        scope["state"]["caller"] = caller
        response = _Response(scope, caller, fields, send)
        with suppress(_NothingMore):
            await self._app(scope, receive, response.send)
        if response.refusal is not None:
            _count_refused(scope, caller, response.refusal)
            await response_of(response.refusal, scope, CHALLENGE)(scope, receive, send)


def _count_refused(scope: Scope, caller: Caller | None, error: HoneError) -> None:
    """Count a refusal for the audit log if the key is known."""
    metering: Metering = scope["state"]["metering"]
    if isinstance(error, KeyEnded):
        metering.refused(error.record.tenant, error.record.id, error.status)
    elif caller is not None and caller.key_id is not None and error.status in RECORDED:
        metering.refused(caller.tenant, caller.key_id, error.status)


async def _caller(directory: Directory, scope: Scope) -> Caller:
    """Return who a request comes from: by its key, its token, or the session of its browser."""
    sent = _credentials(scope)
    token = _token_in_query(scope) if TOKEN in scope["query_string"] else None
    if sent.key is None and token is not None:
        return await directory.reader(token)
    if sent.key is None and sent.session is not None:
        _require_own_page(scope, sent.expected)
        if (caller := await directory.in_session(sent.session)) is not None:
            return _expected(caller, sent.expected)
    key = sent.key
    if key and is_openai(scope) and directory.is_open and not may_be_key(key):
        key = None  # OpenAI's libraries send one in any case
    caller = await directory.caller(key, is_forwarded=sent.is_forwarded)
    return caller if key is not None else _expected(caller, sent.expected)


def _require_own_page(scope: Scope, key_id: bytes | None) -> None:
    """Raise CrossSite unless a session may be used: browsers add its cookie to requests of others.

    A person who types an address sends a request without a page; only safe methods are allowed
    then. A request that changes something must name the key in `Hone-Session`.
    """
    sender = sender_of(scope)
    is_read = scope["method"] in READ_METHODS and sender is Sender.NO_PAGE
    if sender is not Sender.OWN_PAGE and not is_read:
        raise CrossSite(
            "a session works for the pages of this server only: open it from the console, or send"
            " an API key"
        )
    if scope["method"] not in READ_METHODS and key_id is None:
        raise CrossSite("the page does not say for which key it acts (`Hone-Session`): reload it")


def _expected(caller: Caller, key_id: bytes | None) -> Caller:
    """Return the caller if it is who the page acts as, as `Hone-Session` says.

    All tabs of a browser share its cookie: a page must not act as who has signed in since.
    """
    if key_id is not None and key_id != (caller.key_id or NO_KEY).encode():
        raise Unauthenticated(
            "another key has signed in, or this one out, in this browser since the page was loaded"
        )
    return caller


async def _counted(state: dict[str, Any], caller: Caller) -> RequestsLeft | None:
    """Count the request if there is a quota."""
    if (most := caller.quotas.requests_per_minute) is None:
        return None
    metering: Metering = state["metering"]
    directory: Directory = state["directory"]
    return await metering.count_request(caller.tenant, most, directory.now_ms())


class _Response:
    """Passes a response on for as long as its caller is let in, with the fields of its quotas."""

    def __init__(self, scope: Scope, caller: Caller, fields: Mapping[str, str], send: Send) -> None:
        self._directory: Directory = scope["state"]["directory"]
        self._metering: Metering = scope["state"]["metering"]
        self._scope = scope
        self._caller = caller
        self._fields = [(name.encode(), said.encode()) for name, said in fields.items()]
        self._send = send
        self._sent = 0
        self._let_in_at = asyncio.get_running_loop().time()
        self.refusal: HoneError | None = None
        """What is to be answered in place of what the route answered."""

    async def send(self, message: Message) -> None:
        """Send a part of the response; raise _NothingMore if no more may be sent."""
        if self.refusal is not None:
            if message.get("more_body", False):
                raise _NothingMore
            return
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *self._fields]
            if self._caller.key_id:
                await self._record(message, self._caller.key_id)
            if self._caller.key_id and message["status"] in RECORDED:
                tenant, by = self._caller.tenant, self._caller.key_id
                self._metering.refused(tenant, by, message["status"])
            self.refusal = await self._ended_meanwhile()
            if self.refusal is not None:
                return
        # The first parts of a response were produced at once after the caller was let in.
        elif self._sent > 1 and not await self._directory.still_allows(self._caller):
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            raise _NothingMore
        self._sent += 1
        await self._send(message)

    async def _ended_meanwhile(self) -> HoneError | None:
        """Return why a response that was waited for is refused: the key has stopped working."""
        waited_s = asyncio.get_running_loop().time() - self._let_in_at
        if waited_s <= TRUSTED_S or await self._directory.still_allows(self._caller):
            return None
        return Unauthenticated("the key has stopped working while the request waited")

    async def _record(self, start: Message, by: str) -> None:
        """Record an action before it is answered, if it was done.

        What an operator does with another tenant is in the logs of both.
        """
        own = self._caller.tenant
        managed = self._scope["state"].get(MANAGED, own)
        if start["status"] >= 400 or not (_has_effect(self._scope) or managed != own):
            return
        action = getattr(self._scope.get("route"), "operation_id", None) or self._scope["path"]
        about = _subject(self._scope, start)
        for tenant in {own, managed}:
            await self._metering.record(tenant, by, action, about or managed)


def _subject(scope: Scope, start: Message) -> str:
    """Return the id of what a request is about, or has made."""
    for name, value in start["headers"]:
        if name == b"location":
            return str(value.decode("latin-1").rpartition("/")[2])
    return next(iter(scope.get("path_params", {}).values()), "")


def _has_effect(scope: Scope) -> bool:
    return scope["method"] not in READ_METHODS and routed_path(scope) not in WITHOUT_EFFECT


def routed_path(scope: Scope) -> str:
    """Return the path as the router sees it."""
    path, root = scope["path"], scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path  # type: ignore[no-any-return]


@dataclass(slots=True)
class _Credentials:
    """What the headers say of the caller."""

    key: bytes | None = None  # sent in `Authorization`
    session: bytes | None = None
    is_forwarded: bool = False  # a proxy passed it on
    expected: bytes | None = None  # the id of the key that the page acts as


def _credentials(scope: Scope) -> _Credentials:
    """Return what a request says of its caller.

    It seems forwarded if a header field says so, if it names another host than this one, or if it
    is HTTP/1.0, which proxies speak and clients no longer do. A proxy that does none of that looks
    like a client.
    """
    found = _Credentials(is_forwarded=scope["http_version"] == "1.0")
    for name, value in scope["headers"]:
        if name == b"authorization":
            is_key = value[:7].lower() == BEARER and found.key is None
            found.key = value[7:].strip() if is_key else b""
        elif name == b"cookie":
            found.session = session_in(value) or found.session
        elif name == b"hone-session":
            found.expected = value
        elif name == b"host":
            found.is_forwarded |= not _is_loopback(value)
        elif name in FORWARDED or name.startswith(FORWARDED_PREFIXES):
            found.is_forwarded = True
    return found


@lru_cache
def _is_loopback(host: bytes) -> bool:
    """Return whether a `Host` is a name or an address of loopback."""
    found = HOST.fullmatch(host)
    return found is not None and LOOPBACK.has((found["v6"] or found["name"]).decode())


def _token_in_query(scope: Scope) -> bytes | None:
    """Return the token in `?token=`, and take it out of the URL, which may be shown or logged."""
    # Latin-1 has a character for each byte, so that the rest of the query keeps its bytes.
    query = scope["query_string"].decode("latin-1")
    pairs = parse_qsl(query, keep_blank_values=True, encoding="latin-1")
    kept = [pair for pair in pairs if pair[0] != "token"]
    scope["query_string"] = urlencode(kept, encoding="latin-1").encode()
    return next((value.encode("latin-1") for name, value in pairs if name == "token"), None)


def _require(needed: access.Scope, caller: Caller, method: str, path: str) -> None:
    """Raise Forbidden unless the caller has the scope, and a token is for what it reads."""
    if caller.refinement_id is not None:
        readable = f"/v1/refinements/{caller.refinement_id}"
        if method not in READ_METHODS or not f"{path}/".startswith(f"{readable}/"):
            raise Forbidden(f"this token only reads {readable}")
        if path.startswith(tuple(f"{readable}{ending}" for ending in NOT_FOR_TOKENS)):
            raise Forbidden("this token reads neither the request nor its webhooks: use an API key")
    elif needed not in caller.scopes:
        if caller.key_id is None:
            raise Forbidden(
                "an API key with the scope `admin` is required: `hone keys create --admin`"
            )
        raise Forbidden(f"this API key lacks the scope `{needed}`")


MEMBERS = "members"
"""In the state of the server: what requests in each cell share, by its number."""

AWAY = b"hone-cells-away"
RECORD = re.compile(r"/v1/(?:refinements|batches)/((?:ref|batch)_[0-9A-HJKMNP-TV-Z]{26})(?:/.*)?")
SUBMISSION = re.compile(rf"/v1/(?:refinements|estimates|batches)|{OPENAI}/.*")
INSTALLATION = re.compile(r"/v1/.*|/console/session")

Members = Sequence[Mapping[str, object]]


def enter_cell_of(state: dict[str, Any], record_id: str) -> None:
    """Have the rest of a request go on in the cell of a refinement; raise Unavailable."""
    cells: Cells = state["cells"]
    if not cells.is_one:
        state.update(state[MEMBERS][cells.of(record_id)])


class InCell:
    """Gives each request the store, the service and the rest of one cell.

    That is the cell of the id in the path, for a submission the first one of its tenant, otherwise
    cell 0. After a change in cell 0 the response waits for the copies. A header names the cells
    that were away when all were asked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state, path = scope["state"], routed_path(scope)
        cells: Cells = state["cells"]
        caller: Caller | None = state.get("caller")
        is_change = False
        try:
            if found := RECORD.fullmatch(path):
                enter_cell_of(state, found[1])
            elif scope["method"] == "POST" and caller is not None and SUBMISSION.fullmatch(path):
                number = self._first_home(cells, caller, scope)
                state.update(state[MEMBERS][number] | {"service": state["service"]})
            elif scope["method"] in READ_METHODS:
                state["store"] = cells.stores[cells.readable]
            else:
                is_change = INSTALLATION.fullmatch(path) is not None
        except HoneError as error:
            await response_of(error, scope)(scope, receive, send)
            return
        gone = set[int]()
        missing.set(gone)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                if is_change and message["status"] < 400:
                    own = caller.tenant if caller else OPERATOR
                    await cells.changed([*{own, state.get(MANAGED, own)}])
                if gone:
                    named = ",".join(map(str, sorted(gone))).encode()
                    message["headers"] = [*message["headers"], (AWAY, named)]
            await send(message)

        await self._app(scope, receive, answer)

    @staticmethod
    def _first_home(cells: Cells, caller: Caller, scope: Scope) -> int:
        key = None
        with suppress(MalformedHeader):  # the route says so
            key = idempotency_key(Headers(scope=scope).get("idempotency-key"))
        number = cells.homes_of(caller.tenant, key)[0]
        cells.require_checked(number)
        return number
