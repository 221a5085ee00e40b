"""The TypeScript client in a page of another site than the service's, in a headless Chromium."""

import asyncio
import json
import re
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from math import floor
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Route
from pydantic import SecretStr
from standardwebhooks import Webhook

from app.access.keyring import Keyring
from app.cli.processes import url_of
from app.contract.access import OPERATOR, KeyRequest
from app.queue import RefinementQueue
from app.store import open_store
from benchmarks.model_replies import draft
from tests.e2e.conftest import TYPESCRIPT
from tests.e2e.running_service import RunningService, frozen, running_service
from tests.e2e.scripted_models import held_at
from tests.local_endpoint import SECRET
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long

SCENES = Path(__file__).parent / "browser_client.mjs"
HTML = """<!doctype html><title>A page</title>
<script type="importmap">{"imports": {"hone-client": "/dist/index.js"}}</script>
<script type="module">globalThis.scenes = await import("/browser_client.mjs");</script>
<output id="draft"></output>"""


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def folder(package: Path, tmp_path: Path) -> Path:
    """What the server of the page has: the compiled client, and the page."""
    folder = tmp_path / "page"
    folder.mkdir()
    shutil.copytree(package / "dist", folder / "dist")
    shutil.copy(SCENES, folder)
    (folder / "index.html").write_text(HTML)
    return folder


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """Serve the files of a folder; yield the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@asynccontextmanager
async def page_at(browser: Browser, url: str) -> AsyncIterator[Page]:
    """Open the page there. An error that none of its scripts has caught fails the test."""
    page = await browser.new_page()
    page.set_default_timeout(1_000 * TIMEOUT_S)
    uncaught: list[str] = []
    page.on("pageerror", lambda error: uncaught.append(str(error)))
    try:
        await page.goto(url)
        await page.wait_for_function("globalThis.scenes")
        yield page
    finally:
        await page.close()
    assert uncaught == []


async def key_of(service: RunningService) -> str:
    async with open_store(service.settings, RefinementQueue(service.settings.queue)) as store:
        keyring = Keyring(store.access, service.settings)
        return (await keyring.create(OPERATOR, KeyRequest(tenant="acme"))).key


async def restart_while_watched(service: RunningService, page: Page) -> None:
    """Kill the API once the page has seen deltas, and start it when the page has noticed."""
    await page.wait_for_function("globalThis.watching?.deltas && watching.events.length > 3")
    async with page.expect_event("requestfailed"):
        service.processes[0].send_signal(signal.SIGKILL)
        service.processes[0].wait()
    await asyncio.sleep(0.3)  # nobody listens meanwhile
    service.start("app.cli", "api")


async def run_example(service: RunningService, page: Page) -> None:
    """Run the page of the README, and do what it says that a server of one's own does."""
    text = (TYPESCRIPT / "README.md").read_text().partition("## In a browser")[2]
    script = re.findall(r"```js\n(.*?)```", text, re.DOTALL)[0]
    script = script.replace("https://hone.example.com", url_of(service.settings))

    async def improve(route: Route) -> None:
        refinement_id = await service.submit(max_iterations=2)
        issued = await service.client.post(f"/v1/refinements/{refinement_id}/tokens")
        made = {"id": refinement_id, "token": issued.json()["token"]}
        await route.fulfill(json=made)

    await page.route("**/improve", improve)
    await page.add_script_tag(content=script, type="module")
    await page.wait_for_function("document.querySelector('#draft').textContent.includes('Draft')")


async def test_a_page_of_another_site_refines_and_watches_through_a_restart(
    browser: Browser, folder: Path, tmp_path: Path
) -> None:
    with served(folder) as port:
        async with (
            asyncio.timeout(TIMEOUT_S),
            running_service(
                tmp_path,
                cors_origins=f"http://localhost:{port}",
                secret_key=SecretStr(SECRET),
            ) as service,
            page_at(browser, f"http://localhost:{port}/") as page,
        ):
            options = {"url": url_of(service.settings), "apiKey": await key_of(service)}
            service.client.headers["Authorization"] = f"Bearer {options['apiKey']}"
            await page.evaluate("options => scenes.refines(options)", options)
            released = asyncio.Event()
            service.models.behaviour = held_at("iterations/3/critique", released)
            service.models.stream_every_s = 0.005
            with frozen(service.processes[1]):  # it writes nothing before somebody watches
                watched = asyncio.create_task(
                    page.evaluate("options => scenes.watches(options)", options)
                )
                await page.wait_for_function("globalThis.watching?.events.length")
            await restart_while_watched(service, page)
            released.set()
            assert await watched == draft(4)
            seen = await page.evaluate("watching.events")
            assert seen == list(range(1, len(seen) + 1))
            service.models.stream_every_s = 0
            await run_example(service, page)
            async with page_at(browser, f"http://127.0.0.1:{port}/") as foreign:
                said = await foreign.evaluate("options => scenes.isForeign(options)", options)
            assert (
                f"HONE_CORS_ORIGINS lacks the origin of this page, http://127.0.0.1:{port}" in said
            )


async def test_a_page_verifies_webhooks_where_browsers_have_cryptography(
    browser: Browser, folder: Path
) -> None:
    body = json.dumps({"type": "refinement.completed", "data": {"name": "Gr\u00fc\u00dfe"}})
    now = datetime.now(UTC)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(floor(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign("msg_1", now, body),
    }
    with served(folder) as port:
        async with page_at(browser, f"http://localhost:{port}/") as page:
            given = [body, headers, SECRET]
            assert await page.evaluate("it => scenes.verifies(...it)", given) == "msg_1"
            insecure = f"http://page.example:{port}/"
            await page.route(f"{insecure}**", partial(from_folder, folder))
            await page.goto(insecure)
            await page.wait_for_function("globalThis.scenes")
            assert "HTTPS" in await page.evaluate("scenes.cannotVerify()")


async def from_folder(folder: Path, route: Route) -> None:
    """Answer for a host that does not exist."""
    name = route.request.url.split("/", 3)[3] or "index.html"
    await route.fulfill(path=folder / name)
