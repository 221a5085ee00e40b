"""The baseline: an asyncio loop that stores nothing. If it dies, everything is lost."""

import argparse
import asyncio
import time

import uvloop

from benchmarks.loop import play
from benchmarks.peers.telling import model_calls, say, told


async def run(model_url: str, count: int, at_once: int) -> None:
    """Run `count` refinements, at most `at_once` at a time."""
    seconds: list[float] = []
    async with model_calls(model_url) as ask:
        say()
        await told()
        remaining = iter(range(count))

        async def runner() -> None:
            for _ in remaining:
                began = time.perf_counter()
                await play(ask)
                seconds.append(time.perf_counter() - began)

        started_at = time.time()
        await asyncio.gather(*[runner() for _ in range(at_once)])
        say(started_at=started_at, ended_at=time.time(), seconds=seconds)
        await told()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--at-once", type=int, required=True)
    arguments = parser.parse_args()
    uvloop.run(run(arguments.model, arguments.count, arguments.at_once))
