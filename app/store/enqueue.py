"""Putting jobs into the RQ queue, from coroutines: RQ is synchronous, so threads do it."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Protocol

from redis import Redis
from redis.client import Pipeline

from app.store.scripts import POSTED
from app.store.state import Job


class Queue(Protocol):
    """What the store needs of the RQ queue, which stands above it."""

    def enqueue(self, refinement_id: str, job_id: str, pipeline: Pipeline) -> None:
        """Add the commands that enqueue one job to a fresh pipeline, as its first calls."""

    def length(self, connection: Redis) -> int:
        """Return how many jobs wait; `connection` may be a pipeline that watches keys."""


class Enqueuer:
    """Enqueues what was taken: the job and the note that it is in the queue, together."""

    def __init__(self, queue: Queue, client: Redis, executor: Executor, lease_ms: int) -> None:
        self._queue = queue
        self._client = client
        self._executor = executor
        self._lease_ms = lease_ms

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Enqueue every job; one that is enqueued twice does no harm."""
        if jobs:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._executor, self._enqueue, jobs)

    def _enqueue(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            with self._client.pipeline(transaction=True) as pipeline:
                self._queue.enqueue(job.refinement_id, job.job_id, pipeline)
                # The text, not its hash: a script that Redis has lost must not fail in here.
                pipeline.eval(POSTED.text, 0, job.refinement_id, self._lease_ms)
                pipeline.execute()
