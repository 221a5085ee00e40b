"""Measures the console with 50 drafts of 200,000 characters: `python -m tests.e2e.console.long`.

A row for each thing that a person does: the longest task of the page's main thread, by the clock
and in CPU time (which other work on the machine does not change), what was transferred, and what
the page holds in memory afterwards. `--iterations 5` is a quick look.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, CDPSession, Page, async_playwright

from app.cli.processes import url_of
from benchmarks.model_replies import (
    CRITERIA,
    AskedPrompt,
    ModelServerReply,
    between_marks,
    chat,
    streamed,
)
from tests.e2e.conftest import FLAGS, NAMES
from tests.e2e.console.conftest import DESKTOP
from tests.e2e.running_service import RunningService, running_service

CHARACTERS = 200_000
PIECES = 20
EVERY_S = 0.05
WRITTEN_MS = 600_000
SETTLED_MS = 1_500
CATEGORIES = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
WHOLE = "Show the whole text"
NUMBER = re.compile(rb"Draft number (\d+)")
TABS = ("overview", "drafts", "steps", "request", "events")


def long_draft(number: int, characters: int = CHARACTERS) -> str:
    """Return a draft of so many characters, which shares two paragraphs of three with the next."""
    paragraphs = [f"Draft number {number}."]
    size = len(paragraphs[0])
    at = 0
    while True:
        version = (number + at) // 3
        text = " ".join(
            f"Sentence {at}-{it} of version {version} says that refunds take {it} days, 你好 😀."
            for it in range(6)
        )
        size += 2 + len(text)
        if size > characters:
            return "\n\n".join(paragraphs)
        paragraphs.append(text)
        at += 1


def verdict(number: int, criteria: list[str]) -> str:
    """Return a verdict on a draft with findings in twenty places, and a score that hardly rises."""
    said = {"evidence": [], "reason": "It could be shorter. " * 10, "score": 0.3 + number / 1_000}
    findings = [
        {
            "severity": "major",
            "criterion": criteria[0],
            "issue": f"Paragraph {at} is too long in draft {number}.",
            "quote": f"Sentence {at}-3 of version {(number + at) // 3} says",
            "fix": "Shorten it.",
        }
        for at in range(number, 400, 20)
    ]
    lists: dict[str, list[str]] = {"strengths": [], "weaknesses": [], "suggestions": []}
    return json.dumps({"scores": dict.fromkeys(criteria, said), **lists, "findings": findings})


def writing(asked: AskedPrompt) -> ModelServerReply:
    """Judge a draft, or write the next one, a twentieth at a time."""
    latest = max((int(it) for it in NUMBER.findall(asked.body)), default=0)
    if b'"response_format"' in asked.body or b"You judge" in asked.body:
        found = CRITERIA.search(asked.body)
        return chat(verdict(latest, json.loads(found[1]) if found else ["quality"]))
    reply = streamed(between_marks(chat(long_draft(latest + 1)), asked), asked)
    size = -(-len(reply.pieces) // PIECES)
    pieces = [b"".join(reply.pieces[at : at + size]) for at in range(0, len(reply.pieces), size)]
    return replace(reply, pieces=tuple(pieces), every_s=EVERY_S)


@dataclass
class PageCost:
    """What one thing that a person does has cost the page."""

    what: str
    task_ms: float
    cpu_ms: float
    megabytes: float
    heap_megabytes: float


class Meter:
    """Measures one page."""

    def __init__(self, browser: Browser, page: Page, devtools: CDPSession) -> None:
        self._browser = browser
        self._page = page
        self._devtools = devtools
        self._received = 0
        self.rows: list[PageCost] = []
        devtools.on("Network.dataReceived", self._receive)

    def _receive(self, event: dict[str, Any]) -> None:
        self._received += event["dataLength"]

    async def measure(self, what: str, act: Callable[[], Awaitable[Any]]) -> None:
        """Do something, wait until the page is quiet, and add a row."""
        self._received = 0
        await self._browser.start_tracing(page=self._page, categories=CATEGORIES)
        await act()
        await self._page.wait_for_timeout(SETTLED_MS)
        tasks = tasks_in(json.loads(await self._browser.stop_tracing())["traceEvents"])
        await self._devtools.send("HeapProfiler.collectGarbage")
        used = (await self._devtools.send("Runtime.getHeapUsage"))["usedSize"]
        row = PageCost(
            what,
            max((it["dur"] for it in tasks), default=0) / 1_000,
            max((it.get("tdur", 0) for it in tasks), default=0) / 1_000,
            self._received / 1e6,
            used / 1e6,
        )
        self.rows.append(row)
        print(row, flush=True)


def tasks_in(trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tasks of the main thread of the page that a trace is of."""
    threads = {
        (it["pid"], it["tid"])
        for it in trace
        if it["name"] == "thread_name" and it["args"]["name"] == "CrRendererMain"
    }
    return [
        it
        for it in trace
        if it["name"].endswith("RunTask") and it["ph"] == "X" and (it["pid"], it["tid"]) in threads
    ]


async def until_iteration(page: Page, number: int) -> None:
    """Return once so many drafts were judged."""
    shown = "/Iteration(\\d+)/.exec(document.querySelector('.facts')?.textContent)?.[1]"
    await page.wait_for_function(
        f"(least) => Number({shown}) >= least", arg=number, timeout=WRITTEN_MS
    )


async def measured(browser: Browser, service: RunningService, iterations: int) -> list[PageCost]:
    """Follow a refinement while it goes on, on every tab, and look at all of it afterwards."""
    service.models.behaviour = writing
    context = await browser.new_context(base_url=url_of(service.settings), viewport=DESKTOP)
    page = await context.new_page()
    page.set_default_timeout(120_000)
    devtools = await context.new_cdp_session(page)
    await devtools.send("Network.enable")
    meter = Meter(browser, page, devtools)
    refinement_id = await service.submit(
        task="Explain refunds.",
        draft=long_draft(0),
        criteria=[{"name": f"criterion {it}"} for it in range(5)],
        max_iterations=iterations,
        stop={"max_similarity": 1, "tolerance": 1, "max_seconds": 3_600},
    )
    address = f"/console/refinements/{refinement_id}"
    await page.goto(address)
    for number, tab in enumerate(TABS, 1):

        async def live(tab: str = tab, until: int = iterations * number // 6) -> None:
            await page.get_by_role("link", name=tab.title(), exact=True).click()
            await until_iteration(page, until)

        await meter.measure(f"{tab}, live", live)
    print("events", (await service.ended(refinement_id))["last_event"])

    for tab in TABS:
        await meter.measure(f"{tab}, opened", partial(page.goto, f"{address}/{tab}"))
        await ACTIONS[tab](page, meter)
    await context.close()
    return meter.rows


async def press(page: Page, what: str, label: str, *, is_last: bool = False) -> None:
    """Click on something once it is there.

    It is found by its first words: roles and names of everything would be a long task of their own.
    """
    find = (
        "([what, label, isLast]) => [...document.querySelectorAll(what)]"
        ".filter((it) => it.textContent.startsWith(label)).at(isLast ? -1 : 0)"
    )
    found = await page.wait_for_function(find, arg=[what, label, is_last])
    await found.evaluate("(it) => it.click()")


async def compare(page: Page, path: str) -> None:
    """Choose the draft to compare with, and wait for the comparison."""
    await page.select_option("main select >> nth=0", path)
    await settled(page)


async def settled(page: Page) -> None:
    """Return once two drafts were compared."""
    await page.wait_for_function(
        "() => /changed/.test(document.querySelector('.actions > .quiet')?.textContent)"
    )


async def overview(page: Page, meter: Meter) -> None:
    """Read the whole result."""
    await meter.measure("result, all of it", partial(press, page, "button", WHOLE))


async def drafts(page: Page, meter: Meter) -> None:
    """Compare others, go through the changes, read the whole draft with its marks."""
    await settled(page)
    await meter.measure("drafts, next to it", partial(compare, page, "iterations/3"))
    await meter.measure("drafts, the given one", partial(compare, page, "iterations/0"))
    await meter.measure("drafts, one column", partial(press, page, "button", "In one column"))

    async def through() -> None:
        await page.evaluate("document.activeElement.blur()")
        for _ in range(10):
            await page.keyboard.press("n")

    await meter.measure("drafts, ten changes", through)
    await meter.measure("drafts, another one", partial(press, page, "td button", "iterations/2"))
    whole = partial(press, page, ".judgement button", WHOLE)
    await meter.measure("drafts, all of one", whole)


async def steps(page: Page, meter: Meter) -> None:
    """Read one, and list the next twenty."""
    one = partial(press, page, "summary", "iterations/3/critique")
    await meter.measure("steps, one", one)
    await meter.measure("steps, all of a prompt", partial(press, page, "button", WHOLE))
    await meter.measure("steps, the next ones", partial(press, page, "button", "More"))


async def request(page: Page, meter: Meter) -> None:
    """Read all of it."""
    await meter.measure("request, draft", partial(press, page, "summary", "Draft that was given"))
    await meter.measure("request, JSON", partial(press, page, "button", "Show the JSON"))


async def events(page: Page, meter: Meter) -> None:
    """Read an event with a draft."""
    await page.select_option("main select >> nth=0", "step.completed")
    one = partial(press, page, ".events li:nth-child(2) summary", "")
    await meter.measure("events, one with a draft", one)


ACTIONS = {
    "overview": overview,
    "drafts": drafts,
    "steps": steps,
    "request": request,
    "events": events,
}


async def main(iterations: int) -> None:
    """Measure, and print a table."""
    executable = next(filter(None, map(shutil.which, NAMES)))
    with tempfile.TemporaryDirectory() as folder:
        async with (
            running_service(Path(folder), max_output_tokens=100_000) as service,
            async_playwright() as playwright,
        ):
            browser = await playwright.chromium.launch(executable_path=executable, args=FLAGS)
            rows = await measured(browser, service, iterations)
            await browser.close()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print("| | longest task, ms | its CPU time, ms | received, MB | JavaScript heap, MB |")
    print("|---|---|---|---|---|")
    for it in rows:
        print(
            f"| {it.what} | {it.task_ms:.0f} | {it.cpu_ms:.0f} | {it.megabytes:.1f}"
            f" | {it.heap_megabytes:.0f} |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--iterations", type=int, default=50)
    asyncio.run(main(parser.parse_args().iterations))
