"""The store's two sides on a real Redis, and ways to make time pass without waiting."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis

from app.local.embedded import find_redis
from app.settings import Settings
from app.store import Store, WorkerStore, open_store, open_worker_store
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.connection import FIRST_RELEASE, worker_client
from tests.servers import find_oldest
from tests.store.store_harness import FlakyCommitter, ListQueue

SERVERS = {"chosen": find_redis} | ({"oldest": find_oldest} if find_oldest() else {})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what needs a server on the one that Hone chooses, and on the oldest supported if here."""
    if "redis_server" in metafunc.fixturenames:
        metafunc.parametrize(
            "redis_server", SERVERS.values(), ids=SERVERS, indirect=True, scope="session"
        )


@pytest.fixture
def settings(redis_url: str) -> Settings:
    with BlockingRedis.from_url(redis_url) as client:
        client.set(keys.FORMAT, FIRST_RELEASE)
        client.hset(keys.SLOTS, "worker-1", "1000")  # so that jobs go to the queue at once
    return Settings(redis_url=redis_url, redis_timeout_s=60, queue_max=1_000)


@pytest.fixture
def queue() -> ListQueue:
    return ListQueue()


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url, protocol=2) as client:
        yield client


@pytest.fixture
async def store(settings: Settings, queue: ListQueue) -> AsyncIterator[Store]:
    async with open_store(settings, queue) as store:
        yield store


@pytest.fixture
async def worker(settings: Settings, queue: ListQueue) -> AsyncIterator[WorkerStore]:
    async with open_worker_store(settings, queue, "worker-1") as worker:
        yield worker


@pytest.fixture
async def committer(redis_url: str) -> AsyncIterator[Committer]:
    async with worker_client(redis_url) as client, aclosing(Committer(client)) as committer:
        yield committer


@pytest.fixture
async def flaky(redis: Redis) -> AsyncIterator[FlakyCommitter]:
    async with aclosing(FlakyCommitter(redis)) as committer:
        yield committer
