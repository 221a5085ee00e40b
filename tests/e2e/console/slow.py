"""Measures how soon the console is of use: `python -m tests.e2e.console.slow`.

A row for each page, opened in a browser without a cache: over a connection of 30 kB/s with 200
refinements on the server, and a refinement of 10,000 events on this machine. `--refinements 20
--events 500` is a quick look.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from playwright.async_api import Browser, CDPSession, Page, async_playwright

from app.cli.processes import url_of
from tests.e2e.conftest import FLAGS, NAMES
from tests.e2e.console.conftest import DESKTOP
from tests.e2e.running_service import RunningService, running_service

BYTES_PER_S = 30_000
LATENCY_MS = 40
AT_ONCE = 8
ROWS = "table.rows tbody tr"
SEEN = {
    "home: the text can be pasted": ("/console", ".paper textarea"),
    "list: the first row": ("/console/refinements", ROWS),
    "list: all 25 rows": ("/console/refinements", f"{ROWS}:nth-child(20)"),
    "inbox: the draft": ("/console/reviews", "pre.draft"),
}
LONGEST_FRAME = """async () => {
    const frames = [];
    let last = await new Promise(requestAnimationFrame);
    for (let at = 0; at < 60; at++) {
        scrollBy(0, 120);
        const now = await new Promise(requestAnimationFrame);
        frames.push(now - last);
        last = now;
    }
    return Math.max(...frames);
}"""


async def many(service: RunningService, count: int) -> None:
    """Submit so many texts of a few sentences, which end, and one that waits for a review."""
    text = "In order to get refund number {}, you should contact our support team in due time."
    editor = {"generator": "offline:editor", "critic": "offline:editor"}
    for first in range(0, count, AT_ONCE):
        made = [
            service.submit(
                task=None, draft=text.format(it), models=editor, metadata={"ticket": f"{it}"}
            )
            for it in range(first, min(first + AT_ONCE, count))
        ]
        for refinement_id in await asyncio.gather(*made):
            await service.ended(refinement_id)
    await service.submit(draft=text.format(0), review={"when": "each_iteration"})


async def eventful(service: RunningService, count: int) -> str:
    """Return a refinement that waits for a review and has so many events, most of them changes."""
    refinement_id = await service.submit(review={"when": "each_iteration"})
    path = f"/v1/refinements/{refinement_id}"
    while (await service.get(refinement_id))["status"] != "paused":  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    while (await service.get(refinement_id))["last_event"] < count:
        values = (0.5 + it / 100 for it in range(40))
        changes = [service.client.patch(path, json={"threshold": it}) for it in values]
        for answer in await asyncio.gather(*changes):
            assert answer.is_success, answer.text
    return refinement_id


async def opened(browser: Browser, service: RunningService) -> tuple[Page, CDPSession]:
    """Return a page of a browser that has nothing of the console yet."""
    context = await browser.new_context(base_url=url_of(service.settings), viewport=DESKTOP)
    page = await context.new_page()
    return page, await context.new_cdp_session(page)


async def seen(page: Page, address: str, selector: str) -> float:
    """Return the seconds from the address being typed to something being seen."""
    began = perf_counter()
    await page.goto(address, wait_until="commit")
    await page.locator(selector).first.wait_for(timeout=120_000)
    return perf_counter() - began


async def slowly(browser: Browser, service: RunningService) -> list[tuple[str, float]]:
    """Return the seconds until each page is of use over the slow connection."""
    rows = []
    for what, (address, selector) in SEEN.items():
        page, devtools = await opened(browser, service)
        await devtools.send("Network.enable")
        conditions: dict[str, Any] = {
            "offline": False,
            "latency": LATENCY_MS,
            "downloadThroughput": BYTES_PER_S,
            "uploadThroughput": BYTES_PER_S,
        }
        await devtools.send("Network.emulateNetworkConditions", conditions)
        rows.append((what, await seen(page, address, selector)))
        await page.context.close()
    return rows


async def long_one(
    browser: Browser, service: RunningService, count: int
) -> list[tuple[str, float]]:
    """Return the seconds until a refinement of so many events is seen, and its longest frame."""
    refinement_id = await eventful(service, count)
    page, _ = await opened(browser, service)
    address = f"/console/refinements/{refinement_id}"
    rows = [(f"{count} events: the draft", await seen(page, address, "pre.draft"))]
    rows.append((f"{count} events: the longest frame of scrolling", await frame(page)))
    address = f"{address}/events"
    rows.append((f"{count} events: the first of them", await seen(page, address, ".events li")))
    await page.context.close()
    return rows


async def frame(page: Page) -> float:
    """Return the seconds of the longest frame while somebody scrolls."""
    return float(await page.evaluate(LONGEST_FRAME)) / 1_000


async def main(refinements: int, events: int) -> None:
    """Measure, and print a table."""
    executable = next(filter(None, map(shutil.which, NAMES)))
    with tempfile.TemporaryDirectory() as folder:
        async with running_service(Path(folder)) as service, async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=executable, args=FLAGS)
            await many(service, refinements)
            rows = await slowly(browser, service)
            rows += await long_one(browser, service, events)
            await browser.close()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores; {BYTES_PER_S // 1_000} kB/s")
    print("| | seconds |")
    print("|---|---|")
    for what, seconds in rows:
        print(f"| {what} | {seconds:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--refinements", type=int, default=200)
    parser.add_argument("--events", type=int, default=10_000)
    given = parser.parse_args()
    asyncio.run(main(given.refinements, given.events))
