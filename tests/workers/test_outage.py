"""Redis goes away and comes back: jobs run on, the worker stays, nothing is left behind."""

import asyncio
import os
import signal
from pathlib import Path

from app.local.embedded import EmbeddedRedis
from tests.workers.rq_queue import Jobs, open_inspector, until, working


async def _kill(server: EmbeddedRedis) -> None:
    os.kill(server.pid, signal.SIGKILL)
    await until(lambda: not server.is_running)


async def test_a_busy_worker_outlives_redis(tmp_path: Path) -> None:
    before, after = Jobs(held=True), Jobs()

    async def refine(job_id: str, refinement_id: str) -> None:
        await (after if refinement_id == "ref_later" else before).refine(job_id, refinement_id)

    with EmbeddedRedis(tmp_path) as server:
        async with working(server.url, refine):
            with open_inspector(server.url) as inspector:
                inspector.enqueue(["ref_1", "ref_2", "ref_3"])
                await until(lambda: before.in_flight == 3)
                await until(lambda: len(inspector.started.get_job_ids()) == 3)
            await _kill(server)
            before.let_go.set()
            await until(lambda: len(before.ended) == 3)
            server.revive()
            with open_inspector(server.url) as inspector:
                inspector.enqueue(["ref_later"])
                await until(lambda: after.ended)
        with open_inspector(server.url) as inspector:
            assert inspector.left() == set()


async def test_a_worker_waits_for_a_redis_that_is_not_there_yet(tmp_path: Path) -> None:
    jobs = Jobs()
    with EmbeddedRedis(tmp_path) as server:
        await _kill(server)
        async with working(server.url, jobs.refine) as worker:
            await asyncio.sleep(0.2)
            server.revive()
            with open_inspector(server.url) as inspector:
                inspector.enqueue(["ref_1"])
                await until(lambda: jobs.ended)
            await until(worker.is_idle)


async def test_a_worker_leaves_while_redis_is_away(tmp_path: Path) -> None:
    jobs = Jobs(held=True)
    with EmbeddedRedis(tmp_path) as server:
        async with working(server.url, jobs.refine, leave=jobs.let_go.set):
            with open_inspector(server.url) as inspector:
                inspector.enqueue(["ref_1"])
                await until(lambda: jobs.in_flight)
            await _kill(server)
    assert jobs.ended == ["ref_1"]
