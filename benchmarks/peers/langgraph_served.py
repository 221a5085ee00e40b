"""What LangGraph's server plays: `graph`, with the model whose URL is in `MODEL_URL`.

The server is the one for development, which installs from the package index and needs no licence:
it keeps threads in memory, and writes them into files every few seconds.
"""

import asyncio
import os

from benchmarks.loop import AskModel
from benchmarks.peers.langgraph_graph import refining
from benchmarks.peers.telling import model_calls


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


graph = refining(LateClient(os.environ["MODEL_URL"]).ask).compile()
