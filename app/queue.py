"""The RQ queue: the name of its jobs, and the commands that enqueue them."""

import json
import zlib
from collections.abc import Iterator, Sequence

from redis import ConnectionPool
from redis.client import Pipeline
from rq import Queue
from rq.serializers import JSONSerializer
from rq.utils import now, utcformat
from rq.worker.base import BaseWorker

from app.store.scripts import JOB_NUMBER, JOB_OF

JOB = "workers.jobs.refine"  # a key in the workers' table; never imported by this name

FAILURE_TTL_S = 3600  # how long RQ keeps a failed job
STATUS_ALONE = ("HSET", "key", "status", "queued")  # RQ writes it again with all other fields
NOW = "00NOW00"  # stands for the time
TIMES = ("created_at", "enqueued_at")

Command = tuple[str | bytes | int | float, ...]


class RefinementQueue:
    """The queue in which refinements wait for a worker."""

    def __init__(self, name: str) -> None:
        # A pipeline that is never executed: RQ adds its commands to it, and nothing connects.
        self._recorder = Pipeline(ConnectionPool(), {}, transaction=True, shard_hint=None)
        self._queue = _Queue(name, connection=self._recorder, serializer=JSONSerializer)
        commands = self.commands(JOB_OF, f"{JOB_OF}-{JOB_NUMBER}")
        self._template = json.dumps([[*_replaceable(it)] for it in commands])

    @property
    def key(self) -> str:
        """The list in Redis that holds the waiting jobs."""
        return str(self._queue.key)

    def commands(
        self, refinement_id: str, job_id: str, *, is_first: bool = False
    ) -> Sequence[Command]:
        """Return the commands by which RQ enqueues one job, to be executed in one transaction.

        It becomes the last of the queue, or with `is_first` the first.
        `job_id` must be new for every job and consist of letters, digits, `_` and `-`, else
        ValueError.
        """
        self._recorder.command_stack.clear()
        self._queue.enqueue_call(
            JOB,
            args=[refinement_id],
            timeout=-1,
            result_ttl=0,
            failure_ttl=FAILURE_TTL_S,
            description=f"refine {refinement_id}",
            job_id=job_id,
            at_front=is_first,
            pipeline=self._recorder,
        )
        commands = [command for command, _ in self._recorder.command_stack]
        return [it for it in commands if it[0] != "HSET" or len(it) > len(STATUS_ALONE)]

    def template(self) -> str:
        """Return the commands that enqueue a job now, JSON; JOB_OF and JOB_NUMBER stand for it."""
        return self._template.replace(NOW, utcformat(now()))


def _replaceable(command: Command) -> Iterator[str]:
    """Yield the words of a command as texts; RQ reads jobs that are not compressed as well."""
    for before, word in zip(("", *command), command, strict=False):
        if isinstance(word, bytes):
            yield zlib.decompress(word).decode()
        else:
            text = word if isinstance(word, str) else str(word)  # RQ's enumerations are texts
            yield NOW if before in TIMES else text


class _Queue(Queue):
    def get_redis_server_version(self) -> tuple[int, int, int]:
        """Return the oldest version that Hone supports; RQ would query it through the pipeline."""
        return (6, 2, 0)


def worker_key(name: str) -> str:
    """Return the key of the hash in which a worker of that name registers itself."""
    return f"{BaseWorker.redis_worker_namespace_prefix}{name}"
