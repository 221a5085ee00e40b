"""What RQ shows of a worker and its jobs is what it shows of its own."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import cast

import pytest
from redis import Redis
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.worker import Worker

from app.store.redis.committer import Committer
from tests.workers.rq_queue import (
    INTERMEDIATE,
    NAME,
    Jobs,
    RqInspector,
    open_inspector,
    until,
    working,
)
from workers.rq import (
    REFRESH_EVERY_S,
    CoroutineWorker,
    HeldJob,
    RqRegistry,
    persistent_client,
)


async def _rq_info(url: str) -> str:
    """Return what `rq info` prints."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rq.cli", "info", "--raw", "--url", url),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await program.communicate()
    assert program.returncode == 0
    return output.decode()


async def test_rq_info_shows_the_worker_and_what_it_does(redis_url: str) -> None:
    jobs = Jobs(held=True)
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_1", "ref_2", "ref_3"])
        async with working(redis_url, jobs.refine, concurrency=2) as worker:
            await until(lambda: len(inspector.started.get_job_ids()) == 2)
            busy = await _rq_info(redis_url)
            jobs.let_go.set()
            await until(lambda: len(jobs.ended) == 3)
            await until(lambda: Worker.all(inspector.client)[0].get_state() == "idle")
            idle = await _rq_info(redis_url)
        left = await _rq_info(redis_url)
    assert "queue hone 1, 2 executing, 0 finished, 0 failed" in busy
    assert f"worker {worker.name} ({worker.hostname} " in busy
    assert f"{worker.pid}) busy hone. jobs: 0 finished, 0 failed" in busy
    assert f"{worker.pid}) idle hone. jobs: 3 finished, 0 failed" in idle
    assert "worker" not in left


async def test_a_job_in_flight_is_shown_as_started_by_its_worker(redis_url: str) -> None:
    jobs = Jobs(held=True)
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_1"])
        async with working(redis_url, jobs.refine, leave=jobs.let_go.set) as worker:
            await until(lambda: inspector.started.get_job_ids() == ["ref_1-1"])
            job = Job.fetch("ref_1-1", inspector.client, JSONSerializer)
            (execution,) = job.get_executions()
    assert job.get_status(refresh=False) is JobStatus.STARTED
    assert job.worker_name == execution.worker_name == worker.name
    assert job.started_at is not None


@pytest.fixture
def time_passed() -> list[float]:
    """What the registry's clock shows, in seconds."""
    return [0.0]


@pytest.fixture
async def registry(redis_url: str, time_passed: list[float]) -> AsyncIterator[RqRegistry]:
    """The registry of a worker that does not run."""

    async def never(job_id: str, refinement_id: str) -> None:
        raise AssertionError

    worker = CoroutineWorker(
        NAME, redis_url, {"never": never}, concurrency=1, grace_s=1, name="scribe"
    )
    client = persistent_client(redis_url, "scribe")
    async with client, aclosing(Committer(client)) as committer:
        yield RqRegistry(worker, committer, clock=lambda: time_passed[0])


def _held(inspector: RqInspector, refinement_id: str) -> HeldJob:
    inspector.enqueue([refinement_id])
    inspector.client.lmove("rq:queue:hone", INTERMEDIATE)
    job = HeldJob(f"{refinement_id}-1", inspector.client, JSONSerializer)
    job.refresh()  # type: ignore[no-untyped-call]
    return job


async def test_heartbeats_keep_rq_from_giving_up_on_a_long_job(
    redis_url: str, registry: RqRegistry, time_passed: list[float]
) -> None:
    with open_inspector(redis_url) as inspector:
        job = _held(inspector, "ref_1")
        registry.started(job)
        await registry.settle()
        execution = cast("Execution", job.execution)
        _age(inspector.client, job, execution)
        time_passed[0] += REFRESH_EVERY_S
        registry.beat()
        await registry.settle()
        assert inspector.client.ttl(execution.key) > 60
        assert inspector.client.ttl(job.key) > 60
        assert inspector.started.get_expired_job_ids() == []
        assert inspector.started.get_job_ids() == ["ref_1-1"]


def _age(client: Redis, job: HeldJob, execution: Execution) -> None:
    client.expire(execution.key, 60)
    client.expire(job.key, 60)
    client.zadd(job.started_job_registry.key, {execution.composite_key: time.time() - 1})


async def test_a_worker_that_redis_forgot_is_shown_again(
    redis_url: str, registry: RqRegistry
) -> None:
    with open_inspector(redis_url) as inspector:
        registry.beat()
        await registry.settle()
        inspector.client.flushall()
        registry.beat()
        await registry.settle()
        (worker,) = Worker.all(inspector.client)
    assert (worker.name, worker.get_state(), worker.queue_names()) == ("scribe", "idle", [NAME])


async def test_killed_workers_are_listed_until_another_one_starts(redis_url: str) -> None:
    with open_inspector(redis_url) as inspector:
        for name in ("rq:workers", "rq:workers:hone"):
            inspector.client.sadd(name, "rq:worker:killed")
        async with working(redis_url, Jobs().refine) as worker:
            await until(lambda: inspector.client.exists(worker.key))
            for name in ("rq:workers", "rq:workers:hone"):
                assert inspector.client.smembers(name) == {worker.key.encode()}


async def test_what_a_killed_worker_held_expires_by_itself(
    redis_url: str, registry: RqRegistry
) -> None:
    with open_inspector(redis_url) as inspector:
        registry.beat()
        registry.started(_held(inspector, "ref_1"))
        await registry.settle()
        lists = {b"rq:queues", b"rq:workers", b"rq:workers:hone", b"rq:wip:hone"}
        keys = set(cast("list[bytes]", inspector.client.keys())) - lists
        assert {b"rq:job:ref_1-1", b"rq:worker:scribe"} < keys
        assert all(0 < inspector.client.ttl(key) <= 3700 for key in keys)


async def test_notes_that_cannot_be_written_do_not_keep_others_from_it(
    redis_url: str, registry: RqRegistry
) -> None:
    with open_inspector(redis_url) as inspector:
        odd, job = _held(inspector, "ref_odd"), _held(inspector, "ref_1")
        registry.started(odd)
        vars(odd)["started_job_registry"] = None  # a list that it cannot be added to
        registry.started(job)
        registry.ended(job)
        await registry.settle()
        assert inspector.client.lrange(INTERMEDIATE, 0, -1) == [b"ref_odd-1"]


async def test_a_job_is_restored_as_rq_restores_it(redis_url: str) -> None:
    with open_inspector(redis_url) as inspector:
        held = _held(inspector, "ref_1")
        job = Job.fetch(held.id, inspector.client, JSONSerializer)
    assert held.created_at == job.created_at
    assert held.enqueued_at == job.enqueued_at
    assert held.to_dict() == job.to_dict()


async def test_what_redis_refuses_is_logged_and_the_rest_is_written(
    redis_url: str, registry: RqRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    with open_inspector(redis_url) as inspector:
        registry.started(_held(inspector, "ref_1"))
        inspector.client.set(inspector.started.key, "not a list")
        await registry.settle()
        job = Job.fetch("ref_1-1", inspector.client, JSONSerializer)
    assert job.get_status(refresh=False) is JobStatus.STARTED
    assert "Redis rejected 1 RQ registry commands: WRONGTYPE" in caplog.text


async def test_old_failures_are_listed_no_longer(redis_url: str, registry: RqRegistry) -> None:
    with open_inspector(redis_url) as inspector:
        inspector.client.zadd(inspector.failed.key, {"ref_old-1": 1, "ref_new-1": 4e9})
        registry.beat()
        await registry.settle()
        assert inspector.client.zrange(inspector.failed.key, 0, -1) == [b"ref_new-1"]
