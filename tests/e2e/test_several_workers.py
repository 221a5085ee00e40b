"""Several workers in one process tree, as `hone worker` runs them."""

import asyncio
import os
import re
import signal
from pathlib import Path

import httpx
import pytest

from app.settings import Settings
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import held_at
from tests.ports import reserved_port
from tests.processes import descendants, is_alive
from tests.waiting import TIMEOUT_S
from workers.__main__ import parted


@pytest.mark.parametrize(
    ("concurrency", "workers", "parts"), [(200, 3, [67, 67, 66]), (2, 4, [1, 1, 1, 1])]
)
def test_concurrency_is_divided(concurrency: int, workers: int, parts: list[int]) -> None:
    settings = Settings(concurrency=concurrency, workers=workers)
    assert [each.concurrency for each in parted(settings)] == parts


def ids_of_workers(service: RunningService) -> set[int]:
    """Return the process ids of all workers that have begun to take work."""
    logs = "".join(log.read_text() for log in service.logs.glob("*-workers.log"))
    return {int(pid) for pid in re.findall(r'"pid": (\d+)[^\n]* runs up to 1 refinements', logs)}


async def ended(metrics: str) -> float:
    """Return how many refinements all workers have counted as ended."""
    async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
        text = (await client.get(f"http://{metrics}/metrics")).text
    return sum(float(it) for it in re.findall(r"(?m)^hone_refinements_ended_total.* (.*)$", text))


async def counted(metrics: str, endings: int) -> None:
    """Return once the workers have counted so many; they do after the end can be seen."""
    async with asyncio.timeout(TIMEOUT_S):
        while (now := await ended(metrics)) != endings:
            assert now < endings
            await asyncio.sleep(0.05)


async def test_one_that_is_killed_comes_back_and_all_end_by_one_signal(tmp_path: Path) -> None:
    with reserved_port() as port:
        await comes_back(tmp_path, f"127.0.0.1:{port}")


async def comes_back(path: Path, metrics: str) -> None:
    async with running_service(path, workers=0, concurrency=2) as service:
        more = {"workers": 2, "metrics_address": metrics}
        service.settings = service.settings.model_copy(update=more)
        supervisor = service.worker()
        await service.ready(2)
        await service.until(lambda: len(ids_of_workers(service)) == 2)
        first = ids_of_workers(service)
        before = [await service.submit() for _ in range(4)]
        for each in before:
            await service.ended(each)
        await counted(metrics, 4)

        released = asyncio.Event()
        service.models.behaviour = held_at("iterations/1/draft", released)
        going_on = [await service.submit() for _ in range(2)]
        await service.until(lambda: service.models.counts.in_flight == 2)
        os.kill(first.pop(), signal.SIGKILL)
        released.set()
        for each in going_on:
            assert (await service.ended(each))["status"] == "succeeded"
        await service.until(lambda: len(ids_of_workers(service)) == 3)
        await counted(metrics, 6)
        assert supervisor.poll() is None

        family = set(descendants(supervisor.pid))
        supervisor.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(supervisor.wait) == 0
        await service.until(lambda: not any(map(is_alive, family)))
