"""The protocol between a process of the benchmark and its harness: lines of JSON."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from benchmarks.loop import AskModel


def say(**facts: Any) -> None:
    """Print a line of JSON for the harness."""
    print(json.dumps(facts), flush=True)


async def told() -> str:
    """Wait for a line from the harness."""
    line: str = await asyncio.to_thread(sys.stdin.readline)
    return line.strip()


@asynccontextmanager
async def model_calls(model_url: str) -> AsyncIterator[AskModel]:
    """Open the fastest reasonable client: aiohttp without limits, cookies and redirects."""
    headers = {"Content-Type": "application/json", "Authorization": "Bearer key"}
    url = f"{model_url}/chat/completions"
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers=headers,
    ) as session:

        async def ask(body: bytes) -> bytes:
            async with session.post(url, data=body, allow_redirects=False) as reply:
                return await reply.read()

        yield ask


async def play_all(refine: Callable[[int], Awaitable[None]], count: int, at_once: int) -> None:
    """Run `count` refinements by number once told to, at most `at_once` at a time, and report."""
    seconds: list[float] = []
    say()
    await told()
    remaining = iter(range(count))

    async def runner() -> None:
        for number in remaining:
            began = time.perf_counter()
            await refine(number)
            seconds.append(time.perf_counter() - began)

    started_at = time.time()
    await asyncio.gather(*[runner() for _ in range(at_once)])
    say(started_at=started_at, ended_at=time.time(), seconds=seconds)
    await told()
