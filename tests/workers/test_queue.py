"""What a job looks like in RQ, and what enqueueing it costs."""

import json
import zlib

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer

from app.queue import JOB, RefinementQueue

QUEUE = RefinementQueue("hone")


def enqueue(client: Redis, *job_ids: str) -> None:
    for job_id in job_ids:
        with client.pipeline() as pipeline:
            QUEUE.enqueue(job_id.rpartition("-")[0], job_id, pipeline)
            pipeline.execute()


def test_a_job_carries_the_refinements_id_and_nothing_else(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        enqueue(client, "ref_1-1")
        job = Job.fetch("ref_1-1", client, JSONSerializer)
    assert job.func_name == JOB
    assert list(job.args) == ["ref_1"]
    assert job.kwargs == {}
    assert job.get_status(refresh=False) is JobStatus.QUEUED


def test_a_job_is_never_timed_out_nor_retried_and_its_result_is_not_kept(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        enqueue(client, "ref_1-1")
        job = Job.fetch("ref_1-1", client, JSONSerializer)
    assert (job.timeout, job.result_ttl, job.failure_ttl) == (-1, 0, 3600)
    assert job.retries_left is None


def test_a_job_is_json(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        enqueue(client, "ref_1-1")
        data = client.hget("rq:job:ref_1-1", "data")
    assert isinstance(data, bytes)
    assert json.loads(zlib.decompress(data)) == [JOB, None, ["ref_1"], {}]


def test_enqueueing_asks_redis_nothing() -> None:
    nobody_listens = Redis(host="127.0.0.1", port=1)
    with nobody_listens.pipeline() as pipeline:
        QUEUE.enqueue("ref_1", "ref_1-1", pipeline)
        commands = [arguments[0] for arguments, _ in pipeline.command_stack]
    assert commands == ["SADD", "HSET", "HSET", "RPUSH"]


def test_enqueueing_follows_a_multi_of_the_callers_own(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        with client.pipeline() as pipeline:
            pipeline.watch("somebody:else")
            pipeline.multi()
            QUEUE.enqueue("ref_1", "ref_1-1", pipeline)
            pipeline.set("mine", 1)
            pipeline.execute()
        assert QUEUE.length(client) == 1
        assert client.exists("mine")


async def test_a_pipeline_of_the_asyncio_client_will_do(redis_url: str) -> None:
    async with AsyncRedis.from_url(redis_url) as client:
        async with client.pipeline() as pipeline:
            QUEUE.enqueue("ref_1", "ref_1-1", pipeline)
            await pipeline.execute()
        assert await client.lrange("rq:queue:hone", 0, -1) == [b"ref_1-1"]


def test_the_length_is_what_waits_even_in_the_midst_of_a_transaction(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        assert QUEUE.length(client) == 0
        enqueue(client, "ref_1-1", "ref_2-1")
        with client.pipeline() as pipeline:
            pipeline.watch("anything")
            assert QUEUE.length(pipeline) == 2


def test_an_id_that_rq_could_not_take_apart_is_refused(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client, pytest.raises(ValueError, match="letters"):
        enqueue(client, "ref:1-1")
