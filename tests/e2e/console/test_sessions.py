"""Sessions of a browser with several tabs: none acts as who has signed in elsewhere."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, BrowserContext, Page, expect

from app.access import Keyring
from app.cli.processes import url_of
from app.contract.access import OPERATOR, IssuedKey, KeyRequest
from app.queue import RefinementQueue
from app.store import open_store
from tests.e2e.console.conftest import violations
from tests.e2e.console.test_frame import until_refused
from tests.e2e.running_service import RunningService, running_service


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
        draft = page.get_by_label("Draft", exact=True)
        await draft.fill("Of the first.")
        await expect(page.get_by_text("Expected:")).to_be_visible()
        other = await context.new_page()
        await other.goto("/console")
        await other.get_by_role("button", name="Sign out").click()
        await sign_in(other, second)
        await page.get_by_role("button", name="Submit", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text(f"signed in as {second.id} (acme)")
        assert await violations(page) == []
        await expect(draft).to_be_hidden()
        assert [await submitted(service, it) for it in (first, second)] == [0, 0]
        await sign_in(page, first)
        await expect(draft).to_have_value("Of the first.")
        await page.get_by_role("button", name="Submit", exact=True).click()
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
        draft = page.get_by_label("Draft", exact=True)
        await draft.fill("Of the first.")
        await other.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        await expect(draft).to_have_count(0)
        await sign_in(page, second)
        await expect(draft).to_have_value("")
        await page.get_by_role("button", name="Sign out").click()
        await sign_in(page, first)
        await expect(draft).to_have_value("Of the first.")
