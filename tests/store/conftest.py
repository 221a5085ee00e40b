"""The store's two sides on a real Redis, and ways to make time pass without waiting."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis

from app.local.embedded import EmbeddedRedis, find_redis
from app.settings import Settings
from app.store import Store, WorkerStore, open_store, open_worker_store
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.connection import async_client, layout_of, worker_client
from tests.redis_cluster import RedisCluster, redis_cluster
from tests.servers import find_oldest
from tests.store.store_harness import FlakyCommitter, ListQueue
from tests.waiting import LEASE_S

HAS_OLDEST = find_oldest() is not None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what needs a server on the one that Hone chooses, and on the oldest supported if here.

    Also in a cluster, but for what is about one server. Every script runs on the oldest server in
    the short run of the tests too; the rest is long there, and in a cluster.
    """
    if "redis_server" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker
        servers = []
        if not marked("in_cluster"):
            servers.append(pytest.param(find_redis, id="chosen"))
        if not marked("in_cluster") and HAS_OLDEST:
            marks = [] if marked("oldest_too") else [pytest.mark.long]
            servers.append(pytest.param(find_oldest, id="oldest", marks=marks))
        if not marked("one_server"):
            marks = [] if marked("in_cluster") else [pytest.mark.long]
            servers.append(pytest.param(redis_cluster, id="cluster", marks=marks))
        metafunc.parametrize("redis_server", servers, indirect=True, scope="session")


@pytest.fixture(scope="session")
def redis_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedRedis | RedisCluster]:
    path = tmp_path_factory.mktemp("redis")
    if request.param is redis_cluster:
        with redis_cluster(path) as cluster:
            yield cluster
    else:
        with EmbeddedRedis(path, aof=False, binary=request.param()) as server:
            yield server


@pytest.fixture
def redis_url(redis_server: EmbeddedRedis | RedisCluster) -> str:
    with BlockingRedis.from_url(server_url(redis_server)) as client:
        client.flushall()
    return redis_server.url


def server_url(server: EmbeddedRedis | RedisCluster) -> str:
    """Return the URL of the one server that has all keys."""
    return server.owner_url if isinstance(server, RedisCluster) else server.url


@pytest.fixture
def settings(redis_url: str, redis_server: EmbeddedRedis | RedisCluster) -> Settings:
    name = layout_of(redis_url).name
    with BlockingRedis.from_url(server_url(redis_server)) as client:
        client.set(name(keys.FORMAT), keys.FIRST_RELEASE)
        client.hset(name(keys.SLOTS), "worker-1", "1000")  # so that jobs go to the queue at once
    return Settings(redis_url=redis_url, redis_timeout_s=60, queue_max=1_000, lease_s=LEASE_S)


@pytest.fixture
def queue() -> ListQueue:
    return ListQueue()


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with async_client(redis_url, protocol=2) as client:
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
