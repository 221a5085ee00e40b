"""A refinement that kills the process that plays it harms no other: real workers, real children."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import held_at
from tests.faults.poison import MODULE, run_poisoned
from tests.processes import descendants, is_alive
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long


async def test_the_one_that_kills_its_worker_is_found_and_all_others_succeed(
    tmp_path: Path,
) -> None:
    figures = await run_poisoned(tmp_path, ["dies"], innocent=3, workers=1, latency_s=0.1)
    assert figures.is_kept, figures.line()
    assert figures.deaths == 1
    assert "killed by signal 9 (SIGKILL)" in figures.poisoned[0]


async def child_of(service: RunningService, worker: int) -> int:
    """Return the process in which a worker plays suspects: its fork server has forked it."""
    await service.until(lambda: len([*descendants(worker)]) == 2)
    return [*descendants(worker)][1]


async def called(service: RunningService, calls: int) -> None:
    await service.until(lambda: service.models.counts.calls == calls)


async def gone(service: RunningService, pid: int) -> None:
    await service.until(lambda: not is_alive(pid))


async def test_children_end_with_their_worker_and_hand_back_when_it_leaves(tmp_path: Path) -> None:
    async with running_service(tmp_path, worker_module=MODULE) as service:
        service.models.latency_s = TIMEOUT_S
        refinement_id = await service.submit(max_iterations=1)
        for attempt in (1, 2, 3):  # none of these deaths is evidence
            await called(service, attempt)
            worker = service.processes[-1]
            child = await child_of(service, worker.pid) if attempt > 1 else worker.pid
            worker.kill()
            worker.wait()
            await gone(service, child)
            service.worker()
        released = asyncio.Event()
        service.models.behaviour = held_at("iterations/1/draft", released)
        service.models.latency_s = 1.0
        await called(service, 4)
        leaving = service.processes[-1]
        await service.asked_to_leave(leaving)
        released.set()
        await service.until(lambda: leaving.poll() == 0)
        assert (await service.get(refinement_id))["status"] == "running"
        service.worker()
        ended = await service.ended(refinement_id)
        assert (ended["status"], service.models.counts.calls) == ("succeeded", 5)
