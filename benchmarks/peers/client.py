"""Clients of peers with an API of their own; the refinements in flight are bounded."""

import argparse
import asyncio
import time
from typing import Any
from uuid import uuid4

import aiohttp
import uvloop

from benchmarks.load import STAMP
from benchmarks.loop import CALLS, MAX_ITERATIONS, SCORE, request_body
from benchmarks.peers.telling import say, told

THREAD_RUN = {"assistant_id": "refining", "input": {}, "durability": "sync"}
BODY = request_body()


class Client:
    """Has refinements played; notes the seconds from a model's reply until a watcher has it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self.since_reply: list[float] = []

    async def langgraph(self) -> None:
        """Play one as a run of a thread, and wait for its end."""
        thread = (await self._post("/threads", json={}))["thread_id"]
        ended = await self._post(f"/threads/{thread}/runs/wait", json=THREAD_RUN)
        _check((ended.get("iteration"), ended.get("score")) == (MAX_ITERATIONS, SCORE), ended)

    async def dbos(self) -> None:
        """Play one that is not watched."""
        ended = await self._post("/refine", data=BODY)
        _check(ended == {"score": SCORE}, ended)

    async def restate(self) -> None:
        """Play one that is not watched."""
        ended = await self._post(f"/Refinement/{uuid4().hex}/run", data=BODY)
        _check(ended == SCORE, ended)

    async def restate_watched(self) -> None:
        """Submit one, wait for each of its steps, and then for its end."""
        path = f"/Refinement/{uuid4().hex}"
        await self._post(f"{path}/run/send", data=BODY)
        for step in range(CALLS):
            async with self._session.post(f"{path}/step", json=step) as reply:
                found = STAMP.search(await reply.read())
            if found:
                self.since_reply.append(time.time() - float(found[1]))
        async with self._session.get(f"/restate/workflow{path}/attach") as reply:
            ended = await reply.json()
        _check(ended == SCORE, ended)

    async def _post(self, path: str, **body: Any) -> Any:
        async with self._session.post(path, **body) as reply:
            return await reply.json()


def _check(is_right: bool, ended: object) -> None:
    if not is_right:
        raise RuntimeError(f"ended with {ended}")


async def run(kind: str, port: int, count: int, at_once: int) -> None:
    """Have `count` refinements played, at most `at_once` at a time, and report."""
    seconds: list[float] = []
    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{port}",
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=300),
        headers={"Content-Type": "application/json"},
    ) as session:
        client = Client(session)
        play = getattr(client, kind)
        remaining = iter(range(count))

        async def runner() -> None:
            for _ in remaining:
                began = time.perf_counter()
                await play()
                seconds.append(time.perf_counter() - began)

        say()
        await told()
        started_at = time.time()
        await asyncio.gather(*[runner() for _ in range(at_once)])
        facts = {"seconds": seconds, "since_reply": client.since_reply}
        say(started_at=started_at, ended_at=time.time(), **facts)
        await told()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["langgraph", "dbos", "restate", "restate_watched"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--at-once", type=int, required=True)
    given = parser.parse_args()
    uvloop.run(run(given.kind, given.port, given.count, given.at_once))
