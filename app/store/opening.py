"""How a process gets its store."""

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from app.settings import Settings
from app.store.commands import Commands
from app.store.connection import (
    api_client,
    blocking_client,
    check_server,
    listening_client,
    worker_client,
)
from app.store.creation import Creation
from app.store.posting import Postman, Queue
from app.store.store import Store, refusals
from app.store.wakeups import Wakeups
from app.store.worker import WorkerStore

CREATORS = 8  # threads that create refinements in one API process


@asynccontextmanager
async def open_store(settings: Settings, queue: Queue) -> AsyncIterator[Store]:
    """Connect the API's side.

    Raises Unavailable, and UnusableRedis for a server that would lose records.
    """
    with (
        blocking_client(settings.redis_url) as blocking,
        ThreadPoolExecutor(CREATORS, "create") as executor,
    ):
        async with api_client(settings.redis_url) as client:
            async with refusals():
                await check_server(client)
            lease_ms = _milliseconds(settings.lease_s)
            creation = Creation(
                queue,
                blocking,
                executor,
                queue_max=settings.queue_max,
                lease_ms=lease_ms,
                retention_ms=_milliseconds(settings.retention_s),
            )
            postman = Postman(queue, blocking, executor, lease_ms)
            store = Store(client, creation, Commands(client, postman, lease_ms))
            yield store
            await store.aclose()


@asynccontextmanager
async def open_worker_store(
    settings: Settings, queue: Queue, name: str
) -> AsyncIterator[WorkerStore]:
    """Connect the worker's side under a name that is unique among workers.

    Raises redis errors, and UnusableRedis for a server that would lose records.
    """
    lease_ms = _milliseconds(settings.lease_s)
    with (
        blocking_client(settings.redis_url) as blocking,
        ThreadPoolExecutor(1, "post") as executor,
    ):
        async with (
            worker_client(settings.redis_url) as client,
            listening_client(settings.redis_url) as listener,
        ):
            await check_server(client)
            postman = Postman(queue, blocking, executor, lease_ms)
            store = WorkerStore(client, listener, postman, name=name, lease_ms=lease_ms)
            yield store
            await store.aclose()


@asynccontextmanager
async def open_wakeups(settings: Settings) -> AsyncIterator[Wakeups]:
    """Start the API process's one pub/sub connection."""
    async with listening_client(settings.redis_url) as listener, Wakeups(listener) as wakeups:
        yield wakeups


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
