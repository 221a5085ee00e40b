"""A page of the console in a headless Chromium."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, ConsoleMessage, Page, ViewportSize

from app.cli.processes import url_of
from tests.e2e.running_service import RunningService
from tests.waiting import TIMEOUT_S

PHONE = ViewportSize(width=360, height=780)
DESKTOP = ViewportSize(width=1280, height=900)


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, service: RunningService) -> AsyncIterator[Page]:
    """A page of the console of the shared service. What its scripts complain of fails the test."""
    context = await browser.new_context(base_url=url_of(service.settings), viewport=DESKTOP)
    context.set_default_timeout(1_000 * TIMEOUT_S)
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


def titled(*parts: str) -> str:
    """The title of a document that shows this."""
    return " \N{EN DASH} ".join([*parts, "Hone"])


def isolated(text: str) -> str:
    """A text of somebody as a title has it, so that it turns nothing around it."""
    return f"\u2068{text}\u2069"


async def scrolls_sideways(page: Page) -> bool:
    """Whether the page is wider than its window."""
    return bool(await page.evaluate("document.documentElement.scrollWidth > innerWidth"))


async def screenshot(page: Page, path: Path) -> None:
    """Save what a person sees, for documentation."""
    await page.screenshot(path=path, full_page=True)
