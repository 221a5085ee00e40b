"""Two versions as real processes on one Redis: upgrade, rollback, and workers that are killed."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from app.contract.versions import ENGINE_VERSION
from app.store.redis import keys
from tests.e2e.running_service import RunningService, running_service
from tests.faults.later_version import LATER_VERSION, NOTED, later_version
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long

REFINEMENTS = 12
CALLS_EACH = 2
LATENCY_S = 0.2


def writers_of(events: Sequence[dict[str, Any]]) -> set[str]:
    """Which versions performed its steps."""
    steps = [it["data"] for it in events if it["type"] == "step.completed"]
    return {"later" if "of_a_later_release" in it else "this" for it in steps}


async def warned(service: RunningService, beginning: str) -> None:
    """Return once readiness has a warning that begins so."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            ready = (await service.client.get("/readyz")).json()
            if any(it.startswith(beginning) for it in ready["warnings"]):
                return
            await asyncio.sleep(0.1)


def called(service: RunningService, more: int) -> Callable[[], bool]:
    """Return whether so many more calls of the model have begun from now on."""
    wanted = service.models.counts.keys.total() + more
    return lambda: service.models.counts.keys.total() >= wanted


async def test_workers_of_two_versions_take_over_from_each_other(tmp_path: Path) -> None:
    later = later_version(tmp_path / "later")
    async with running_service(tmp_path / "service", workers=0) as service:
        service.models.latency_s = LATENCY_S
        ids = [await service.submit() for _ in range(REFINEMENTS)]
        for code in (None, later, None):
            worker = service.worker(code)
            await service.until(called(service, REFINEMENTS * CALLS_EACH))
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        service.worker(later)
        ended = [await service.ended(it) for it in ids]
        journals = [await service.events(it) for it in ids]
    assert {(it["status"], it["stop_reason"]) for it in ended} == {("succeeded", "threshold_met")}
    writers = [writers_of(it) for it in journals]
    assert writers.count({"this", "later"}) == REFINEMENTS
    assert any(it["type"] == NOTED for events in journals for it in events)
    for events in journals:
        assert [it["event"] for it in events] == list(range(1, len(events) + 1))


async def test_refinements_of_the_later_version_wait_for_its_workers(tmp_path: Path) -> None:
    later = later_version(tmp_path / "later")
    async with running_service(tmp_path / "service", workers=0) as service:
        ids = [await service.submit() for _ in range(3)]
        with Redis.from_url(service.redis.url, socket_timeout=TIMEOUT_S) as client:
            for refinement_id in ids:  # as the API of the later version stores them
                client.hset(keys.SUMMARY + refinement_id, "engine_version", str(LATER_VERSION))
        service.worker()
        await warned(service, f"refinements of engine version {LATER_VERSION} wait: ")
        waiting = [await service.get(it) for it in ids]
        service.worker(later)
        ended = [await service.ended(it) for it in ids]
        journals = [await service.events(it) for it in ids]
    assert {(it["status"], it["last_event"]) for it in waiting} == {("queued", 1)}
    assert {it["status"] for it in ended} == {"succeeded"}
    for events in journals:
        assert writers_of(events) == {"later"}
        assert any(it["data"].get("key", "").startswith("compare/") for it in events), (
            f"played as version {ENGINE_VERSION}"
        )
