"""The baseline: an asyncio loop that stores nothing. If it dies, everything is lost."""

import argparse

import uvloop

from benchmarks.loop import play
from benchmarks.peers.telling import model_calls, play_all


async def run(model_url: str, count: int, at_once: int) -> None:
    """Run `count` refinements, at most `at_once` at a time."""
    async with model_calls(model_url) as ask:

        async def refine(_number: int) -> None:
            await play(ask)

        await play_all(refine, count, at_once)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--at-once", type=int, required=True)
    arguments = parser.parse_args()
    uvloop.run(run(arguments.model, arguments.count, arguments.at_once))
