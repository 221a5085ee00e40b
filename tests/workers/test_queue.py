"""What a job looks like in RQ, and which commands enqueue it."""

import json

import pytest
from redis import Redis
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer

from app.queue import JOB, RefinementQueue

QUEUE = RefinementQueue("hone")


def enqueue(client: Redis, *job_ids: str) -> None:
    for job_id in job_ids:
        for command in QUEUE.commands(job_id.rpartition("-")[0], job_id):
            client.execute_command(*command)  # type: ignore[no-untyped-call]


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


def test_a_job_for_the_front_of_the_queue_goes_before_the_others(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        enqueue(client, "ref_1-1")
        for command in QUEUE.commands("ref_2", "ref_2-1", is_first=True):
            client.execute_command(*command)
        assert client.lrange(QUEUE.key, 0, -1) == [b"ref_2-1", b"ref_1-1"]


def test_a_job_is_json(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        enqueue(client, "ref_1-1")
        data = client.hget("rq:job:ref_1-1", "data")
    assert isinstance(data, bytes)
    assert json.loads(data) == [JOB, None, ["ref_1"], {}]


def test_enqueueing_asks_redis_nothing() -> None:
    for job_id in ("ref_1-1", "ref_1-2"):
        commands = [words[0] for words in QUEUE.commands("ref_1", job_id)]
        assert commands == ["SADD", "HSET", "RPUSH"]


def test_the_key_is_that_of_what_waits(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        enqueue(client, "ref_1-1", "ref_2-1")
        assert client.lrange(QUEUE.key, 0, -1) == [b"ref_1-1", b"ref_2-1"]


def test_an_id_that_rq_could_not_take_apart_is_refused(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client, pytest.raises(ValueError, match="letters"):
        enqueue(client, "ref:1-1")
