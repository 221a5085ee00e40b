"""A queue with a worker on it, and a look at what RQ keeps of both."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import cast

from redis import Redis
from rq import Queue
from rq.registry import FailedJobRegistry, StartedJobRegistry
from rq.serializers import JSONSerializer

from app.queue import JOB, RefinementQueue
from app.store.worker import JobSource
from tests.waiting import TIMEOUT_S
from workers.rq import CoroutineWorker, JobFunction

NAME = "hone"
LIST = "rq:queue:hone"
INTERMEDIATE = "rq:queue:hone:intermediate"


class RqInspector:
    """What a client of RQ sees and does."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        self.rq = Queue(NAME, connection=client, serializer=JSONSerializer)
        self.started = StartedJobRegistry(queue=self.rq)
        self.failed = FailedJobRegistry(queue=self.rq)

    def enqueue(self, refinement_ids: Iterable[str]) -> None:
        queue = RefinementQueue(NAME)
        for refinement_id in refinement_ids:
            for command in queue.commands(refinement_id, f"{refinement_id}-1"):
                self.client.execute_command(*command)  # type: ignore[no-untyped-call]

    def waiting(self) -> list[str]:
        return self.rq.get_job_ids()

    def error(self, job_id: str) -> str:
        """Return what RQ shows of a failed job, else an empty string."""
        job = self.rq.fetch_job(job_id)
        result = job.latest_result() if job else None
        return result.exc_string or "" if result else ""

    def left(self) -> set[str]:
        """Return every key but the names of queues and what shows that the worker has left."""
        keys = {key.decode() for key in cast("list[bytes]", self.client.keys())}
        workers = {key for key in keys if key.startswith("rq:worker:")}
        return (
            keys
            - {"rq:queues", "hone:1:slots", "hone:1:workers"}
            - {key for key in workers if self.client.hexists(key, "death")}
        )


@contextmanager
def open_inspector(url: str) -> Iterator[RqInspector]:
    with Redis.from_url(url) as client:
        yield RqInspector(client)


def source(worker: str = "dequeuer", **weights: float) -> JobSource:
    """Return what a worker takes jobs from."""
    return JobSource(worker, (LIST, INTERMEDIATE), "rq:job:", 5_000, weights)


@asynccontextmanager
async def working(
    url: str,
    refine: JobFunction,
    *,
    concurrency: int = 10,
    grace_s: float = 30.0,
    leave: Callable[[], None] = lambda: None,
) -> AsyncIterator[CoroutineWorker]:
    """A worker that is told to stop, and awaited, in the end."""
    functions: Mapping[str, JobFunction] = {JOB: refine}
    worker = CoroutineWorker(
        NAME, url, functions, concurrency=concurrency, grace_s=grace_s, leave=leave
    )
    serving = asyncio.create_task(worker.serve())
    try:
        yield worker
    finally:
        worker.stop()
        await serving


async def until(holds: Callable[[], object]) -> None:
    """Return when it holds; a test that hangs is a test that fails."""
    async with asyncio.timeout(TIMEOUT_S):
        while not holds():  # noqa: ASYNC110 - most of it stands in Redis
            await asyncio.sleep(0.01)


class Jobs:
    """A job function that counts, and keeps its jobs until they are let go."""

    def __init__(self, *, held: bool = False) -> None:
        self.calls: list[tuple[str, str]] = []
        self.in_flight = 0
        self.most = 0
        self.ended: list[str] = []
        self.let_go = asyncio.Event()
        if not held:
            self.let_go.set()

    async def refine(self, job_id: str, refinement_id: str) -> None:
        self.calls.append((job_id, refinement_id))
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await self.let_go.wait()
        finally:
            self.in_flight -= 1
        self.ended.append(refinement_id)
