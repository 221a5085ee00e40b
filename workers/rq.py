"""An RQ worker that runs many coroutine jobs on one event loop: registers, dequeues, runs them."""

import asyncio
import logging
import os
import signal
import socket
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from importlib.metadata import version
from typing import Any, cast

from redis import ConnectionPool, Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.retry import Retry
from redis.client import Pipeline
from redis.exceptions import RedisError, ResponseError
from rq import Queue, worker_registration
from rq.executions import Execution, ExecutionRegistry
from rq.job import Job, JobStatus
from rq.registry import StartedJobRegistry
from rq.results import Result
from rq.serializers import JSONSerializer
from rq.utils import current_timestamp, now, utcformat
from rq.worker import WorkerStatus
from rq.worker.base import BaseWorker

from app.queue import FAILURE_TTL_S, TIMES, RefinementQueue
from app.store.redis.codec import paired
from app.store.redis.committer import Committer
from app.store.redis.connection import BoundedBackoff, async_client, layout_in
from app.store.redis.keys import Word
from app.store.worker import EQUAL_WEIGHTS, JobSource

log = logging.getLogger(__name__)


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

    async def forget_killed(self) -> None:
        """Remove workers from RQ's lists that no longer have a record. Raises redis errors."""
        execute, layout = self._committer.execute, self._committer.layout
        of_queue = worker_registration.WORKERS_BY_QUEUE_KEY % self._queue.name
        for workers in map(layout.name, (self._worker.redis_workers_keys, of_queue)):
            for name in await execute("SMEMBERS", workers):
                if not await execute("EXISTS", name):
                    await execute("SREM", workers, name)

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
        spelled = self._committer.layout.of_rq
        answers = [self._committer.execute(*spelled(words)) for words in commands]
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
                answer.cancel()  # an answer with an error too: asyncio does not log it then
        if refused:
            log.error("Redis rejected %d RQ registry commands: %s", len(refused), refused[0])


def _write_down(note: Note, pipeline: Pipeline) -> None:
    try:
        note(pipeline)
    except Exception:
        log.exception("an update of the RQ registry failed")  # the others must be written


BLOCK_S = 1
LOOK_FOR_STRANDED_S = 15.0
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
        client: AsyncRedis,
        registry: RqRegistry,
        source: JobSource,
        *,
        block_s: int = BLOCK_S,
        look_every_s: float = LOOK_FOR_STRANDED_S,
    ) -> None:
        self.is_empty = False  # whether the queue was empty at the last look
        self._queue = queue
        name = layout_in(client).name
        self._key, self._intermediate_key = name(queue.key), name(queue.intermediate_queue_key)
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

    async def dequeue(self, room: int) -> list[HeldJob]:
        """Return up to `room` jobs, or none if the queue stays empty for `block_s` seconds.

        Raises Redis errors; the next call returns the jobs that were moved before the error.
        """
        try:
            self._moved = self._moved or await self._stranded(room)
            if (self._moved or not self._may_wait) and (jobs := await self._dequeue(room)):
                return jobs
            await self._wait()
            return await self._dequeue(room) if self._moved else []
        except BaseException:
            self.is_empty, self._connection_id = False, None
            self._may_wait = False
            self._seen = set()  # during an outage no worker can register what it started
            raise

    async def _dequeue(self, room: int) -> list[HeldJob]:
        taken = await self._source.dequeue(
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
                pipeline.lpush(self._key, job_id)
                pipeline.lrem(self._intermediate_key, 1, cast("str", job_id))
            await pipeline.execute()
        self._moved = []

    async def stop(self) -> None:
        """Announce that no free slots are left, so that no jobs are admitted for them."""
        await self._source.dequeue(self._client, "", 0, 0, ())

    async def interrupt(self, client: AsyncRedis) -> None:
        """Unblock a `dequeue` that waits; `client` must not be the client that waits."""
        if self._connection_id is not None:
            await client.client_unblock(self._connection_id)

    async def _wait(self) -> None:
        self._may_wait = False
        if self._connection_id is None:
            self._connection_id = await self._client.client_id()
        job_id = await self._client.blmove(self._key, self._intermediate_key, self._block_s)
        if job_id is not None:
            self._moved = [cast("bytes", job_id)]

    async def _stranded(self, room: int) -> list[bytes]:
        clock = asyncio.get_running_loop().time
        if clock() < self._look_at:
            return []
        there = await self._client.lrange(self._intermediate_key, 0, -1)
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


AGAIN_S = 0.1
LOOK_FOR_SLOT_S = 0.25  # how often a full worker looks whether it has a free slot
LAGGING_S = 0.1  # how long a lagging worker waits before it looks for work again


# Before Python 3.12 `asyncio.wait_for` swallows a cancellation that arrives just after its result,
# and redis-py sends every command under `wait_for`: so cancel repeatedly, and check for it.


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks that need no cleanup, repeatedly if necessary; return when all are done."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=AGAIN_S)


def heed_cancellation() -> None:
    """Raise CancelledError if the current task was cancelled, even if that was swallowed."""
    me = asyncio.current_task()
    if me is not None and me.cancelling():
        raise asyncio.CancelledError


TIMEOUT_S = 5.0  # longer than any command blocks
BACKOFF = BoundedBackoff(base=0.05, cap=2.0)

UNLIMITED_RETRIES = -1


def persistent_client(url: str, name: str) -> AsyncRedis:
    """Return a client that retries a command until it is answered."""
    return _client(url, name, UNLIMITED_RETRIES)


def single_try_client(url: str, name: str) -> AsyncRedis:
    """Return a client that never retries a command."""
    return _client(url, name, 0)


def _client(url: str, name: str, retries: int) -> AsyncRedis:
    return async_client(
        url,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        retry=Retry(BACKOFF, retries),
        client_name=name,
        protocol=2,
    )


@contextmanager
def termination_calls(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on the running loop at SIGTERM and SIGINT; restore the old handlers afterwards.

    Enter it on the main thread.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


WORKER_TTL_S = 60
BEAT_EVERY_S = 15.0
HAND_BACK_S = 5.0
SETTLE_S = 3.0

LEASE_S = 5.0

JobFunction = Callable[[str, str], Awaitable[None]]


class RefusedFunction(Exception):
    """A job names a function that this worker does not have."""


class CoroutineWorker(BaseWorker):
    """Runs up to `concurrency` jobs at once until it is stopped, and survives Redis outages.

    Jobs that only wait for slow replies (`without_slot` counts them) do not count towards
    `concurrency`. All jobs together are at most `most_held`.

    A job is the name of a function in `functions` and a refinement's id. The function is called
    with the job's id and the refinement's id; nothing that a job names is ever imported.

    A job that was not started within `lease_s` seconds may be considered lost; `weights` maps
    tenants to their weights (`JobSource`). While its event loop `is_lagging` the worker dequeues no
    jobs. On SIGTERM and SIGINT the worker dequeues no more and calls `leave`. Running jobs have
    `grace_s` seconds to end; the worker cancels the rest early enough to hand back their claims.
    """

    def __init__(
        self,
        queue_name: str,
        redis_url: str,
        functions: Mapping[str, JobFunction],
        *,
        concurrency: int,
        grace_s: float,
        leave: Callable[[], None] = lambda: None,
        is_lagging: Callable[[], bool] = lambda: False,
        without_slot: Callable[[], int] = lambda: 0,
        most_held: int | None = None,
        name: str | None = None,
        lease_s: float = LEASE_S,
        weights: Mapping[str, float] = EQUAL_WEIGHTS,
    ) -> None:
        # RQ requires a client, but writes through RqRegistry's pipeline: this one never connects.
        super().__init__(
            queue_name,
            name=name,
            connection=Redis(),
            worker_ttl=WORKER_TTL_S,
            serializer=JSONSerializer,
            prepare_for_work=False,
        )
        self.hostname, self.pid = socket.gethostname(), os.getpid()
        self._functions = functions
        self._concurrency = concurrency
        self._most_held = most_held or concurrency
        self._without_slot = without_slot
        self._grace_s = grace_s
        self._hand_back_s = min(HAND_BACK_S, grace_s / 2)
        self._leave = leave
        self._is_lagging = is_lagging
        self._client = persistent_client(redis_url, self.name)
        self._dequeuing = single_try_client(redis_url, self.name)
        self._committer = Committer(self._client)
        self._registry = RqRegistry(self, self._committer)
        queue = self.queues[0]
        source = JobSource(
            self.name,
            (queue.key, queue.intermediate_queue_key),
            HeldJob.redis_job_namespace_prefix,
            round(lease_s * 1000),
            weights,
        )
        self._dequeuer = Dequeuer(queue, self._dequeuing, self._registry, source)
        self._running: dict[asyncio.Task[None], HeldJob] = {}
        self._room = asyncio.Event()
        self._stopping = asyncio.Event()
        self._failures = 0

    @property
    def free_slots(self) -> int:
        """How many more jobs it can take now; none while it shuts down."""
        if self._stopping.is_set():
            return 0
        running = len(self._running)
        playing = running - self._without_slot()
        return max(0, min(self._concurrency - playing, self._most_held - running))

    def serialize(self) -> dict[str, Any]:
        """Return what RQ registers of a worker, and Hone's release."""
        return super().serialize() | {"hone_release": version("hone")}

    def is_idle(self) -> bool:
        """Return whether it has free slots and found the queue empty."""
        return self.free_slots > 0 and self._dequeuer.is_empty

    def stop(self) -> None:
        """Begin to shut down, as after SIGTERM."""
        self._stopping.set()
        self._room.set()

    async def serve(self) -> None:
        """Work until stopped, then shut down. Call it once, on the main thread."""
        beating, *beside = [
            asyncio.create_task(each)
            for each in (self._beat(), self._registry.keep(), self._announce_stop())
        ]
        with termination_calls(self.stop):
            try:
                while not self._stopping.is_set():
                    await self._fill()
                    heed_cancellation()
                with suppress(RedisError, OSError):
                    await self._dequeuer.stop()
                await self._finish(self._grace_s - self._hand_back_s)
            finally:
                await self._hand_back()
                await end([beating])  # a beat would register it again
                await self._settle()
                await end(beside)
                await self._committer.aclose()
                await self._client.aclose()
                await self._dequeuing.aclose()

    async def _fill(self) -> None:
        """Start as many waiting jobs as there are free slots; wait for a slot or a job."""
        if not self.free_slots:
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_FOR_SLOT_S):
                    await self._room.wait()
            return
        if self._is_lagging():
            await asyncio.sleep(LAGGING_S)
            return
        try:
            jobs = await self._dequeuer.dequeue(self.free_slots)
            if self._stopping.is_set():
                await self._dequeuer.put_back(jobs)
                jobs = []
        except (RedisError, OSError) as error:
            await self._pause(error)
        else:
            self._failures = 0
            for job in jobs:
                self._start(job)

    def _start(self, job: HeldJob) -> None:
        self._registry.started(job)
        task = asyncio.create_task(self._perform(job))
        self._running[task] = job
        task.add_done_callback(self._ended)

    async def _perform(self, job: HeldJob) -> None:
        function = self._functions.get(str(job.func_name))
        if function is None:
            expected = ", ".join(self._functions)
            raise RefusedFunction(f"unknown function {job.func_name}, expected {expected}")
        await function(job.id, *job.args)

    def _ended(self, task: asyncio.Task[None]) -> None:
        job = self._running.pop(task)
        self._room.set()
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._registry.ended(job)
        else:
            log.error("job %s failed", job.id, exc_info=error)
            self._registry.failed(job, "".join(traceback.format_exception(error)))

    async def _pause(self, error: Exception) -> None:
        self._failures += 1
        pause_s = BACKOFF.compute(self._failures)
        log.warning("cannot dequeue, retry in %.2f s: %s", pause_s, error)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause_s)

    async def _beat(self) -> None:
        with suppress(RedisError):  # the Redis user may lack the permission
            self.ip_address = str((await self._client.client_info())["addr"])
        with suppress(RedisError):
            await self._registry.forget_killed()
        while True:
            self._registry.beat()
            await asyncio.sleep(BEAT_EVERY_S)

    async def _announce_stop(self) -> None:
        """Wait for the stop, then notify the jobs and interrupt the dequeue."""
        await self._stopping.wait()
        self._leave()
        await self._dequeuer.interrupt(self._client)

    async def _finish(self, seconds: float) -> None:
        if self._running:
            log.info("shutting down: %d jobs are running", len(self._running))
            await asyncio.wait(self._running, timeout=seconds)

    async def _hand_back(self) -> None:
        for task in self._running:
            task.cancel()
        await self._finish(self._hand_back_s)
        for job in self._running.values():
            log.error("job %s did not stop in time; its lease will expire", job.id)
            self._registry.ended(job)

    async def _settle(self) -> None:
        self._registry.died()
        settling = asyncio.create_task(self._registry.settle())
        await asyncio.wait([settling], timeout=SETTLE_S)
        await end([settling])
