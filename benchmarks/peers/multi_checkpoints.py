"""An asyncio loop of one's own with one MULTI in Redis per step: the least that loses no reply.

The reply goes into a hash, with its expiry and a wake-up for watchers, as with SAQ. There is no
queue: if the process dies, somebody has to know which refinements had begun, and go on with them.
"""

import argparse

import uvloop
from redis.asyncio import ConnectionPool, Redis

from benchmarks.loop import play
from benchmarks.peers.telling import model_calls, play_all


async def run(redis_url: str, model_url: str, count: int, at_once: int) -> None:
    """Run `count` refinements, at most `at_once` at a time."""
    pool = ConnectionPool.from_url(redis_url, max_connections=at_once + 10, socket_timeout=None)
    async with Redis(connection_pool=pool) as redis, model_calls(model_url) as ask:

        async def refine(number: int) -> None:
            key = f"peer:steps:{number}"

            async def checkpoint(step: int, reply: bytes) -> None:
                async with redis.pipeline(transaction=True) as pipe:
                    pipe.hset(key, str(step), reply)
                    pipe.expire(key, 86_400)
                    pipe.publish(key, step)
                    await pipe.execute()

            await play(ask, checkpoint)

        await play_all(refine, count, at_once)
    await pool.disconnect()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--redis", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--at-once", type=int, required=True)
    given = parser.parse_args()
    uvloop.run(run(given.redis, given.model, given.count, given.at_once))
