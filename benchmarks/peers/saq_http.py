"""SAQ over HTTP: a FastAPI before a queue, and a stream of Redis with the steps of each refinement.

What a team writes in an afternoon. A step is one MULTI: XADD stores its reply, PUBLISH wakes the
watchers. If the worker dies, the refinements that it plays stay begun: no other worker goes on with
them. Steps are neither fenced nor replayed; nobody has a key, a limit, a budget or a list.
"""

import argparse
import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import uvicorn
import uvloop
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from redis.asyncio import ConnectionPool, Redis
from saq import Worker  # type: ignore[import-not-found, unused-ignore]
from saq.queue.redis import RedisQueue  # type: ignore[import-not-found, unused-ignore]

from benchmarks.loop import play
from benchmarks.peers.telling import model_calls, say

KEPT_S = 86_400
pool = ConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=10_000, socket_timeout=None)
redis = Redis(connection_pool=pool)
queue = RedisQueue(redis, name="peer", max_concurrent_ops=200)
app = FastAPI()


@app.post("/v1/refinements", status_code=202)
async def submit(request: dict[str, Any]) -> dict[str, str]:
    """Enqueue a refinement."""
    refinement_id = uuid4().hex
    await queue.enqueue("refine", key=refinement_id, request=request, timeout=0, ttl=KEPT_S)
    return {"id": refinement_id, "status": "queued"}


@app.get("/v1/refinements/{refinement_id}/events")
async def watch(refinement_id: str) -> StreamingResponse:
    """Stream the steps that there are, and those that follow."""
    return StreamingResponse(_events(refinement_id), media_type="text/event-stream")


async def _events(refinement_id: str) -> AsyncIterator[bytes]:
    key = f"steps:{refinement_id}"
    async with redis.pubsub() as pubsub:
        await pubsub.subscribe(key)
        last = 0
        entries: Any = await redis.xrange(key)
        for _, entry in entries:
            yield entry[b"event"]
            last = int(entry[b"number"])
        async for message in pubsub.listen():
            if message["type"] == "message":
                number, _, event = message["data"].partition(b" ")
                if int(number) > last:
                    yield bytes(event)


async def work(model_url: str, at_once: int) -> None:
    """Play refinements, at most `at_once` at a time."""
    async with model_calls(model_url) as ask:

        async def refine(ctx: Any, *, request: dict[str, Any]) -> None:
            key, number = f"steps:{ctx['job'].key}", 0

            async def append(kind: str, **more: Any) -> None:
                nonlocal number
                number += 1
                data = json.dumps({"at": datetime.now(UTC).isoformat(), **more})
                event = f"id: {number}\nevent: {kind}\ndata: {data}\n\n"
                async with redis.pipeline(transaction=True) as pipe:
                    pipe.xadd(key, {"number": number, "event": event})
                    pipe.expire(key, KEPT_S)
                    pipe.publish(key, f"{number} {event}")
                    await pipe.execute()

            async def checkpoint(step: int, reply: bytes) -> None:
                await append("step.completed", step=step, reply=reply.decode())

            await append("refinement.started")
            score = await play(ask, checkpoint)
            await append("refinement.completed", score=score)

        say()
        await Worker(queue, [("refine", refine)], concurrency=at_once).start()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--model")
    parser.add_argument("--at-once", type=int)
    given = parser.parse_args()
    if given.port:
        uvicorn.run(app, port=given.port, log_level="error", access_log=False)
    else:
        uvloop.run(work(given.model, given.at_once))
