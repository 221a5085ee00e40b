"""Enqueues jobs in RQ by scripts, which run the commands that RQ itself recorded, and takes them.

What waits to be played for the first time, or again after a command, stands in a line per tenant
unless a slot is free for it (`stand_in_line` in queue.lua); take_jobs.lua alone decides who is
next. The RQ queue holds what was admitted, what continues after its worker was lost, and what has a
permit or must end. `create` and `Enqueuer` feed both; the caller need not know which.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from redis.asyncio import Redis

from app.contract.values import value
from app.store.redis.committer import Committer
from app.store.redis.connection import layout_in, run_script
from app.store.redis.keys import Word, script_words
from app.store.redis.scripts import ENQUEUE, TAKE_JOBS
from app.store.state import Job


class Queue(Protocol):
    """The part of the RQ queue that the store uses; the queue is in a higher layer."""

    @property
    def key(self) -> str:
        """The list in Redis that holds the waiting jobs."""

    def commands(
        self, refinement_id: str, job_id: str, *, is_first: bool = False
    ) -> Sequence[Sequence[Word]]:
        """Return the commands that enqueue one job, to be executed in one transaction."""


class Enqueuer:
    """Enqueues jobs, each in one step with the record that it is in the queue."""

    def __init__(self, queue: Queue, committer: Committer, lease_ms: int) -> None:
        self._queue = queue
        self._committer = committer
        self._lease_ms = lease_ms

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """Send a job to Redis before all later requests; enqueuing one twice is harmless."""
        commands = self._queue.commands(job.refinement_id, job.job_id, is_first=job.is_first)
        layout = self._committer.layout
        words = script_words(commands, layout)
        place = (layout.name(self._queue.key), int(job.is_first))
        return self._committer.submit(ENQUEUE, job.refinement_id, self._lease_ms, *place, *words)

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Return when every job is enqueued, or raise a redis error."""
        await asyncio.gather(*map(self.submit, jobs))


EQUAL_WEIGHTS: Mapping[str, float] = {}


@value(slots=True)
class Taken:
    """The ids of jobs and their fields in RQ, and how many more are in the queue."""

    jobs: Sequence[tuple[bytes, Sequence[Any]]]
    left: int


class JobSource:
    """Takes jobs for one worker, and admits refinements in line to the queue for that.

    Tenants take turns, those with a weight of 2 twice as often; a tenant that is not listed has the
    weight 1. Within a tenant, `batch` comes after the rest, then the older one first. `queues` are
    the keys of the RQ queue and of its intermediate list.
    """

    def __init__(
        self,
        worker: str,
        queues: tuple[str, str],
        job_prefix: str,
        lease_ms: int,
        weights: Mapping[str, float] = EQUAL_WEIGHTS,
    ) -> None:
        self._worker = worker
        self._keys = (*queues, job_prefix)
        self._shares = (lease_ms, json.dumps(dict(weights)))

    async def dequeue(
        self, client: Redis, template: str, free: int, most: int, moved: Sequence[bytes]
    ) -> Taken:
        """Move up to `most` jobs into the intermediate list, at most one per free slot.

        Those that were `moved` before count, and are returned with the others. `template` has the
        commands that enqueue a job. Raises redis errors; the jobs may have been moved then.
        """
        layout = layout_in(client)
        places: list[str | int] = [*map(layout.name, self._keys), *self._shares]
        args = (self._worker, free, most, *places, layout.json_of_rq(template), *moved)
        left, *found = await run_script(client, TAKE_JOBS, *args)
        return Taken(tuple(zip(found[::2], found[1::2], strict=True)), left)
