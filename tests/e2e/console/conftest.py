"""A headless Chromium for the tests of the console; without one they are skipped."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, ConsoleMessage, Page, ViewportSize, async_playwright

from app.cli.processes import url_of
from tests.e2e.running_service import RunningService

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE = ViewportSize(width=360, height=780)
DESKTOP = ViewportSize(width=1280, height=900)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """A browser that asks no other host than the one of a test."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium here: the package `chromium` of Debian has one")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield launched
        await launched.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, service: RunningService) -> AsyncIterator[Page]:
    """A page of the console of the shared service. What its scripts complain of fails the test."""
    context = await browser.new_context(base_url=url_of(service.settings), viewport=DESKTOP)
    opened = await context.new_page()
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and "status of 4" not in message.text:
            complaints.append(message.text)

    opened.on("console", note)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    await context.close()
    assert complaints == []


async def violations(page: Page) -> list[str]:
    """What axe finds wrong with the page as it is now (WCAG 2.2 AA and best practices)."""
    found = await Axe().run(page)
    return [
        f"{it['id']}: {node['html'][:200]}"
        for it in found.response["violations"]
        for node in it["nodes"]
    ]


async def scrolls_sideways(page: Page) -> bool:
    """Whether the page is wider than its window."""
    return bool(await page.evaluate("document.documentElement.scrollWidth > innerWidth"))


async def screenshot(page: Page, path: Path) -> None:
    """Save what a person sees, for documentation."""
    await page.screenshot(path=path, full_page=True)
