"""The model server, its replies stamped with their due time: a model named `bench@1700000000.5`.

    python -m benchmarks.stamped --latency-ms 200      prints its port as JSON

Hone journals the name that a model gives itself, so a watcher can tell how old the news is.
"""

import argparse
import asyncio
import time

import uvloop

from benchmarks.model_replies import Asked, Behaviour, Reply, improving
from benchmarks.model_server import ModelServer
from benchmarks.peers.telling import say

NAME = b'"model": "bench"'


def stamped(latency_s: float) -> Behaviour:
    """Return the improving model, with the time of the answer in its name."""

    def behave(asked: Asked) -> Reply:
        name = b'"model": "bench@%.6f"' % (time.time() + latency_s)
        return Reply(body=improving(asked).body.replace(NAME, name, 1))

    return behave


async def serve(latency_s: float) -> None:
    """Serve until the process is ended."""
    async with ModelServer(stamped(latency_s), latency_s) as server:
        say(port=server.port)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=0.0)
    uvloop.run(serve(parser.parse_args().latency_ms / 1000))
