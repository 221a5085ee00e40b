"""What RQ shows of a worker and its jobs is what it shows of its own."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from typing import cast

import pytest
from redis import Redis
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.worker import Worker

from tests.workers.rq_queue import INTERMEDIATE, NAME, Jobs, RqInspector, desk_at, until, working
from workers.rq.registry import HeldJob, RqRegistry
from workers.rq.worker import CoroutineWorker, persistent_client


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
    with desk_at(redis_url) as desk:
        desk.enqueue(["ref_1", "ref_2", "ref_3"])
        async with working(redis_url, jobs.refine, concurrency=2) as worker:
            await until(lambda: len(desk.started.get_job_ids()) == 2)
            busy = await _rq_info(redis_url)
            jobs.let_go.set()
            await until(lambda: len(jobs.ended) == 3)
            await until(lambda: Worker.all(desk.client)[0].get_state() == "idle")
            idle = await _rq_info(redis_url)
        left = await _rq_info(redis_url)
    assert "queue hone 1, 2 executing, 0 finished, 0 failed" in busy
    assert f"worker {worker.name} ({worker.hostname} " in busy
    assert f"{worker.pid}) busy hone. jobs: 0 finished, 0 failed" in busy
    assert f"{worker.pid}) idle hone. jobs: 3 finished, 0 failed" in idle
    assert "worker" not in left


async def test_a_job_in_flight_is_shown_as_started_by_its_worker(redis_url: str) -> None:
    jobs = Jobs(held=True)
    with desk_at(redis_url) as desk:
        desk.enqueue(["ref_1"])
        async with working(redis_url, jobs.refine, leave=jobs.let_go.set) as worker:
            await until(lambda: desk.started.get_job_ids() == ["ref_1-1"])
            job = Job.fetch("ref_1-1", desk.client, JSONSerializer)
            (execution,) = job.get_executions()
    assert job.get_status(refresh=False) is JobStatus.STARTED
    assert job.worker_name == execution.worker_name == worker.name
    assert job.started_at is not None


@pytest.fixture
async def ledger(redis_url: str) -> AsyncIterator[RqRegistry]:
    """The ledger of a worker that does not run."""

    async def never(job_id: str, refinement_id: str) -> None:
        raise AssertionError

    worker = CoroutineWorker(
        NAME, redis_url, {"never": never}, concurrency=1, grace_s=1, name="scribe"
    )
    async with persistent_client(redis_url, "scribe") as client:
        yield RqRegistry(worker, client)


def _held(desk: RqInspector, refinement_id: str) -> HeldJob:
    desk.enqueue([refinement_id])
    desk.client.lmove("rq:queue:hone", INTERMEDIATE)
    job = HeldJob(f"{refinement_id}-1", desk.client, JSONSerializer)
    job.refresh()  # type: ignore[no-untyped-call]
    return job


async def test_heartbeats_keep_rq_from_giving_up_on_a_long_job(
    redis_url: str, ledger: RqRegistry
) -> None:
    with desk_at(redis_url) as desk:
        job = _held(desk, "ref_1")
        ledger.started(job)
        await ledger.settle()
        execution = cast("Execution", job.execution)
        _age(desk.client, job, execution)
        ledger.beat()
        await ledger.settle()
        assert desk.client.ttl(execution.key) > 60
        assert desk.client.ttl(job.key) > 60
        assert desk.started.get_expired_job_ids() == []
        assert desk.started.get_job_ids() == ["ref_1-1"]


def _age(client: Redis, job: HeldJob, execution: Execution) -> None:
    client.expire(execution.key, 5)
    client.expire(job.key, 5)
    client.zadd(job.started_job_registry.key, {execution.composite_key: time.time() - 1})


async def test_a_worker_that_redis_forgot_is_shown_again(
    redis_url: str, ledger: RqRegistry
) -> None:
    with desk_at(redis_url) as desk:
        ledger.beat()
        await ledger.settle()
        desk.client.flushall()
        ledger.beat()
        await ledger.settle()
        (worker,) = Worker.all(desk.client)
    assert (worker.name, worker.get_state(), worker.queue_names()) == ("scribe", "idle", [NAME])


async def test_what_a_killed_worker_held_expires_by_itself(
    redis_url: str, ledger: RqRegistry
) -> None:
    with desk_at(redis_url) as desk:
        ledger.beat()
        ledger.started(_held(desk, "ref_1"))
        await ledger.settle()
        lists = {b"rq:queues", b"rq:workers", b"rq:workers:hone", b"rq:wip:hone"}
        keys = set(cast("list[bytes]", desk.client.keys())) - lists
        assert {b"rq:job:ref_1-1", b"rq:worker:scribe"} < keys
        assert all(0 < desk.client.ttl(key) <= 150 for key in keys)


async def test_notes_that_cannot_be_written_do_not_keep_others_from_it(
    redis_url: str, ledger: RqRegistry
) -> None:
    with desk_at(redis_url) as desk:
        odd, job = _held(desk, "ref_odd"), _held(desk, "ref_1")
        odd.failure_ttl, odd.timeout = 0, cast("float", "soon")  # cannot be compared with a number
        ledger.started(odd)
        ledger.started(job)
        ledger.ended(job)
        await ledger.settle()
        assert desk.client.lrange(INTERMEDIATE, 0, -1) == [b"ref_odd-1"]


async def test_old_failures_are_listed_no_longer(redis_url: str, ledger: RqRegistry) -> None:
    with desk_at(redis_url) as desk:
        desk.client.zadd(desk.failed.key, {"ref_old-1": 1, "ref_new-1": 4e9})
        ledger.beat()
        await ledger.settle()
        assert desk.client.zrange(desk.failed.key, 0, -1) == [b"ref_new-1"]
