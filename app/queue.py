"""The RQ queue: the name of its jobs, and the commands that enqueue them."""

import json
import re
import zlib
from collections.abc import Iterator, Sequence

from redis import ConnectionPool
from redis.client import Pipeline
from rq import Queue
from rq.serializers import JSONSerializer
from rq.utils import now, utcformat
from rq.worker.base import BaseWorker

from app.store.redis.keys import Key
from app.store.redis.scripts import JOB_NUMBER, JOB_OF

JOB = "workers.jobs.refine"  # a key, not a module: releases that share a queue must agree on it

FAILURE_TTL_S = 3600  # how long RQ keeps a failed job
STATUS_ALONE = ("HSET", "key", "status", "queued")  # RQ writes it again with all other fields
NOW = "00NOW00"  # stands for the time
TIMES = ("created_at", "enqueued_at")
NEW_JOB = f"{JOB_OF}-{JOB_NUMBER}"
NAME = re.compile(r"[A-Za-z0-9_-]+")  # RQ allows no other names of jobs

Command = Sequence[str]


class RefinementQueue:
    """The queue in which refinements wait for a worker.

    RQ records once the commands that enqueue a job. Each job is put into that text, which takes a
    tenth of RQ's own work.
    """

    def __init__(self, name: str) -> None:
        # A pipeline that is never executed: RQ adds its commands to it, and nothing connects.
        recorder = Pipeline(ConnectionPool(), {}, transaction=True, shard_hint=None)
        queue = _Queue(name, connection=recorder, serializer=JSONSerializer)
        self._key = str(queue.key)
        self._first, self._last = (
            _recorded(queue, recorder, at_front) for at_front in (True, False)
        )

    @property
    def key(self) -> str:
        """The list in Redis that holds the waiting jobs."""
        return self._key

    def commands(
        self, refinement_id: str, job_id: str, *, is_first: bool = False
    ) -> Sequence[Command]:
        """Return the commands by which RQ enqueues one job, to be executed in one transaction.

        It becomes the last of the queue, or with `is_first` the first.
        `job_id` must be new for every job and consist of letters, digits, `_` and `-`, else
        ValueError, as must `refinement_id`.
        """
        if not (NAME.fullmatch(job_id) and NAME.fullmatch(refinement_id)):
            raise ValueError(f"{job_id!r} must consist of letters, digits, `_` and `-`")
        recorded = (self._first if is_first else self._last).replace(NOW, utcformat(now()))
        commands: list[Command] = json.loads(
            recorded.replace(NEW_JOB, job_id).replace(JOB_OF, refinement_id)
        )
        return commands

    def template(self) -> str:
        """Return the commands that enqueue a job now, JSON; JOB_OF and JOB_NUMBER stand for it."""
        return self._last.replace(NOW, utcformat(now()))


def _recorded(queue: Queue, recorder: Pipeline, at_front: bool) -> str:
    """Return the commands by which RQ enqueues a job, JSON, with what stands for it."""
    recorder.command_stack.clear()
    queue.enqueue_call(
        JOB,
        args=[JOB_OF],
        timeout=-1,
        result_ttl=0,
        failure_ttl=FAILURE_TTL_S,
        description=f"refine {JOB_OF}",
        job_id=NEW_JOB,
        at_front=at_front,
        pipeline=recorder,
    )
    commands = (command for command, _ in recorder.command_stack)
    kept = (
        command for command in commands if command[0] != "HSET" or len(command) > len(STATUS_ALONE)
    )
    return json.dumps([[*_replaceable(command)] for command in kept])


def _replaceable(command: Sequence[str | bytes | int | float]) -> Iterator[str]:
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


def worker_key(name: str) -> Key:
    """Return the key of the hash in which a worker of that name registers itself."""
    return Key(f"{BaseWorker.redis_worker_namespace_prefix}{name}")
