"""The layer behind the log: which hosts, origins and bodies are let in, and response headers."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import ip_address
from math import inf

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import CrossSite, Misdirected, response_of
from app.contract.errors import BodyTooLarge, HoneError, MalformedHeader, Overloaded
from app.settings import Settings, listens_on_loopback

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

Headers = list[tuple[bytes, bytes]]

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


def _read(headers: Headers) -> _Head:
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

    def _rooted_location(self, headers: Headers) -> Headers:
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
