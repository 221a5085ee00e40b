"""What RQ shows of this worker and its jobs, written without asking Redis."""

import asyncio
import logging
from collections.abc import Callable
from functools import cached_property
from typing import cast

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.client import Pipeline
from redis.exceptions import RedisError
from rq import worker_registration
from rq.executions import Execution, ExecutionRegistry
from rq.job import Job, JobStatus
from rq.registry import StartedJobRegistry
from rq.utils import current_timestamp, now, utcformat
from rq.worker import WorkerStatus
from rq.worker.base import BaseWorker

from app.queue import FAILURE_TTL_S


class HeldJob(Job):
    """A job in this worker's hands.

    RQ reads a job's status and its executions from Redis, one by one, before it deletes the job.
    The worker that holds it knows them.
    """

    execution: Execution | None = None

    def get_status(self, refresh: bool = True) -> JobStatus:
        """Return the status, which nobody else changes."""
        return self._status

    @cached_property
    def started_job_registry(self) -> StartedJobRegistry:
        """Where RQ lists running jobs; to make one anew costs RQ as much as to write into it."""
        return cast("StartedJobRegistry", super().started_job_registry)

    @property
    def execution_registry(self) -> ExecutionRegistry:
        """What RQ would list from Redis."""
        return _HeldExecutions(self)


class _HeldExecutions(ExecutionRegistry):
    def __init__(self, job: HeldJob) -> None:
        super().__init__(job.id, job.connection)
        self._execution = job.execution

    def get_executions(self, start: int = 0, end: int = -1) -> list[Execution]:
        return [] if self._execution is None else [self._execution]


log = logging.getLogger(__name__)

WRITE_EVERY_S = 0.02  # nothing waits for these writes: the record is the truth, RQ shows it
NOTES_PER_WRITE = 50  # more would hold up the loop for too long
DEATH_SHOWN_S = 60
STALE_S = 3600  # how long a killed worker's executions are listed; no clock is that wrong

Note = Callable[[Pipeline], None]


class RqRegistry:
    """What RQ is told about this worker and the jobs in its hands.

    Everything is noted at once and written a moment later, together and in order. While Redis is
    away notes are kept. Whatever is noted may be written twice: no worse than a count that is off.
    """

    def __init__(self, worker: BaseWorker, client: Redis) -> None:
        self.held: dict[str, HeldJob] = {}
        self._worker = worker
        self._queue = worker.queues[0]
        self._client = client
        self._notes: list[Note] = []
        self._noted = asyncio.Event()
        self._writing = asyncio.Lock()

    def started(self, job: HeldJob) -> None:
        """Note that a job was dequeued and runs."""
        self.held[job.id] = job

        def write(pipeline: Pipeline) -> None:
            ttl_s = self._worker.get_heartbeat_ttl(job)
            job.execution = Execution.create(job, ttl_s, pipeline, worker_name=self._worker.name)
            job.prepare_for_execution(self._worker.name, pipeline)
            pipeline.expire(job.key, ttl_s)  # what a killed worker held goes by itself
            pipeline.lrem(self._queue.intermediate_queue_key, 1, job.id)

        self._note(write)

    def ended(self, job: HeldJob) -> None:
        """Note that a job has done what it could; RQ forgets it."""
        self.held.pop(job.id, None)  # gone already if it was delivered twice

        def write(pipeline: Pipeline) -> None:
            job._status = JobStatus.FINISHED
            self._worker.increment_successful_job_count(pipeline)
            job.cleanup(0, pipeline=pipeline, remove_from_queue=False)

        self._note(write)

    def failed(self, job: HeldJob, error: str) -> None:
        """Note that a job failed; RQ shows `error` for an hour."""
        self.held.pop(job.id, None)

        def write(pipeline: Pipeline) -> None:
            execution = cast("Execution", job.execution)
            job.ended_at = now()
            job.failure_ttl = FAILURE_TTL_S
            job.set_status(JobStatus.FAILED, pipeline=pipeline)
            execution.delete(job=job, pipeline=pipeline)
            job._handle_failure(
                error, pipeline, self._worker.name, execution.id, execution.created_at, job.ended_at
            )
            self._worker.increment_failed_job_count(pipeline)

        self._note(write)

    def dropped(self, job_id: bytes) -> None:
        """Note that a job is nothing RQ could show: what there is of it is removed."""

        def write(pipeline: Pipeline) -> None:
            pipeline.delete(HeldJob.redis_job_namespace_prefix.encode() + job_id)
            pipeline.lrem(self._queue.intermediate_queue_key, 1, cast("str", job_id))

        self._note(write)

    def beat(self) -> None:
        """Note that the worker and its jobs are alive. The first time it is born, and again
        whenever Redis has forgotten it."""
        worker = self._worker
        if worker.birth_date is None:
            worker.birth_date = worker.last_heartbeat = now()

        def write(pipeline: Pipeline) -> None:
            worker_registration.register(worker, pipeline)
            pipeline.hset(worker.key, mapping=worker.serialize())
            worker.set_state(self._state, pipeline=pipeline)
            worker.heartbeat(pipeline=pipeline)
            started, failed = self._queue.started_job_registry, self._queue.failed_job_registry
            pipeline.zremrangebyscore(started.key, 0, current_timestamp() - STALE_S)
            pipeline.zremrangebyscore(failed.key, 0, current_timestamp())

        for job in self.held.values():
            self._note(self._alive(job))
        self._note(write)

    def died(self) -> None:
        """Note that the worker leaves."""

        def write(pipeline: Pipeline) -> None:
            worker_registration.unregister(self._worker, pipeline)
            pipeline.hset(self._worker.key, "death", utcformat(now()))
            pipeline.expire(self._worker.key, DEATH_SHOWN_S)

        self._note(write)

    async def keep(self) -> None:
        """Write what is noted, for ever."""
        while True:
            await self._noted.wait()
            await self._write()
            await asyncio.sleep(0 if self._notes else WRITE_EVERY_S)

    async def settle(self) -> None:
        """Return when all that was noted is written."""
        while self._notes or self._writing.locked():
            await self._write()

    def _alive(self, job: HeldJob) -> Note:
        def write(pipeline: Pipeline) -> None:
            ttl_s = self._worker.get_heartbeat_ttl(job)
            execution = cast("Execution", job.execution)
            execution.heartbeat(job.started_job_registry, ttl_s, pipeline)
            pipeline.expire(job.key, ttl_s)

        return write

    @property
    def _state(self) -> WorkerStatus:
        return WorkerStatus.BUSY if self.held else WorkerStatus.IDLE

    def _note(self, note: Note) -> None:
        self._notes.append(note)
        self._noted.set()

    async def _write(self) -> None:
        async with self._writing:
            notes, self._notes = self._notes[:NOTES_PER_WRITE], self._notes[NOTES_PER_WRITE:]
            if not self._notes:
                self._noted.clear()
            async with self._client.pipeline(transaction=False) as sending:
                # RQ's methods only put commands on it, and that is the same call in both clients.
                pipeline = cast("Pipeline", sending)
                for note in notes:
                    _write_down(note, pipeline)
                if self._state != self._worker.get_state():
                    self._worker.set_state(self._state, pipeline=pipeline)
                await self._send(sending)

    async def _send(self, pipeline: AsyncPipeline) -> None:
        try:
            replies = await pipeline.execute(raise_on_error=False)
        except RedisError:
            log.exception("bookkeeping was not written")
            return
        refused = [reply for reply in replies if isinstance(reply, Exception)]
        if refused:
            log.error("Redis refused %d bookkeeping commands: %s", len(refused), refused[0])


def _write_down(note: Note, pipeline: Pipeline) -> None:
    try:
        note(pipeline)
    except Exception:
        log.exception("a note could not be written")  # the others must be
