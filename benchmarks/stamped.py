"""The model server, with the due time in every reply: `Draft number 1 (at 1700000000.5).`

    python -m benchmarks.stamped --latency-ms 200      prints its port as JSON

With `--climbing` the drafts hardly get better, and have the length that the task asks for.

Hone journals the replies of models, so a watcher can measure how old an event is.
"""

import argparse
import asyncio
import re
import time

import uvloop

from benchmarks.model_replies import AskedPrompt, Behaviour, ModelServerReply, climbing, improving
from benchmarks.model_server import ScriptedModelServer, server_tls
from benchmarks.peers.telling import say

SAYS = re.compile(rb"(Draft number \d+|Version \d+ of \d+)\.")
"""Text that every reply contains; its first occurrence is stamped."""


def stamped(latency_s: float) -> Behaviour:
    """Return the improving model, with the time of the reply in its text."""

    def behave(asked: AskedPrompt) -> ModelServerReply:
        stamp = rb"\1 (at %.6f)." % (time.time() + latency_s)
        return ModelServerReply(body=SAYS.sub(stamp, improving(asked).body, count=1))

    return behave


async def serve(latency_s: float, certificate: str | None, *, is_climbing: bool) -> None:
    """Serve until the process is ended; with a certificate over TLS."""
    behaviour = climbing if is_climbing else stamped(latency_s)
    tls = server_tls(certificate) if certificate else None
    async with ScriptedModelServer(behaviour, latency_s, tls=tls) as server:
        say(port=server.port)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--certificate", help="a file with a certificate and its key")
    parser.add_argument("--climbing", action="store_true")
    given = parser.parse_args()
    uvloop.run(serve(given.latency_ms / 1000, given.certificate, is_climbing=given.climbing))
