"""The page that shows the OpenAPI document, with everything it needs on this server."""

from functools import cache
from importlib import resources

from fastapi import APIRouter, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse

from app.contract.errors import NotFound

OPENAPI = "/openapi.json"
MEDIA_TYPES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs() -> HTMLResponse:
    """Return the page."""
    return get_swagger_ui_html(
        openapi_url=OPENAPI,
        title="Hone",
        swagger_js_url="/docs/swagger-ui-bundle.js",
        swagger_css_url="/docs/swagger-ui.css",
        swagger_favicon_url="/docs/favicon-32x32.png",
    )


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    """Return one file of the page; they come in a wheel, so no network is needed."""
    if name not in MEDIA_TYPES:
        raise NotFound(f"there is nothing at /docs/{name}")
    headers = {"Cache-Control": "max-age=86400"}
    return Response(_asset(name), headers=headers, media_type=MEDIA_TYPES[name])


@cache
def _asset(name: str) -> bytes:
    return (resources.files("fastapi_swagger.resources") / name).read_bytes()
