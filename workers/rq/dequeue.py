"""Dequeues RQ jobs without losing any."""

import asyncio
import logging
from typing import Any, cast

from redis.asyncio import Redis
from rq import Queue

from app.queue import RefinementQueue
from app.store.codec import paired
from app.store.enqueue import JobSource
from workers.rq.registry import HeldJob, RqRegistry

log = logging.getLogger(__name__)

BLOCK_S = 1
LOOK_EVERY_S = 15.0
MOST_AT_ONCE = 50


class Dequeuer:
    """Dequeues jobs for one worker, as `source` admits them to the queue.

    As in RQ, a job moves from the queue into an intermediate list, where it stays until it is
    registered as started. Unlike in RQ, many jobs move at once. A job that stays there, because its
    worker died or the reply was lost, is taken by any worker that sees it twice. If a job runs
    twice, its refinement refuses the second claim.

    `client` must not retry commands: a repeated move would strand the job that moved first.
    """

    def __init__(
        self,
        queue: Queue,
        client: Redis,
        registry: RqRegistry,
        source: JobSource,
        *,
        block_s: int = BLOCK_S,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self.is_empty = False  # whether the queue was empty at the last look
        self._queue = queue
        self._client = client
        self._registry = registry
        self._source = source
        self._commands = RefinementQueue(queue.name)
        self._block_s = block_s
        self._look_every_s = look_every_s
        self._look_at = 0.0
        self._seen: set[bytes] = set()
        self._moved: list[bytes] = []
        self._may_wait = False  # the last look left free slots, and found nothing more
        self._connection_id: int | None = None

    async def take(self, room: int) -> list[HeldJob]:
        """Return up to `room` jobs, or none if the queue stays empty for `block_s` seconds.

        Raises Redis errors; the next call returns the jobs that were moved before the error.
        """
        try:
            self._moved = self._moved or await self._stranded(room)
            if (self._moved or not self._may_wait) and (jobs := await self._take(room)):
                return jobs
            await self._wait()
            return await self._take(room) if self._moved else []
        except BaseException:
            self.is_empty, self._connection_id = False, None
            self._may_wait = False
            self._seen = set()  # during an outage no worker can register what it started
            raise

    async def _take(self, room: int) -> list[HeldJob]:
        taken = await self._source.take(
            self._client, self._commands.template(), room, MOST_AT_ONCE, self._moved
        )
        self._moved = []
        wanted = min(room, MOST_AT_ONCE)  # no more are admitted: others may stand in line
        self.is_empty = self._may_wait = taken.left == 0 and len(taken.jobs) < wanted
        jobs = [self._restored(job_id, paired(fields)) for job_id, fields in taken.jobs]
        return [job for job in jobs if job is not None]

    async def put_back(self, jobs: list[HeldJob]) -> None:
        """Put jobs, and others that were moved already, back to the front of the queue in order."""
        job_ids = [*(job.id.encode() for job in jobs), *self._moved]
        if not job_ids:
            return
        async with self._client.pipeline() as pipeline:
            for job_id in reversed(job_ids):
                pipeline.lpush(self._queue.key, job_id)
                pipeline.lrem(self._queue.intermediate_queue_key, 1, cast("str", job_id))
            await pipeline.execute()
        self._moved = []

    async def stop(self) -> None:
        """Announce that no free slots are left, so that no jobs are admitted for them."""
        await self._source.take(self._client, "", 0, 0, ())

    async def interrupt(self, client: Redis) -> None:
        """Unblock a `take` that waits; `client` must not be the client that waits."""
        if self._connection_id is not None:
            await client.client_unblock(self._connection_id)

    async def _wait(self) -> None:
        self._may_wait = False
        if self._connection_id is None:
            self._connection_id = await self._client.client_id()
        job_id = await self._client.blmove(
            self._queue.key, self._queue.intermediate_queue_key, self._block_s
        )
        if job_id is not None:
            self._moved = [cast("bytes", job_id)]

    async def _stranded(self, room: int) -> list[bytes]:
        clock = asyncio.get_running_loop().time
        if clock() < self._look_at:
            return []
        there = await self._client.lrange(self._queue.intermediate_queue_key, 0, -1)
        held = {job_id.encode() for job_id in self._registry.held}
        before, self._seen = self._seen, set(cast("list[bytes]", there)) - held
        self._look_at = clock() + self._look_every_s
        return [*before & self._seen][:room]

    def _restored(self, job_id: bytes, fields: Any) -> HeldJob | None:
        try:
            job = HeldJob(job_id.decode(), self._queue.connection)
            job.serializer = self._queue.serializer  # not checked again for each job
            job.restore(fields)
        except Exception as error:  # noqa: BLE001 - a job may be garbage in any way
            log.warning("removed the unreadable job %r: %r", job_id, error)
            self._registry.dropped(job_id)
            return None
        job.origin = self._queue.name
        return job
