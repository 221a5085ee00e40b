"""Pages for people: the API and its errors. They load nothing from elsewhere."""

import re
from functools import cache
from html import escape
from importlib import resources

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.api.openapi import KINDS, promise_of
from app.contract.errors import HoneError, NotFound

MEDIA_TYPES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
    "start.js": "text/javascript",
}
DOCS = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hone</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" href="docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
START = """\
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  layout: "BaseLayout",
  presets: [SwaggerUIBundle.presets.apis],
  // With a session of the console, what has an effect must say for which key it acts.
  requestInterceptor: async (request) => {
    const hasEffect = !request.loadSpec && request.method !== "GET";
    if (!hasEffect || request.headers.Authorization) return request;
    const session = await fetch("console/session");
    if (session.ok) request.headers["Hone-Session"] = (await session.json()).key_id ?? "none";
    return request;
  },
});
"""
DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)

ERRORS = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Errors of Hone</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 45rem; margin: 2rem auto }}
h2 {{ font-size: 1.1rem; margin-top: 2rem }}
section:target {{ background: #fff3bf }}
</style>
</head>
<body>
<h1>Errors</h1>
<p>Every error is <code>application/problem+json</code> (RFC 9457): <code>code</code> is stable,
<code>detail</code> says what is wrong with this request, <code>errors</code> points into it.</p>
{sections}
</body>
</html>
"""
ERRORS_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)

router = APIRouter(include_in_schema=False)


@router.get("/")
async def root(request: Request) -> RedirectResponse:
    """Lead a person who has the address and no more to the console."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/console")


@router.get("/docs")
async def docs() -> HTMLResponse:
    """Return the documentation page."""
    return HTMLResponse(DOCS, headers={"Content-Security-Policy": DOCS_POLICY})


@router.get("/docs/errors")
async def error_page() -> HTMLResponse:
    """Return the page with the cause of each error, and what to do."""
    sections = "\n".join(map(_section, KINDS))
    policy = {"Content-Security-Policy": ERRORS_POLICY}
    return HTMLResponse(ERRORS.format(sections=sections), headers=policy)


def _section(kind: type[HoneError]) -> str:
    cause, fix = _as_html(promise_of(kind)), _as_html(kind.fix)
    heading = f"<h2>{kind.status} <code>{kind.code}</code>: {escape(kind.title)}</h2>"
    return f'<section id="{kind.code}">{heading}<p>{cause}</p><p>{fix}</p></section>'


def _as_html(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    """Return one file of that page; the files are installed, so no network is needed."""
    if name not in MEDIA_TYPES:
        raise NotFound(f"no resource at /docs/{name}")
    headers = {"Cache-Control": "max-age=86400"}
    return Response(_asset(name), headers=headers, media_type=MEDIA_TYPES[name])


@cache
def _asset(name: str) -> bytes:
    if name == "start.js":
        return START.encode()
    return (resources.files("fastapi_swagger.resources") / name).read_bytes()
