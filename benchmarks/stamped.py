"""The model server, with the due time in every reply: `Draft number 1 (at 1700000000.5).`

    python -m benchmarks.stamped --latency-ms 200      prints its port as JSON

Hone journals the replies of models, so a watcher can measure how old an event is.
"""

import argparse
import asyncio
import re
import time

import uvloop

from benchmarks.model_replies import AskedPrompt, Behaviour, ModelServerReply, improving
from benchmarks.model_server import ScriptedModelServer
from benchmarks.peers.telling import say

SAYS = re.compile(rb"(Draft number \d+|Version \d+ of \d+)\.")
"""Text that every reply contains; its first occurrence is stamped."""


def stamped(latency_s: float) -> Behaviour:
    """Return the improving model, with the time of the reply in its text."""

    def behave(asked: AskedPrompt) -> ModelServerReply:
        stamp = rb"\1 (at %.6f)." % (time.time() + latency_s)
        return ModelServerReply(body=SAYS.sub(stamp, improving(asked).body, count=1))

    return behave


async def serve(latency_s: float) -> None:
    """Serve until the process is ended."""
    async with ScriptedModelServer(stamped(latency_s), latency_s) as server:
        say(port=server.port)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=0.0)
    uvloop.run(serve(parser.parse_args().latency_ms / 1000))
