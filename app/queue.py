"""The RQ queue: the name of its jobs, and how they are enqueued."""

from typing import cast

from redis import Redis
from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.client import Pipeline
from rq import Queue
from rq.serializers import JSONSerializer

JOB = "workers.jobs.refine"  # a key in the workers' table; never imported by this name

FAILURE_TTL_S = 3600  # how long RQ keeps a failed job


class RefinementQueue:
    """The queue in which refinements wait for a worker."""

    def __init__(self, name: str) -> None:
        self._name = name

    def enqueue(self, refinement_id: str, job_id: str, pipeline: Pipeline | AsyncPipeline) -> None:
        """Add the commands that enqueue one job to `pipeline`, without executing them.

        The pipeline must be empty: RQ makes it a transaction. `job_id` must be new for every job
        and consist of letters, digits, `_` and `-`, else ValueError.
        """
        # RQ only adds commands to it, by the same methods in both clients.
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
        """Return the number of waiting jobs; `connection` may be a pipeline that watches keys."""
        return _Queue(self._name, connection=connection).count


class _Queue(Queue):
    def get_redis_server_version(self) -> tuple[int, int, int]:
        """Return the oldest version that Hone supports; RQ would query it through the pipeline."""
        return (6, 2, 0)
