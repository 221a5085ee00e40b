"""A TCP reset of a connection to Redis is a lost connection like any other, on uvloop too."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import aclosing
from urllib.parse import unquote, urlsplit

import pytest
import uvloop
from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.local.embedded import EmbeddedRedis
from app.store.redis.committer import Committer
from app.store.redis.connection import api_client, is_away, listening_client, worker_client
from app.store.wakeups import Wakeups
from tests.faults.tcp_proxy import TcpProxy, tcp_proxy
from tests.waiting import TIMEOUT_S
from workers.rq import single_try_client

RESETS = 160
LARGE = "x" * 20_000


def of_the_api(url: str) -> Redis:
    return api_client(url)


def of_the_dequeuer(url: str) -> Redis:
    return single_try_client(url, "test")


async def answers_during_resets(
    client: Redis, proxy: TcpProxy, are_enough: Callable[[Sequence[object]], bool]
) -> list[object]:
    """What calls were answered whose connections were reset while they were under way.

    How many of them a reset meets depends on how busy the machine is: it goes on until they are
    enough.
    """

    async def write() -> bool:
        async with client.pipeline(transaction=False) as pipeline:
            for _ in range(50):  # more than a socket's buffer holds
                pipeline.set("key", LARGE)
            return all(await pipeline.execute())

    loop, chance = asyncio.get_running_loop(), random.Random(8)
    answers: list[object] = []
    async with asyncio.timeout(TIMEOUT_S):
        while not are_enough(answers):
            writes = [write() for _ in range(4)]
            calls = asyncio.gather(*writes, client.ping(), return_exceptions=True)
            await asyncio.sleep(chance.random() * 0.02)
            await loop.run_in_executor(None, proxy.reset)
            answers += await calls
    await client.aclose()
    return answers


@pytest.mark.parametrize("open_client", [of_the_api, worker_client, of_the_dequeuer])
def test_every_call_during_resets_is_answered_or_raises_a_redis_error(
    redis_server: EmbeddedRedis, open_client: Callable[[str], Redis]
) -> None:
    with tcp_proxy(unquote(urlsplit(redis_server.url).path)) as proxy:
        answers = uvloop.run(
            answers_during_resets(open_client(proxy.url), proxy, lambda _: proxy.resets >= RESETS)
        )
    errors = [it for it in answers if it is not True]
    assert [it for it in errors if not (isinstance(it, RedisError) and is_away(it))] == []


async def connections(redis: Redis) -> int:
    return int((await redis.info("stats"))["total_connections_received"])


async def test_the_connection_of_watchers_that_falls_silent_is_replaced(
    redis_server: EmbeddedRedis,
) -> None:
    with tcp_proxy(unquote(urlsplit(redis_server.url).path)) as proxy:
        async with (
            api_client(redis_server.url) as redis,
            listening_client(proxy.url) as listener,
            Wakeups(listener, ping_s=0.05) as wakeups,
            wakeups.follow("ref_1") as buffer,
            asyncio.timeout(TIMEOUT_S),
        ):
            buffer.take(0)
            proxy.is_silent, before = True, await connections(redis)
            while await connections(redis) == before:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.05)
            proxy.is_silent = False
            assert await buffer.wait(TIMEOUT_S)
            assert buffer.take(0) is None


async def requests_during_resets(proxy: TcpProxy) -> list[object]:
    """What the requests of a committer were answered, each of which asks for another text."""
    loop, chance = asyncio.get_running_loop(), random.Random(8)
    wrong: list[object] = []
    async with worker_client(proxy.url) as client, aclosing(Committer(client)) as committer:
        async with asyncio.timeout(TIMEOUT_S):
            while proxy.resets < RESETS // 3:
                texts = [f"{n}:" * 5_000 for n in range(50)]
                requests = [committer.execute("ECHO", it) for it in texts]
                await asyncio.sleep(chance.random() * 0.02)
                await loop.run_in_executor(None, proxy.reset)
                answers = await asyncio.gather(*requests, return_exceptions=True)
                pairs = zip(answers, texts, strict=True)
                wrong += [it for it, text in pairs if it != text.encode() and not is_lost(it)]
    return wrong


def is_lost(answer: object) -> bool:
    return isinstance(answer, RedisError) and is_away(answer)


def test_every_request_of_a_committer_during_resets_gets_its_own_answer_or_a_redis_error(
    redis_server: EmbeddedRedis,
) -> None:
    with tcp_proxy(unquote(urlsplit(redis_server.url).path)) as proxy:
        assert uvloop.run(requests_during_resets(proxy)) == []


def test_without_that_care_the_same_calls_raise_what_redis_py_does_not_know(
    redis_server: EmbeddedRedis,
) -> None:
    with tcp_proxy(unquote(urlsplit(redis_server.url).path)) as proxy:
        plain = Redis.from_url(proxy.url, socket_timeout=2, protocol=2)
        uvloop.run(
            answers_during_resets(plain, proxy, lambda it: RuntimeError in set(map(type, it)))
        )
