"""Pages for people: the documentation of the API. They load nothing from elsewhere."""

from functools import cache
from importlib import resources

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.contract.errors import NotFound

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
});
"""
DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)

router = APIRouter(include_in_schema=False)


@router.get("/")
async def root(request: Request) -> RedirectResponse:
    """Lead to the documentation."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/docs")


@router.get("/docs")
async def docs() -> HTMLResponse:
    """Return the documentation page."""
    return HTMLResponse(DOCS, headers={"Content-Security-Policy": DOCS_POLICY})


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
