"""Who may call what: an ASGI layer that lets in callers with the scope that an operation needs."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.callers import Caller, Directory, KeyEnded, Metering, RequestsLeft, may_be_key
from app.access.signed import session_in
from app.api.boundary import HOST, HostNames, Sender, sender_of
from app.api.problems import RATE_LIMIT, CrossSite, is_openai, response_of
from app.contract import access
from app.contract.errors import Forbidden, HoneError, Unauthenticated

OPEN = ("/", "/healthz", "/openapi.json", "/docs", "/console")
"""What needs no key: it says nothing about any tenant, and how to get in."""

PAGES = ("/docs/", "/console/")
SESSION = "/console/session"
"""Reading it tells who the caller is; signing in and out need no key yet, or no longer."""

ADMINISTRATION = ("/metrics/", "/v1/keys/", "/v1/tenants/", "/v1/audit/")
SAFE = ("GET", "HEAD")
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
        return access.Scope.READ if method in SAFE else None
    if path in OPEN or path.startswith(PAGES):
        return None
    if f"{path}/".startswith(ADMINISTRATION):
        return access.Scope.ADMIN
    if method in SAFE or READING.fullmatch(path):
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
    is_read = scope["method"] in SAFE and sender is Sender.NO_PAGE
    if sender is not Sender.OWN_PAGE and not is_read:
        raise CrossSite(
            "a session works for the pages of this server only: open it from the console, or send"
            " an API key"
        )
    if scope["method"] not in SAFE and key_id is None:
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
    return scope["method"] not in SAFE and routed_path(scope) not in WITHOUT_EFFECT


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
        if method not in SAFE or not f"{path}/".startswith(f"{readable}/"):
            raise Forbidden(f"this token only reads {readable}")
        if path.startswith(tuple(f"{readable}{ending}" for ending in NOT_FOR_TOKENS)):
            raise Forbidden("this token reads neither the request nor its webhooks: use an API key")
    elif needed not in caller.scopes:
        if caller.key_id is None:
            raise Forbidden(
                "an API key with the scope `admin` is required: `hone keys create --admin`"
            )
        raise Forbidden(f"this API key lacks the scope `{needed}`")
