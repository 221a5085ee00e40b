"""A failed refinement is retried in the running service."""

import signal
from pathlib import Path

import pytest

from benchmarks.model_replies import chat, draft
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import answering, slow_at

pytestmark = pytest.mark.long

CALLS = 8
CRITIQUE = "iterations/2/critique"
RUBBISH = answering(lambda key, _: chat("It is fine.") if key.startswith(CRITIQUE) else None)


def types(events: list[dict[str, object]]) -> list[object]:
    return [event["type"] for event in events]


async def test_an_unreadable_critique_is_asked_for_again_and_nothing_else(
    service: RunningService,
) -> None:
    service.models.behaviour = RUBBISH
    refinement_id = await service.submit()
    failed = await service.ended(refinement_id)
    assert failed["error"]["code"] == "unreadable_critique"
    asked_in_vain = len(failed["error"]["steps"])
    service.models.behaviour = answering(lambda key, _: None)
    seen = await service.events(refinement_id)
    response = await service.client.post(f"/v1/refinements/{refinement_id}/retry")
    assert (response.status_code, response.json()["status"]) == (202, "queued")
    later = await service.events(refinement_id, **{"Last-Event-ID": str(seen[-1]["event"])})
    ended = await service.get(refinement_id)
    assert (ended["status"], ended["result"]["draft"]) == ("succeeded", draft(4))
    assert set(service.models.counts.keys.values()) == {1}
    assert ended["usage"]["calls"] == service.models.counts.calls == CALLS + asked_in_vain
    assert types(later)[:2] == ["refinement.retried", "refinement.resumed"]
    assert await service.events(refinement_id) == seen + later
    assert seen[-1]["data"] == failed


async def test_a_worker_that_is_killed_after_a_retry_loses_only_the_call_in_flight(
    tmp_path: Path,
) -> None:
    async with running_service(tmp_path, RUBBISH) as service:
        refinement_id = await service.submit()
        failed = await service.ended(refinement_id)
        calls = service.models.counts.calls
        service.models.behaviour = slow_at("iterations/3/revise", 30)
        await service.send("POST", f"/v1/refinements/{refinement_id}/retry")
        await service.until(lambda: service.models.counts.calls == calls + 2)
        killed = service.processes[-1]
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        service.models.behaviour = answering(lambda key, _: None)
        service.worker()
        ended = await service.ended(refinement_id)
        assert (ended["status"], ended["result"]["draft"]) == ("succeeded", draft(4))
        repeated = [key for key, count in service.models.counts.keys.items() if count > 1]
        assert repeated == [f"{refinement_id}/iterations/3/revise"]
        in_vain = len(failed["error"]["steps"])
        assert service.models.counts.calls == CALLS + in_vain + 1
