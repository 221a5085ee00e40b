"""SAQ: asyncio jobs in one process, and our own checkpoint in Redis after every step.

The checkpoint is one MULTI (the reply into a hash, its expiry, a wake-up for watchers): faster than
SAQ's `job.update`, which takes up to three round trips and writes the whole job again. If the
worker dies, the calls in flight are lost; steps are not numbered, fenced or replayed.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop
from redis.asyncio import ConnectionPool, Redis
from saq import Worker
from saq.queue.redis import RedisQueue
from saq.types import Context

from benchmarks.loop import play
from benchmarks.peers.telling import model_calls, say, told


@asynccontextmanager
async def queue_of(redis_url: str, most_connections: int) -> AsyncIterator[RedisQueue]:
    """Open SAQ's queue; each waiting slot of a worker holds a connection."""
    pool = ConnectionPool.from_url(redis_url, max_connections=most_connections, socket_timeout=None)
    queue = RedisQueue(Redis(connection_pool=pool), name="peer", max_concurrent_ops=200)
    try:
        yield queue
    finally:
        await queue.disconnect()


async def work(redis_url: str, model_url: str, count: int, at_once: int) -> None:
    """Run the worker until `count` refinements have ended."""
    seconds: list[float] = []
    all_done = asyncio.Event()

    async with queue_of(redis_url, at_once * 2 + 500) as queue, model_calls(model_url) as ask:
        redis = queue.redis

        async def refine(ctx: Context) -> None:
            began = time.perf_counter()
            key = f"peer:steps:{ctx['job'].key}"

            async def checkpoint(step: int, reply: bytes) -> None:
                async with redis.pipeline(transaction=True) as pipe:
                    pipe.hset(key, str(step), reply)
                    pipe.expire(key, 86_400)
                    pipe.publish(key, step)
                    await pipe.execute()

            await play(ask, checkpoint)
            seconds.append(time.perf_counter() - began)

        async def after(_: Context) -> None:
            if len(seconds) == count:
                all_done.set()

        worker = Worker(queue, [("refine", refine)], concurrency=at_once, after_process=after)
        running = asyncio.create_task(worker.start())
        await _settled(queue, at_once)
        say()
        await all_done.wait()
        say(ended_at=time.time(), seconds=seconds)
        await told()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _settled(queue: RedisQueue, at_once: int) -> None:
    """Wait until every slot waits for a job and the first sweep, which retries jobs, is over."""
    while (await queue.redis.info("clients"))["blocked_clients"] < at_once:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    while not await queue.redis.exists(queue.namespace("sweep")):  # noqa: ASYNC110
        await asyncio.sleep(0.1)


async def submit(redis_url: str, count: int) -> None:
    """Enqueue the refinements."""
    async with queue_of(redis_url, 64) as queue:
        say()
        await told()
        started_at = time.time()
        remaining = iter(range(count))

        async def submitter() -> None:
            for _ in remaining:
                await queue.enqueue("refine", timeout=0, ttl=86_400)

        await asyncio.gather(*[submitter() for _ in range(16)])
        say(started_at=started_at)
        await told()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["work", "submit"])
    parser.add_argument("--redis", required=True)
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--at-once", type=int)
    arguments = parser.parse_args()
    if arguments.role == "work":
        uvloop.run(work(arguments.redis, arguments.model, arguments.count, arguments.at_once))
    else:
        uvloop.run(submit(arguments.redis, arguments.count))
