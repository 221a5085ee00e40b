"""Registers this worker and its jobs with RQ, without reading from Redis."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from typing import cast

from redis import ConnectionPool
from redis.client import Pipeline
from redis.exceptions import RedisError, ResponseError
from rq import worker_registration
from rq.executions import Execution, ExecutionRegistry
from rq.job import Job, JobStatus
from rq.registry import StartedJobRegistry
from rq.results import Result
from rq.utils import current_timestamp, now, utcformat
from rq.worker import WorkerStatus
from rq.worker.base import BaseWorker

from app.queue import FAILURE_TTL_S, TIMES
from app.store.committer import Committer, Word


class HeldJob(Job):
    """A job that this worker holds."""

    execution: Execution | None = None

    @cached_property
    def started_job_registry(self) -> StartedJobRegistry:
        """RQ's list of running jobs; creating it costs RQ as much as writing to it."""
        return cast("StartedJobRegistry", super().started_job_registry)

    def restore(self, raw_data: dict[bytes, bytes]) -> None:
        """Restore it; RQ reads the times by `strptime`, which takes longer than all else."""
        times = {name: at for name in TIMES if (at := raw_data.pop(name.encode(), None))}
        super().restore(raw_data)
        vars(self).update({name: datetime.fromisoformat(at.decode()) for name, at in times.items()})


log = logging.getLogger(__name__)

WRITE_EVERY_S = 0.02  # nothing waits for these writes: RQ only displays what the store holds
NOTES_PER_WRITE = 50  # more would block the event loop for too long
DEATH_SHOWN_S = 60
STALE_S = 3600  # how long a killed worker's executions are listed; longer than any clock skew
JOB_TTL_S = 3600  # how long a job and its execution are kept without a refresh
REFRESH_EVERY_S = JOB_TTL_S / 2

Note = Callable[[Pipeline], None]


class RqRegistry:
    """Registers this worker and the jobs that it holds with RQ.

    Updates ("notes") are collected and written a moment later, together and in order. They are kept
    while Redis is unreachable. A note may be written twice, which at worst makes a count wrong.
    """

    def __init__(
        self, worker: BaseWorker, committer: Committer, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.held: dict[str, HeldJob] = {}
        self._worker = worker
        self._queue = worker.queues[0]
        self._started: StartedJobRegistry = self._queue.started_job_registry
        self._committer = committer
        # It is never executed: RQ adds its commands to it.
        self._recorder = Pipeline(ConnectionPool(), {}, transaction=False, shard_hint=None)
        self._clock = clock
        self._refresh_at = clock() + REFRESH_EVERY_S
        self._notes: list[Note] = []
        self._noted = asyncio.Event()
        self._writing = asyncio.Lock()

    def started(self, job: HeldJob) -> None:
        """Register a job as started."""
        self.held[job.id] = job
        job.started_job_registry = self._started

        def write(pipeline: Pipeline) -> None:
            name = self._worker.name
            job.execution = Execution.create(job, JOB_TTL_S, pipeline, worker_name=name)
            job.prepare_for_execution(name, pipeline)
            pipeline.expire(job.key, JOB_TTL_S)  # so that the jobs of a killed worker expire
            pipeline.lrem(self._queue.intermediate_queue_key, 1, job.id)

        self._note(write)

    def ended(self, job: HeldJob) -> None:
        """Register that a job has ended without an error; RQ forgets it."""
        self.held.pop(job.id, None)  # gone already if it was delivered twice

        def write(pipeline: Pipeline) -> None:
            # What RQ does, which reads status and executions first, and expects a result.
            self._worker.increment_successful_job_count(pipeline)
            names = [job.key, ExecutionRegistry(job.id, job.connection).key]
            if (execution := job.execution) is not None:
                self._started.remove_execution(execution, pipeline=pipeline)
                names.append(execution.key)
            pipeline.delete(*names)

        self._note(write)

    def failed(self, job: HeldJob, error: str) -> None:
        """Register a job as failed; RQ shows `error` for an hour."""
        self.held.pop(job.id, None)

        def write(pipeline: Pipeline) -> None:
            execution = cast("Execution", job.execution)
            job.ended_at = now()
            job.failure_ttl = FAILURE_TTL_S
            job.set_status(JobStatus.FAILED, pipeline=pipeline)
            execution.delete(job=job, pipeline=pipeline)
            failures = job.failed_job_registry
            failures.add(job, ttl=job.failure_ttl, exc_string=error, pipeline=pipeline)
            Result.create_failure(
                job,
                job.failure_ttl,
                exc_string=error,
                worker_name=self._worker.name,
                pipeline=pipeline,
                execution_id=execution.id,
                execution_started_at=execution.created_at,
                execution_ended_at=job.ended_at,
            )
            self._worker.increment_failed_job_count(pipeline)

        self._note(write)

    def dropped(self, job_id: bytes) -> None:
        """Remove a job that cannot be read."""

        def write(pipeline: Pipeline) -> None:
            pipeline.delete(HeldJob.redis_job_namespace_prefix.encode() + job_id)
            pipeline.lrem(self._queue.intermediate_queue_key, 1, cast("str", job_id))

        self._note(write)

    def beat(self) -> None:
        """Send a heartbeat for the worker, and refresh its jobs long before they expire.

        It also registers the worker, the first time and in case Redis has lost it.
        """
        worker = self._worker
        if worker.birth_date is None:
            worker.birth_date = worker.last_heartbeat = now()

        def write(pipeline: Pipeline) -> None:
            worker_registration.register(worker, pipeline)
            pipeline.hset(worker.key, mapping=worker.serialize())
            worker.set_state(self._state, pipeline=pipeline)
            worker.heartbeat(pipeline=pipeline)
            started, failed = self._started, self._queue.failed_job_registry
            pipeline.zremrangebyscore(started.key, 0, current_timestamp() - STALE_S)
            pipeline.zremrangebyscore(failed.key, 0, current_timestamp())

        if self._clock() >= self._refresh_at:
            self._refresh_at = self._clock() + REFRESH_EVERY_S
            for job in self.held.values():
                self._note(self._refreshed(job))
        self._note(write)

    def died(self) -> None:
        """Unregister the worker."""

        def write(pipeline: Pipeline) -> None:
            worker_registration.unregister(self._worker, pipeline)
            pipeline.hset(self._worker.key, "death", utcformat(now()))
            pipeline.expire(self._worker.key, DEATH_SHOWN_S)

        self._note(write)

    async def keep(self) -> None:
        """Write notes until cancelled."""
        while True:
            await self._noted.wait()
            await self._write()
            await asyncio.sleep(0 if self._notes else WRITE_EVERY_S)

    async def settle(self) -> None:
        """Write all notes, then return."""
        while self._notes or self._writing.locked():
            await self._write()

    def _refreshed(self, job: HeldJob) -> Note:
        def write(pipeline: Pipeline) -> None:
            execution = cast("Execution", job.execution)
            execution.heartbeat(job.started_job_registry, JOB_TTL_S, pipeline)
            pipeline.expire(job.key, JOB_TTL_S)

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
            pipeline = self._recorder
            for note in notes:
                _write_down(note, pipeline)
            if self._state != self._worker.get_state():
                self._worker.set_state(self._state, pipeline=pipeline)
            commands = [words for words, _ in pipeline.command_stack]
            pipeline.command_stack.clear()
            await self._send(commands)

    async def _send(self, commands: Sequence[Sequence[Word]]) -> None:
        answers = [self._committer.execute(*words) for words in commands]
        refused = []
        try:
            for answer in answers:
                try:
                    await answer
                except ResponseError as error:
                    refused.append(error)
        except RedisError:
            log.exception("cannot write to the RQ registry")
        finally:
            for answer in answers:
                answer.cancel()  # of one with an error, too: it is not logged then
        if refused:
            log.error("Redis rejected %d RQ registry commands: %s", len(refused), refused[0])


def _write_down(note: Note, pipeline: Pipeline) -> None:
    try:
        note(pipeline)
    except Exception:
        log.exception("an update of the RQ registry failed")  # the others must be written
