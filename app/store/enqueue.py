"""Enqueues jobs in RQ by a script, which runs the commands that RQ itself recorded."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from app.store.committer import Committer
from app.store.scripts import ENQUEUE
from app.store.state import Job

Word = str | bytes | int | float


class Queue(Protocol):
    """The part of the RQ queue that the store uses; the queue is in a higher layer."""

    @property
    def key(self) -> str:
        """The list in Redis that holds the waiting jobs."""

    def commands(
        self, refinement_id: str, job_id: str, *, is_first: bool = False
    ) -> Sequence[Sequence[Word]]:
        """Return the commands that enqueue one job, to be executed in one transaction."""


def script_words(commands: Iterable[Sequence[Word]]) -> list[Word]:
    """Return commands as arguments for prelude.lua's `perform`."""
    return [word for command in commands for word in (len(command), *command)]


class Enqueuer:
    """Enqueues jobs, each in one step with the record that it is in the queue."""

    def __init__(self, queue: Queue, committer: Committer, lease_ms: int) -> None:
        self._queue = queue
        self._committer = committer
        self._lease_ms = lease_ms

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """Send a job to Redis before all later requests; enqueuing one twice is harmless."""
        commands = self._queue.commands(job.refinement_id, job.job_id, is_first=job.is_first)
        words = script_words(commands)
        return self._committer.submit(ENQUEUE, job.refinement_id, self._lease_ms, *words)

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Return when every job is enqueued, or raise a redis error."""
        await asyncio.gather(*map(self.submit, jobs))
