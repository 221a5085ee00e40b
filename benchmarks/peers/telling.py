"""The protocol between a process of the benchmark and its harness: lines of JSON."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
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


class LateClient:
    """A client of the model, opened by the first call: there is no event loop before."""

    def __init__(self, model_url: str) -> None:
        self._opening = model_calls(model_url)
        self._lock = asyncio.Lock()
        self._ask: AskModel | None = None

    async def ask(self, body: bytes) -> bytes:
        """Return the body of the model's reply."""
        async with self._lock:
            ask = self._ask = self._ask or await self._opening.__aenter__()
        return await ask(body)
