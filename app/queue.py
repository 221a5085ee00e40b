"""The RQ queue: what a job is called, and how it is enqueued."""

from typing import cast

from redis import Redis
from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.client import Pipeline
from rq import Queue
from rq.serializers import JSONSerializer

JOB = "workers.jobs.refine"  # what workers look up in their table; nobody imports it by this name

FAILURE_TTL_S = 3600  # how long RQ shows a job that failed


class RefinementQueue:
    """The queue in which refinements wait for a worker."""

    def __init__(self, name: str) -> None:
        self._name = name

    def enqueue(self, refinement_id: str, job_id: str, pipeline: Pipeline | AsyncPipeline) -> None:
        """Add the commands that enqueue one job: nothing is read, nothing is sent.

        RQ wants to come first: call it before anything else is on the pipeline, which it makes a
        transaction. `job_id` is new for every job and made of letters, digits, `_` and `-`, else
        ValueError.
        """
        # RQ only puts commands on it, which is the same call in both clients.
        commands = cast("Pipeline", pipeline)
        _Queue(self._name, connection=commands, serializer=JSONSerializer).enqueue_call(
            JOB,
            args=[refinement_id],
            timeout=-1,
            result_ttl=0,
            failure_ttl=FAILURE_TTL_S,
            description=f"refine {refinement_id}",
            job_id=job_id,
            pipeline=commands,
        )

    def length(self, connection: Redis) -> int:
        """Return how many jobs wait; `connection` may be a pipeline that watches keys."""
        return _Queue(self._name, connection=connection).count


class _Queue(Queue):
    def get_redis_server_version(self) -> tuple[int, int, int]:
        """Return the oldest that Hone takes; RQ would ask the server, on the pipeline."""
        return (6, 2, 0)
