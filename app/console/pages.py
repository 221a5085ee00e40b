"""The pages of the console, and its files.

Every path leads to the same page: its script shows what the path names, by the HTTP API.
"""

import gzip
import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from importlib import resources
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from pydantic_core import to_json

from app.contract.errors import NotFound
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

HEAD = """\
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="{root}/console/static/icon.svg">
<link rel="stylesheet" href="{root}/console/static/console.css?{css}">
"""
PAGE = f"""\
<!doctype html>
<html lang="en" data-root="{{root}}" data-provider="{{provider}}">
{HEAD}{{preloads}}<script type="module" src="{{root}}/console/static/console.js?{{js}}"></script>
</head>
<body>
<noscript>The console needs JavaScript. <a href="{{root}}/docs">The API</a> does not.</noscript>
</body>
</html>
"""
MESSAGE = f"""\
<!doctype html>
<html lang="en">
{HEAD}</head>
<body>
<main class="sign-in">
<h1>{{subject}}</h1>
<p role="alert">{{said}}</p>
<p><a href="{{root}}/console">Back to the console</a></p>
</main>
</body>
</html>
"""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)

router = APIRouter(include_in_schema=False)


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
    provider = urlsplit(request.state.settings.oidc_issuer).hostname or ""
    words = {"title": "Hone", "provider": escape(provider)}
    content = PAGE.format(root=root, preloads=preloads, **words, **tags)
    return HTMLResponse(content, headers={"Content-Security-Policy": POLICY})


def message_page(request: Request, title: str, said: str, status: int) -> HTMLResponse:
    """Return a page that says something to a person, and leads to the console."""
    root = request.scope.get("root_path", "")
    subject = escape(title)
    words = {"title": f"{subject} &ndash; Hone", "subject": subject, "said": escape(said)}
    content = MESSAGE.format(root=root, css=_file("console.css").tag, **words)
    return HTMLResponse(content, status, headers={"Content-Security-Policy": POLICY})


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
