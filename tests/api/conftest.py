"""The API over real HTTP, on a real Redis, and the worker's side of the store."""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from redis import Redis

from app.api.server import ApiServer, Connection, configured
from app.local.embedded import EmbeddedRedis
from app.main import create_app
from app.queue import RefinementQueue
from app.service.watching import Shutdown
from app.settings import Settings
from app.store import Store, WorkerStore, open_store, open_worker_store
from app.store.redis import keys
from tests.waiting import LEASE_S, TIMEOUT_S, eventually


@contextmanager
def running(
    settings: Settings, app: FastAPI | None = None, connection: type[Connection] = Connection
) -> Iterator[str]:
    """Run the API in a thread with an event loop of its own; the address is yielded."""
    shutdown = Shutdown()
    app = app or create_app(settings, shutdown)
    server = ApiServer(configured(app, settings, connection), shutdown.close)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert eventually(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.handle_exit(15, None)
        thread.join()


@pytest.fixture
def redis_url(redis_url: str) -> str:
    """The address of a Redis with nothing in it but what the first process of a service writes."""
    with Redis.from_url(redis_url) as client:
        client.set(keys.FORMAT, keys.FIRST_RELEASE)
    return redis_url


@pytest.fixture(scope="package")
def settings(redis_server: EmbeddedRedis) -> Settings:
    """Settings of servers that outlive tests: keys of one test do not concern the next.

    They end with these tests: what they write would be found in the Redis of others. What others
    left there goes first: a server would refuse to start with it.
    """
    with Redis.from_url(redis_server.url) as client:
        client.flushall()
    return Settings(
        redis_url=redis_server.url,
        redis_timeout_s=TIMEOUT_S,
        lease_s=LEASE_S,
        port=0,
        max_body_bytes=300_000,
        auth="off",
    )


@pytest.fixture(scope="package")
def server(settings: Settings) -> Iterator[str]:
    with running(settings) as url:
        yield url


@pytest.fixture(scope="package")
def keyed(settings: Settings) -> Settings:
    """Settings with which endpoints may be called."""
    key = SecretStr("a secret key of the server")
    return settings.model_copy(update={"secret_key": key, "openai_api_key": SecretStr("key")})


@pytest.fixture(scope="package")
def keyed_server(keyed: Settings) -> Iterator[str]:
    with running(keyed) as url:
        yield url


@pytest.fixture
async def keyed_api(keyed_server: str, redis_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an API that may call endpoints, whose Redis is empty."""
    async with httpx.AsyncClient(base_url=keyed_server, timeout=TIMEOUT_S) as client:
        yield client


@pytest.fixture
async def keyed_worker(keyed: Settings, redis_url: str) -> AsyncIterator[WorkerStore]:
    async with open_worker_store(keyed, RefinementQueue(keyed.queue), "manual") as store:
        yield store


def requiring_keys(settings: Settings) -> Settings:
    """Return settings with a secret key, because tests empty the Redis that has the random one."""
    secret = SecretStr("a secret of the tests")
    return settings.model_copy(update={"secret_key": secret, "auth": "required"})


@pytest.fixture(scope="module")
def guarded(settings: Settings) -> Iterator[str]:
    """The address of an API for the settings of a module that `requiring_keys` has returned."""
    with running(settings) as url:
        yield url


@pytest.fixture
async def store(settings: Settings, redis_url: str) -> AsyncIterator[Store]:
    async with open_store(settings, RefinementQueue(settings.queue)) as store:
        yield store


@pytest.fixture
async def api(server: str, redis_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the API, whose Redis is empty."""
    async with httpx.AsyncClient(base_url=server, timeout=TIMEOUT_S) as client:
        yield client


@pytest.fixture
async def worker(settings: Settings, redis_url: str) -> AsyncIterator[WorkerStore]:
    async with open_worker_store(settings, RefinementQueue(settings.queue), "manual") as store:
        yield store
