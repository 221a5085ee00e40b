"""How a process gets its store."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from redis import Redis
from redis.client import Pipeline

from app.settings import Settings
from app.store.store import Store
from app.store.wakeups import Wakeups
from app.store.worker import WorkerStore


class Queue(Protocol):
    """What the store needs of the RQ queue, which stands above it."""

    def enqueue(self, refinement_id: str, job_id: str, pipeline: Pipeline) -> None:
        """Add the commands that enqueue one job to a fresh pipeline, as its first calls."""

    def length(self, connection: Redis) -> int:
        """Return how many jobs wait; `connection` may be a pipeline that watches keys."""


def open_store(settings: Settings, queue: Queue) -> AbstractAsyncContextManager[Store]:
    """Connect the API's side; raises UnusableRedis for a server that would lose data."""
    raise NotImplementedError


def open_worker_store(
    settings: Settings, queue: Queue, name: str
) -> AbstractAsyncContextManager[WorkerStore]:
    """Connect the worker's side under a name that is unique among workers; raises UnusableRedis."""
    raise NotImplementedError


def open_wakeups(settings: Settings) -> AbstractAsyncContextManager[Wakeups]:
    """Connect the API process's one pub/sub connection."""
    raise NotImplementedError
