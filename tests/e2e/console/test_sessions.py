"""Sessions of a browser with several tabs: none acts as who has signed in elsewhere."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from app.access.keyring import Keyring
from app.cli.processes import url_of
from app.contract.access import OPERATOR, IssuedKey, KeyRequest, Scope
from app.local.embedded import EmbeddedRedis
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import open_store
from tests.api.conftest import requiring_keys, running
from tests.e2e.console.conftest import violations
from tests.e2e.console.test_frame import until_refused
from tests.e2e.running_service import RunningService, running_service

pytestmark = pytest.mark.long


@asynccontextmanager
async def two_keys(
    browser: Browser, directory: Path
) -> AsyncIterator[tuple[RunningService, BrowserContext, list[IssuedKey]]]:
    """A service with a key of two tenants each, and a browser with no page."""
    async with (
        running_service(directory, workers=0) as service,
        open_store(service.settings, RefinementQueue(service.settings.queue)) as store,
    ):
        keyring = Keyring(store.access, service.settings)
        keys = [
            await keyring.create(OPERATOR, KeyRequest()),
            await keyring.create(OPERATOR, KeyRequest(tenant="acme")),
        ]
        await until_refused(service, {})
        context = await browser.new_context(base_url=url_of(service.settings))
        yield service, context, keys
        await context.close()


async def sign_in(page: Page, key: IssuedKey) -> None:
    await page.get_by_label("API key").fill(key.key)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("banner")).to_contain_text(key.id)


async def test_a_key_that_reads_nothing_is_refused_with_the_reason(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        two_keys(browser, tmp_path) as (service, context, _),
        open_store(service.settings, RefinementQueue(service.settings.queue)) as store,
    ):
        request = KeyRequest(scopes=(Scope.SUBMIT,))
        key = await Keyring(store.access, service.settings).create(OPERATOR, request)
        page = await context.new_page()
        await page.goto("/console/new")
        await page.get_by_label("API key").fill(key.key)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("the console needs (`read`)")


async def submitted(service: RunningService, key: IssuedKey) -> int:
    headers = {"Authorization": f"Bearer {key.key}"}
    return len((await service.client.get("/v1/refinements", headers=headers)).json()["data"])


async def test_a_tab_never_acts_as_who_has_signed_in_in_another_one(
    browser: Browser, tmp_path: Path
) -> None:
    async with two_keys(browser, tmp_path) as (service, context, (first, second)):
        page = await context.new_page()
        # As a browser without channels between tabs, or a tab that slept meanwhile.
        await page.add_init_script("BroadcastChannel.prototype.addEventListener = () => {}")
        await page.goto("/console/new")
        await sign_in(page, first)
        draft = page.get_by_label("Your text")
        await draft.fill("Of the first.")
        await expect(page.get_by_text("Expected:")).to_be_visible()
        other = await context.new_page()
        await other.goto("/console")
        await other.get_by_role("button", name="Sign out").click()
        await sign_in(other, second)
        await page.get_by_role("button", name="Improve").click()
        await expect(page.get_by_role("alert")).to_contain_text(f"signed in as {second.id} (acme)")
        assert await violations(page) == []
        await expect(draft).to_be_hidden()
        assert [await submitted(service, it) for it in (first, second)] == [0, 0]
        await sign_in(page, first)
        await expect(draft).to_have_value("Of the first.")
        await page.get_by_role("button", name="Improve").click()
        await page.wait_for_url("**/refinements/ref_*")
        assert [await submitted(service, it) for it in (first, second)] == [1, 0]
        await expect(other.get_by_role("alert")).to_contain_text(f"signed in as {first.id}")
        await other.get_by_role("button", name="Reload the page").click()
        await expect(other.get_by_role("banner")).to_contain_text(first.id)


async def test_signing_out_ends_all_tabs_and_each_key_keeps_its_own_words(
    browser: Browser, tmp_path: Path
) -> None:
    async with two_keys(browser, tmp_path) as (_, context, (first, second)):
        page = await context.new_page()
        await page.goto("/console/new")
        await sign_in(page, first)
        other = await context.new_page()
        await other.goto("/console")
        draft = page.get_by_label("Your text")
        await draft.fill("Of the first.")
        await other.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        await expect(draft).to_have_count(0)
        await sign_in(page, second)
        await expect(draft).to_have_value("")
        await page.get_by_role("button", name="Sign out").click()
        await sign_in(page, first)
        await expect(draft).to_have_value("Of the first.")


def address_in_the_network() -> str:
    """Return an address of this machine in a network; without one the test is skipped."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        try:
            unsent.connect(("192.0.2.1", 9))  # of a UDP socket: nothing is sent
        except OSError:
            pytest.skip("this machine is in no network")
        return str(unsent.getsockname()[0])


@asynccontextmanager
async def service_in_network(directory: Path, host: str) -> AsyncIterator[tuple[str, IssuedKey]]:
    """The address of an API that listens on all addresses, and a key of it.

    Browsers send `Sec-Fetch-Site` to loopback only.
    """
    with EmbeddedRedis(directory) as redis:
        settings = requiring_keys(Settings(redis_url=redis.url, host="0.0.0.0", port=0))
        with running(settings) as url:
            async with open_store(settings, RefinementQueue(settings.queue)) as store:
                key = await Keyring(store.access, settings).create(OPERATOR, KeyRequest())
            yield url.replace("127.0.0.1", host), key


async def test_over_plain_http_a_person_signs_in_submits_and_cancels(
    browser: Browser, tmp_path: Path
) -> None:
    async with service_in_network(tmp_path, address_in_the_network()) as (address, key):
        context = await browser.new_context(base_url=address)
        page = await context.new_page()
        await page.goto("/console/new")
        assert not await page.evaluate("isSecureContext")
        await sign_in(page, key)
        await page.get_by_label("Your text").fill("A text.")
        await page.get_by_role("button", name="Improve").click()
        heading = page.get_by_role("heading", level=1)
        await expect(heading).to_contain_text("queued")
        await page.get_by_role("button", name="Cancel…").click()
        await page.get_by_role("button", name="Cancel the refinement").click()
        await expect(heading).to_contain_text("canceled")
        await context.close()


EMBEDDING = """(address) => Promise.all([
    new Promise((done) => {
        const it = document.createElement('object');
        it.onload = () => done('shown');
        it.onerror = () => done('refused');
        it.data = address;
        document.body.append(it);
    }),
    fetch(address, { mode: 'no-cors', credentials: 'include' }).then(
        () => 'shown',
        () => 'refused',
    ),
])"""


async def answer_empty_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(65_536)
    writer.write(b"HTTP/1.0 200 OK\r\ncontent-type: text/html\r\n\r\n<!doctype html><body>")
    writer.close()


@pytest.mark.parametrize("is_on_loopback", [False, True])
async def test_a_page_on_another_port_cannot_tell_one_answer_from_another(
    browser: Browser, tmp_path: Path, is_on_loopback: bool
) -> None:
    host = "127.0.0.1" if is_on_loopback else address_in_the_network()
    async with (
        service_in_network(tmp_path, host) as (address, key),
        await asyncio.start_server(answer_empty_page, "0.0.0.0", 0) as other,
    ):
        context = await browser.new_context(base_url=address)
        own = await context.new_page()
        await own.goto("/console")
        await sign_in(own, key)
        page = await context.new_page()
        await page.goto(f"http://{host}:{other.sockets[0].getsockname()[1]}/")
        for path in ("/v1/refinements", "/v1/refinements/ref_1", "/healthz"):
            assert await page.evaluate(EMBEDDING, address + path) == ["refused", "refused"], path
        await page.evaluate("(to) => location.assign(to)", f"{address}/console/new")
        await expect(page.get_by_role("banner")).to_contain_text(key.id)
        await context.close()
