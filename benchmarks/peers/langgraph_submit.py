"""Has refinements played by LangGraph's server, each in a thread of its own."""

import argparse

import aiohttp
import uvloop

from benchmarks.peers.telling import play_all

RUN = {"assistant_id": "refining", "input": {}, "durability": "sync"}


async def submit(port: int, count: int, at_once: int) -> None:
    """Have `count` refinements played, at most `at_once` at a time."""
    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{port}",
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:

        async def refine(_number: int) -> None:
            async with session.post("/threads", json={}) as reply:
                thread = (await reply.json())["thread_id"]
            async with session.post(f"/threads/{thread}/runs/wait", json=RUN) as reply:
                ended = await reply.json()
            if (ended.get("iteration"), ended.get("score")) != (4, 0.95):
                raise RuntimeError(f"ended with {ended}")

        await play_all(refine, count, at_once)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--at-once", type=int, required=True)
    given = parser.parse_args()
    uvloop.run(submit(given.port, given.count, given.at_once))
