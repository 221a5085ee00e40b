"""The pages and files of the console, as HTTP shows them."""

import re

import httpx
import pytest

from app.settings import Settings
from tests.api.api_client import problem
from tests.api.conftest import running
from tests.waiting import TIMEOUT_S

PATHS = ["", "/", "/new", "/refinements/", "/refinements/ref_1", "/refinements/ref_1/drafts"]


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_leads_to_the_page_which_runs_only_its_own_script(
    api: httpx.AsyncClient, path: str
) -> None:
    response = await api.get(f"/console{path}")
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert re.findall(r'(?:src|href)="(?!/)', response.text) == []


async def test_files_are_named_by_their_content_and_kept_by_browsers(
    api: httpx.AsyncClient,
) -> None:
    page = (await api.get("/console")).text
    for address in re.findall(r'(?:src|href)="(/console/static/[^"]+\?\w+)"', page):
        file = await api.get(address)
        assert file.headers["content-encoding"] == "gzip"
        assert "immutable" in file.headers["cache-control"]
        changed = await api.get(address + "0", headers={"Accept-Encoding": "identity"})
        assert changed.headers["cache-control"] == "no-cache"
        assert changed.content == file.content
    problem(await api.get("/console/static/pages.py"), 404, "not_found")


async def test_behind_a_proxy_all_addresses_have_its_prefix(settings: Settings) -> None:
    with running(settings.model_copy(update={"root_path": "/hone"})) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            page = (await client.get("/hone/console")).text
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert addresses
    assert [it for it in addresses if not it.startswith("/hone/")] == []
    assert 'data-root="/hone"' in page


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"key": ""}', b'{"key": 3}', b'{"key": "x", "y": 1}']
)
async def test_signing_in_needs_a_key(api: httpx.AsyncClient, body: bytes) -> None:
    response = await api.post("/console/session", content=body)
    assert problem(response, 422, "invalid_request")["errors"][0]["pointer"] == "/key"
    problem(await api.post("/console/session", content=b" " * 1_001), 413, "too_large")


async def test_a_page_learns_whether_the_server_has_no_keys(settings: Settings) -> None:
    for auth, is_open in (("auto", True), ("off", False)):
        with running(settings.model_copy(update={"auth": auth})) as url:
            async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
                assert (await client.get("/console/session")).json()["is_open"] is is_open
