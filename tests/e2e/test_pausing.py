"""What waits for a person costs nothing, and what has ended can be gone on from."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from benchmarks.model_replies import AskedPrompt, ModelServerReply, draft
from tests.e2e.running_service import RunningService, running_service
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long


async def paused(service: RunningService, refinement_id: str) -> Any:
    """Poll, as a client would, until somebody is asked; return the snapshot."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            snapshot = await service.get(refinement_id)
            if snapshot["status"] == "paused":
                return snapshot
            await asyncio.sleep(0.05)


async def test_what_is_paused_takes_no_slot_of_a_worker(tmp_path: Path) -> None:
    async with running_service(tmp_path, concurrency=1) as service:
        waiting = [await service.submit(review={"when": "before_completion"}) for _ in range(5)]
        for refinement_id in waiting:
            await paused(service, refinement_id)
        assert (await service.ended(await service.submit()))["status"] == "succeeded"
        for refinement_id in waiting:
            body = {"action": "approve"}
            await service.send("POST", f"/v1/refinements/{refinement_id}/reviews", body)
        ended = [await service.ended(refinement_id) for refinement_id in waiting]
        assert {it["stop_reason"] for it in ended} == {"approved"}
        assert {it["usage"]["calls"] for it in ended} == {8}  # nothing was asked twice


async def test_a_finish_ends_what_is_paused_with_its_best_draft(service: RunningService) -> None:
    refinement_id = await service.submit(review={"when": "each_iteration"})
    await paused(service, refinement_id)
    await service.send("POST", f"/v1/refinements/{refinement_id}/finish")
    ended = await service.ended(refinement_id)
    assert (ended["status"], ended["stop_reason"]) == ("succeeded", "finished_early")
    assert (ended["result"]["draft"], service.models.counts.calls) == (draft(1), 2)


async def test_a_refinement_goes_on_from_the_result_of_another(service: RunningService) -> None:
    parent = await service.ended(await service.submit(max_iterations=2))
    assert (parent["stop_reason"], parent["result"]["score"]) == ("max_iterations", 0.6)
    body = {"max_iterations": 9}
    answer = await service.client.post(parent["links"]["continue"], json=body)
    child = await service.ended(answer.json()["id"])
    assert (child["parent"], child["stop_reason"]) == (parent["id"], "threshold_met")
    assert (await service.get(child["id"], "/iterations/0"))["draft"] == draft(2)
    assert (child["scores"][0]["score"], child["result"]["draft"]) == (0.6, draft(4))


async def test_a_pause_lets_the_call_in_progress_end_and_holds_until_it_is_resumed(
    tmp_path: Path,
) -> None:
    async with running_service(tmp_path) as service:
        worker = service.processes[-1]
        stopped_in = service.models.behaviour

        def answer(asked: AskedPrompt) -> ModelServerReply:
            if service.models.counts.calls == 3:
                worker.send_signal(signal.SIGSTOP)  # before it can read the reply
            return stopped_in(asked)

        service.models.behaviour = answer
        refinement_id = await service.submit()
        await service.until(lambda: service.models.counts.calls == 3)
        pause = {"timeout_s": 3_600, "on_timeout": "finish"}
        answered = await service.client.post(f"/v1/refinements/{refinement_id}/pause", json=pause)
        worker.send_signal(signal.SIGCONT)
        assert (answered.status_code, answered.json()["status"]) == (202, "running")
        asked = (await paused(service, refinement_id))["review"]
        assert (asked["when"], asked["path"]) == ("requested", "iterations/1")
        assert service.models.counts.calls == 3
        body = {"action": "resume", "path": asked["key"]}
        await service.send("POST", f"/v1/refinements/{refinement_id}/reviews", body)
        ended = await service.ended(refinement_id)
        assert (ended["stop_reason"], ended["usage"]["calls"]) == ("threshold_met", 8)
        assert service.models.counts.calls == 8  # nothing was asked twice
