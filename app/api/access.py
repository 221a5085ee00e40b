"""Who may call what: an ASGI layer that lets in callers with the scope that an operation needs."""

from contextlib import suppress
from urllib.parse import parse_qsl, urlencode

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access import Caller, Directory
from app.api.problems import response_of
from app.contract import access
from app.contract.errors import Forbidden, HoneError, Unauthenticated

OPEN = ("/", "/healthz", "/openapi.json", "/docs")
"""What needs no key: it says nothing about any tenant, and how to get in."""

ADMINISTRATION = ("/v1/keys",)
REVIEWING = ("/reviews", "/ratings")
READING = ("/tokens",)
TOKEN = b"token="
FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip")
BEARER = b"bearer "


def scope_needed(method: str, path: str) -> access.Scope | None:
    """Return the scope that a request needs, or None if it needs no key."""
    if path in OPEN or path.startswith("/docs/"):
        return None
    if any(path == it or path.startswith(f"{it}/") for it in ADMINISTRATION):
        return access.Scope.ADMIN
    if method in {"GET", "HEAD"} or path.endswith(READING):
        return access.Scope.READ
    return access.Scope.REVIEW if path.endswith(REVIEWING) else access.Scope.SUBMIT


class _NoLongerAllowed(Exception):
    """Ends a response that has begun."""


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
        path = _path(scope)
        needed = scope_needed(scope["method"], path)
        if needed is None:
            await self._app(scope, receive, send)
            return
        directory: Directory = scope["state"]["directory"]
        try:
            key, is_forwarded = _credentials(scope["headers"])
            token = _token_in_query(scope) if TOKEN in scope["query_string"] else None
            caller = await directory.caller(key or token, is_forwarded=is_forwarded)
            _require(needed, caller, scope["method"], path)
        except HoneError as error:
            headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else None
            await response_of(error, scope, headers)(scope, receive, send)
            return
        scope["state"]["caller"] = caller
        with suppress(_NoLongerAllowed):
            await self._app(scope, receive, _while_allowed(directory, caller, send))


def _path(scope: Scope) -> str:
    """Return the path as the router sees it."""
    path, root = scope["path"], scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path  # type: ignore[no-any-return]


def _credentials(headers: list[tuple[bytes, bytes]]) -> tuple[bytes | None, bool]:
    """Return the key in `Authorization`, None without that header; and whether a proxy sent it."""
    key, is_forwarded = None, False
    for name, value in headers:
        if name == b"authorization":
            is_key = value[:7].lower() == BEARER and key is None
            key = value[7:].strip() if is_key else b""
        elif name in FORWARDED:
            is_forwarded = True
    return key, is_forwarded


def _token_in_query(scope: Scope) -> bytes | None:
    """Return the token in `?token=`, and take it out of the URL, which may be shown or logged."""
    pairs = parse_qsl(scope["query_string"], keep_blank_values=True)
    scope["query_string"] = urlencode([it for it in pairs if it[0] != b"token"]).encode()
    return next((value for name, value in pairs if name == b"token"), None)


def _require(needed: access.Scope, caller: Caller, method: str, path: str) -> None:
    """Raise Forbidden unless the caller has the scope, and a token is for what it reads."""
    if caller.refinement_id is not None:
        readable = f"/v1/refinements/{caller.refinement_id}"
        if method not in {"GET", "HEAD"} or not f"{path}/".startswith(f"{readable}/"):
            raise Forbidden(f"this token only reads {readable}")
    elif needed not in caller.scopes:
        if caller.key_id is None:
            raise Forbidden(
                "an API key with the scope `admin` is required: `hone keys create --admin`"
            )
        raise Forbidden(f"this API key lacks the scope `{needed}`")


def _while_allowed(directory: Directory, caller: Caller, send: Send) -> Send:
    sent = 0

    async def guarded(message: Message) -> None:
        nonlocal sent
        # The first parts of a response were produced at once after the caller was let in.
        if sent > 1 and not await directory.still_allows(caller):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            raise _NoLongerAllowed
        sent += 1
        await send(message)

    return guarded
