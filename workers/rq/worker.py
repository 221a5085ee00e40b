"""An RQ worker that runs many coroutine jobs on one event loop."""

import asyncio
import logging
import os
import signal
import socket
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import RedisError
from rq.serializers import JSONSerializer
from rq.worker.base import BaseWorker

from app.store.committer import Committer
from app.store.connection import async_client
from app.store.enqueue import EQUAL_WEIGHTS, JobSource
from workers.rq.dequeue import Dequeuer
from workers.rq.registry import HeldJob, RqRegistry

AGAIN_S = 0.1
LOOK_EVERY_S = 0.25  # how often a full worker looks whether it has a free slot
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
LONGEST_PAUSE_S = 2.0
FIRST_PAUSE_S = 0.05

UNLIMITED_RETRIES = -1


def persistent_client(url: str, name: str) -> AsyncRedis:
    """Return a client that retries a command until it is answered."""
    return _client(url, name, UNLIMITED_RETRIES)


def single_try_client(url: str, name: str) -> AsyncRedis:
    """Return a client that never retries a command."""
    return _client(url, name, 0)


def backoff() -> ExponentialWithJitterBackoff:
    """Return the backoff between retries: exponential, with full jitter."""
    return ExponentialWithJitterBackoff(base=FIRST_PAUSE_S, cap=LONGEST_PAUSE_S)


def _client(url: str, name: str, retries: int) -> AsyncRedis:
    return async_client(
        url,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        retry=Retry(backoff(), retries),
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


log = logging.getLogger(__name__)

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

    Jobs of which nothing is under way but what others do, as `waiting` counts them, are not among
    these; with them it runs up to `most_held`.

    A job is the name of a function in `functions` and a refinement's id. The function is called
    with the job's id and the refinement's id; nothing that a job names is ever imported.

    A job that was not started within `lease_s` seconds may be considered lost; `weights` are those
    of tenants (`JobSource`). While its event loop `is_lagging` it dequeues no jobs. On SIGTERM and
    SIGINT it dequeues no more and calls `leave`. Running jobs have `grace_s` seconds to end; those
    that remain are cancelled early enough to hand back what they hold.
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
        waiting: Callable[[], int] = lambda: 0,
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
        self._waiting = waiting
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
        playing = running - self._waiting()
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
        beside = [
            asyncio.create_task(each)
            for each in (self._registry.keep(), self._beat(), self._announce_stop())
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
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._room.wait()
            return
        if self._is_lagging():
            await asyncio.sleep(LAGGING_S)
            return
        try:
            jobs = await self._dequeuer.take(self.free_slots)
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
        pause_s = backoff().compute(self._failures)
        log.warning("cannot dequeue, retry in %.2f s: %s", pause_s, error)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause_s)

    async def _beat(self) -> None:
        with suppress(RedisError):  # the Redis user may lack the permission
            self.ip_address = str((await self._client.client_info())["addr"])
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
