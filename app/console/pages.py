"""The pages of the console, its files, and the sessions of browsers that showed an API key.

Every path leads to the same page: its script shows what the path names, by the HTTP API.
"""

import gzip
import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from app.access import SESSION_COOKIE, SESSION_S, Caller, Directory, KeyEnded, Metering
from app.contract.errors import BodyTooLarge, FieldError, InvalidRequest, NotFound
from app.contract.requests import RefinementRequest

MEDIA_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
STATIC = resources.files("app.console") / "static"
NAMED = re.compile(r"-[0-9A-Z]{8}\.js")
"""A script whose name has the hash of its content, which the build gives it."""

PAGE = """\
<!doctype html>
<html lang="en" data-root="{root}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Hone</title>
<link rel="icon" href="{root}/console/static/icon.svg">
<link rel="stylesheet" href="{root}/console/static/console.css?{css}">
{preloads}<script type="module" src="{root}/console/static/console.js?{js}"></script>
</head>
<body>
<noscript>The console needs JavaScript. <a href="{root}/docs">The API</a> does not.</noscript>
</body>
</html>
"""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
MOST_BYTES = 1_000

router = APIRouter(include_in_schema=False)


class SignIn(BaseModel):
    """The API key of a person who signs in."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(min_length=1, max_length=200)


def the_directory(request: Request) -> Directory:
    """Return who may call what."""
    directory: Directory = request.state.directory
    return directory


Callers = Annotated[Directory, Depends(the_directory)]


@router.get("/console/session")
async def session(request: Request) -> dict[str, Any]:
    """Return who this browser acts as: by its session, or without one where no key is needed.

    `is_open`: no key is needed because there are none yet.
    """
    caller: Caller = request.state.caller
    directory: Directory = request.state.directory
    return {
        "tenant": caller.tenant,
        "scopes": sorted(caller.scopes),
        "key_id": caller.key_id,
        "reviews_as": caller.reviews_as,
        "is_open": directory.is_open,
    }


@router.post("/console/session")
async def sign_in(request: Request, directory: Callers) -> Response:
    """Begin a session with an API key. The browser keeps it where no script can read it."""
    body = await request.body()
    if len(body) > MOST_BYTES:
        raise BodyTooLarge(f"the body must have at most {MOST_BYTES} bytes")
    try:
        key = SignIn.model_validate_json(body).key
    except ValidationError:
        missing = FieldError(pointer="/key", detail="an API key is required")
        raise InvalidRequest("the body must have an API key as `key`", errors=(missing,)) from None
    metering: Metering = request.state.metering
    try:
        caller, text = await directory.session_of(key.strip().encode())
    except KeyEnded as ended:
        metering.refused(ended.record.tenant, ended.record.id, ended.status)
        raise
    await _end(request, directory)  # the browser forgets the session before
    await _record(request, caller, "signIn")
    response = Response(status_code=204)
    _set(response, request, text, SESSION_S)
    return response


@router.delete("/console/session")
async def sign_out(request: Request, directory: Callers) -> Response:
    """End the session: copies of its cookie work no longer."""
    await _end(request, directory)
    response = Response(status_code=204)
    _set(response, request, "", 0)
    return response


async def _end(request: Request, directory: Directory) -> None:
    session = request.cookies.get(SESSION_COOKIE)
    if session and (caller := await directory.end_session(session.encode())) is not None:
        await _record(request, caller, "signOut")


async def _record(request: Request, caller: Caller, action: str) -> None:
    metering: Metering = request.state.metering
    assert caller.key_id is not None
    await metering.record(caller.tenant, caller.key_id, action, caller.key_id)


@router.get("/console/schema")
async def schema(request: Request) -> Response:
    """Return the JSON Schema of a request to submit, of which the console makes a form."""
    return _response(request, _schema(), "application/schema+json")


@router.get("/console/static/{name}")
async def static(name: str, request: Request) -> Response:
    """Return a file of the console."""
    if name not in _names():
        raise NotFound(f"no resource at /console/static/{name}")
    media_type = MEDIA_TYPES[name.rpartition(".")[2]]
    return _response(request, _file(name), media_type, is_named=bool(NAMED.search(name)))


def _response(
    request: Request, file: "_File", media_type: str, *, is_named: bool = False
) -> Response:
    # The page names the content by its hash, so that a file never changes under its address.
    is_named = is_named or request.url.query == file.tag
    headers = {
        "Cache-Control": "max-age=31536000, immutable" if is_named else "no-cache",
        "ETag": f'"{file.tag}"',
        "Vary": "Accept-Encoding",
    }
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, headers=headers, media_type=media_type)
    headers["Content-Encoding"] = "gzip"
    return Response(file.packed, headers=headers, media_type=media_type)


@router.get("/console")
@router.get("/console/")
@router.get("/console/{page}")
@router.get("/console/{page}/")
@router.get("/console/{page}/{_identifier}")
@router.get("/console/{page}/{_identifier}/{_part}")
async def page(request: Request) -> HTMLResponse:
    """Return the page, whatever it is to show."""
    root = request.scope.get("root_path", "")
    tags = {"js": _file("console.js").tag, "css": _file("console.css").tag}
    preloads = "".join(
        f'<link rel="modulepreload" href="{root}/console/static/{name}">\n' for name in _imported()
    )
    content = PAGE.format(root=root, preloads=preloads, **tags)
    return HTMLResponse(content, headers={"Content-Security-Policy": POLICY})


def _set(response: Response, request: Request, text: str, seconds: int) -> None:
    response.set_cookie(
        SESSION_COOKIE,
        text,
        max_age=seconds,
        path=request.scope.get("root_path", "") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is sent."""

    content: bytes
    packed: bytes
    tag: str


@cache
def _names() -> frozenset[str]:
    return frozenset(file.name for file in STATIC.iterdir())


@cache
def _imported() -> tuple[str, ...]:
    """Return the scripts that every page needs beside its first: the browser loads them at once."""
    script = (STATIC / "console.js").read_text(encoding="utf-8")
    return tuple(dict.fromkeys(re.findall(r'(?:from|import)"\./([^"]+)"', script)))


@cache
def _file(name: str) -> _File:
    return _packed((STATIC / name).read_bytes())


@cache
def _schema() -> _File:
    return _packed(to_json(RefinementRequest.model_json_schema()))


def _packed(content: bytes) -> _File:
    return _File(content, gzip.compress(content, mtime=0), sha256(content).hexdigest()[:16])
