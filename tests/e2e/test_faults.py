"""What is promised when processes die."""

import asyncio
import signal
from pathlib import Path

import pytest

from benchmarks.model_replies import draft
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import hanging_at, held_at, slow_at

pytestmark = pytest.mark.long

CALLS = 8


async def test_a_killed_workers_refinement_goes_on_where_it_was(tmp_path: Path) -> None:
    async with running_service(tmp_path, slow_at("iterations/2/critique", 30)) as service:
        refinement_id = await service.submit()
        await service.until(lambda: service.models.counts.calls == 4)
        killed = service.processes[-1]
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        service.models.behaviour = slow_at("iterations/2/critique", 0)
        service.worker()
        ended = await service.ended(refinement_id)
        assert (ended["status"], ended["result"]["draft"]) == ("succeeded", draft(4))
        repeated = [key for key, calls in service.models.counts.keys.items() if calls > 1]
        assert repeated == [f"{refinement_id}/iterations/2/critique"]
        assert service.models.counts.calls == CALLS + 1
        events = await service.events(refinement_id)
        assert [event["event"] for event in events] == list(range(1, len(events) + 1))
        assert [event["type"] for event in events].count("refinement.resumed") == 1


async def test_a_worker_hands_its_refinement_back_at_sigterm(tmp_path: Path) -> None:
    released = asyncio.Event()
    async with running_service(tmp_path, held_at("iterations/2/revise", released)) as service:
        refinement_id = await service.submit()
        await service.until(lambda: service.models.counts.calls == 3)
        leaving = service.processes[-1]
        await service.asked_to_leave(leaving)
        released.set()
        await service.until(lambda: leaving.poll() == 0)
        assert (await service.get(refinement_id))["status"] == "running"
        service.worker()
        ended = await service.ended(refinement_id)
        assert (ended["status"], service.models.counts.calls) == ("succeeded", CALLS)


async def test_an_erased_refinement_is_gone_and_its_call_is_dropped(
    service: RunningService,
) -> None:
    service.models.behaviour = hanging_at("iterations/1/draft")
    refinement_id = await service.submit()
    await service.until(lambda: service.models.counts.calls == 1)
    path = f"/v1/refinements/{refinement_id}"
    assert (await service.client.delete(path)).status_code == 204
    assert (await service.client.get(path)).status_code == 404
    await service.until(lambda: service.models.counts.dropped == 1)
