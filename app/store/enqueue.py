"""Enqueues jobs in RQ from coroutines: RQ is synchronous, so threads call it."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Protocol

from redis import Redis
from redis.client import Pipeline

from app.store.scripts import POSTED
from app.store.state import Job


class Queue(Protocol):
    """The part of the RQ queue that the store uses; the queue is in a higher layer."""

    def enqueue(self, refinement_id: str, job_id: str, pipeline: Pipeline) -> None:
        """Add the commands that enqueue one job to a fresh pipeline, as its first calls."""

    def length(self, connection: Redis) -> int:
        """Return the number of waiting jobs; `connection` may be a pipeline that watches keys."""


class Enqueuer:
    """Enqueues jobs, each in one transaction with the record that it is in the queue."""

    def __init__(self, queue: Queue, client: Redis, executor: Executor, lease_ms: int) -> None:
        self._queue = queue
        self._client = client
        self._executor = executor
        self._lease_ms = lease_ms

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Enqueue every job; enqueuing one twice is harmless."""
        if jobs:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._executor, self._enqueue, jobs)

    def _enqueue(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            with self._client.pipeline(transaction=True) as pipeline:
                self._queue.enqueue(job.refinement_id, job.job_id, pipeline)
                # The text, not its hash: a script that Redis has lost must not fail here.
                pipeline.eval(POSTED.text, 0, job.refinement_id, self._lease_ms)
                pipeline.execute()
