"""SIGTERM: stop dequeuing, finish or hand back within the grace period, leave nothing behind."""

import asyncio
import os
import signal

import pytest

from app.queue import JOB
from tests.workers.rq_queue import INTERMEDIATE, Jobs, open_inspector, until, working
from workers.rq import CoroutineWorker


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_jobs_finish_and_takes_no_new_ones(
    redis_url: str, number: signal.Signals
) -> None:
    jobs = Jobs(held=True)
    before = signal.getsignal(number)
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_1", "ref_2"])
        async with working(redis_url, jobs.refine, leave=jobs.let_go.set) as worker:
            await until(lambda: jobs.in_flight == 2)
            os.kill(os.getpid(), number)
            await until(lambda: len(jobs.ended) == 2)
            inspector.enqueue(["ref_3"])
        assert inspector.waiting() == ["ref_3-1"]
        assert inspector.left() == {"rq:queue:hone", "rq:job:ref_3-1"}
        assert worker.free_slots == 0
    assert signal.getsignal(number) == before


async def test_a_job_that_does_not_finish_may_hand_back_what_it_holds(redis_url: str) -> None:
    jobs, handed_back = Jobs(held=True), []

    async def refine(job_id: str, refinement_id: str) -> None:
        try:
            await jobs.refine(job_id, refinement_id)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            handed_back.append(refinement_id)
            raise

    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_1", "ref_2"])
        async with working(redis_url, refine, grace_s=3.0):
            await until(lambda: jobs.in_flight == 2)
        assert sorted(handed_back) == ["ref_1", "ref_2"]
        assert inspector.left() == set()


async def test_a_worker_that_is_cancelled_cancels_its_jobs_and_leaves(redis_url: str) -> None:
    jobs = Jobs(held=True)
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_1", "ref_2"])
        worker = CoroutineWorker("hone", redis_url, {JOB: jobs.refine}, concurrency=9, grace_s=30)
        serving = asyncio.create_task(worker.serve())
        await until(lambda: jobs.in_flight == 2)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert jobs.in_flight == 0
        assert inspector.left() == set()


async def test_a_job_that_does_not_end_holds_up_no_other(redis_url: str) -> None:
    jobs, never = Jobs(held=True), asyncio.Event()

    async def refine(job_id: str, refinement_id: str) -> None:
        while not never.is_set():
            try:
                await jobs.refine(job_id, refinement_id)
            except asyncio.CancelledError:
                continue

    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_1"])
        async with working(redis_url, refine, grace_s=0.2):
            await until(lambda: jobs.in_flight)
        left, in_flight = inspector.left(), jobs.in_flight
    never.set()
    jobs.let_go.set()
    assert (in_flight, left) == (1, set())


async def test_a_worker_that_waits_for_a_job_leaves_without_one(redis_url: str) -> None:
    jobs = Jobs()
    with open_inspector(redis_url) as inspector:
        async with working(redis_url, jobs.refine) as worker:
            await until(worker.is_idle)
        inspector.enqueue(["ref_1"])
        assert inspector.waiting() == ["ref_1-1"]
    assert jobs.calls == []


async def test_a_worker_that_is_full_leaves_too(redis_url: str) -> None:
    jobs = Jobs(held=True)
    with open_inspector(redis_url) as inspector:
        inspector.enqueue(["ref_1", "ref_2"])
        async with working(redis_url, jobs.refine, concurrency=1, grace_s=0.2):
            await until(lambda: jobs.in_flight == 1)
        assert (jobs.in_flight, jobs.ended) == (0, [])
        assert inspector.waiting() == ["ref_2-1"]


async def test_jobs_that_come_while_it_leaves_are_put_back_in_order(redis_url: str) -> None:
    ids = [f"ref_{number}" for number in range(20)]
    ran: list[str] = []

    async def refine(_job_id: str, refinement_id: str) -> None:
        ran.append(refinement_id)
        worker.stop()  # by now the next are on their way

    with open_inspector(redis_url) as inspector:
        inspector.enqueue(ids)
        worker = CoroutineWorker("hone", redis_url, {JOB: refine}, concurrency=50, grace_s=1)
        await worker.serve()
        assert [*(f"{each}-1" for each in ran), *inspector.waiting()] == [
            f"{each}-1" for each in ids
        ]
        assert inspector.client.llen(INTERMEDIATE) == 0
