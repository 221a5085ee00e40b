"""Dequeues RQ jobs without losing any."""

import asyncio
import logging
from typing import Any, cast

from redis.asyncio import Redis
from rq import Queue

from workers.rq.registry import HeldJob, RqRegistry

log = logging.getLogger(__name__)

BLOCK_S = 1
LOOK_EVERY_S = 15.0
MOST_AT_ONCE = 50


class Dequeuer:
    """Dequeues jobs for one worker.

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
        *,
        block_s: int = BLOCK_S,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self.is_empty = False  # whether the queue was empty at the last look
        self._queue = queue
        self._client = client
        self._registry = registry
        self._block_s = block_s
        self._look_every_s = look_every_s
        self._look_at = 0.0
        self._seen: set[bytes] = set()
        self._moved: list[bytes] = []
        self._waiting = 0
        self._connection_id: int | None = None

    async def take(self, room: int) -> list[HeldJob]:
        """Return up to `room` jobs, or none if the queue stays empty for `block_s` seconds.

        Raises Redis errors; the next call returns the jobs that were moved before the error.
        """
        try:
            self._moved = self._moved or await self._move(room)
            if not self._moved:
                return []
            pipeline = self._client.pipeline(transaction=False)
            for job_id in self._moved:
                pipeline.hgetall(_key(job_id))
            pipeline.llen(self._queue.key)
            *hashes, self._waiting = await pipeline.execute(raise_on_error=False)
        except BaseException:
            self.is_empty, self._connection_id = False, None
            self._seen = set()  # during an outage no worker can register what it started
            raise
        moved, self._moved = self._moved, []
        self.is_empty = self._waiting == 0 and len(moved) < room
        jobs = [self._restored(*pair) for pair in zip(moved, hashes, strict=True)]
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

    async def interrupt(self, client: Redis) -> None:
        """Unblock a `take` that waits; `client` must not be the client that waits."""
        if self._connection_id is not None:
            await client.client_unblock(self._connection_id)

    async def _move(self, room: int) -> list[bytes]:
        clock = asyncio.get_running_loop().time
        if clock() >= self._look_at:
            stranded = await self._stranded()
            self._look_at = clock() + self._look_every_s
            if stranded:
                return stranded[:room]
        if not self._waiting:
            return await self._wait()
        pipeline = self._client.pipeline(transaction=False)
        for _ in range(min(room, self._waiting, MOST_AT_ONCE)):
            pipeline.lmove(self._queue.key, self._queue.intermediate_queue_key)
        self._waiting = 0
        return [job_id for job_id in await pipeline.execute() if job_id is not None]

    async def _wait(self) -> list[bytes]:
        if self._connection_id is None:
            self._connection_id = await self._client.client_id()
        job_id = await self._client.blmove(
            self._queue.key, self._queue.intermediate_queue_key, self._block_s
        )
        self.is_empty = job_id is None
        return [] if job_id is None else [cast("bytes", job_id)]

    async def _stranded(self) -> list[bytes]:
        there = await self._client.lrange(self._queue.intermediate_queue_key, 0, -1)
        held = {job_id.encode() for job_id in self._registry.held}
        before, self._seen = self._seen, set(cast("list[bytes]", there)) - held
        return [*before & self._seen]

    def _restored(self, job_id: bytes, fields: Any) -> HeldJob | None:
        connection, serializer = self._queue.connection, self._queue.serializer
        try:
            job = HeldJob(job_id.decode(), connection, serializer)
            job.restore(fields)
        except Exception as error:  # noqa: BLE001 - a job may be garbage in any way
            log.warning("removed the unreadable job %r: %r", job_id, error)
            self._registry.dropped(job_id)
            return None
        job.origin = self._queue.name
        return job


def _key(job_id: bytes) -> bytes:
    return HeldJob.redis_job_namespace_prefix.encode() + job_id
