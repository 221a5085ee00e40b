"""Several workers in one process tree, as `hone worker` runs them."""

import asyncio
import os
import re
import signal
from pathlib import Path

import httpx
import pytest

from app.cli.processes import free_port
from app.settings import Settings
from benchmarks.model_replies import AskedPrompt, ModelServerReply, improving
from tests.e2e.running_service import RunningService, running_service
from tests.processes import descendants, is_alive
from tests.waiting import TIMEOUT_S
from workers.__main__ import parted


def slow(asked: AskedPrompt) -> ModelServerReply:
    reply = improving(asked)
    return ModelServerReply(reply.status, reply.body, delay_s=0.3)


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


async def test_one_that_is_killed_comes_back_and_all_end_by_one_signal(tmp_path: Path) -> None:
    metrics = f"127.0.0.1:{free_port('127.0.0.1')}"
    async with running_service(tmp_path, slow, workers=0, concurrency=2) as service:
        more = {"workers": 2, "metrics_address": metrics}
        service.settings = service.settings.model_copy(update=more)
        supervisor = service.worker()
        await service.ready(2)
        first = ids_of_workers(service)
        assert len(first) == 2
        before = [await service.submit() for _ in range(4)]
        for each in before:
            await service.ended(each)
        assert await ended(metrics) == 4

        going_on = [await service.submit() for _ in range(2)]
        await service.until(lambda: service.models.counts.in_flight == 2)
        os.kill(first.pop(), signal.SIGKILL)
        for each in going_on:
            assert (await service.ended(each))["status"] == "succeeded"
        await service.until(lambda: len(ids_of_workers(service)) == 3)
        assert await ended(metrics) == 6
        assert supervisor.poll() is None

        family = set(descendants(supervisor.pid))
        supervisor.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(supervisor.wait) == 0
        await service.until(lambda: not any(map(is_alive, family)))
