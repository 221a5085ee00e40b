"""What a client sees, over real HTTP, with a real worker."""

import asyncio

from benchmarks.model_replies import chat, draft
from tests.e2e.running_service import RunningService, frozen
from tests.e2e.scripted_models import answering, hanging_at, scoring, slow_at

CALLS = 8


async def test_submit_and_poll_to_the_end(service: RunningService) -> None:
    refinement_id = await service.submit()
    ended = await service.ended(refinement_id)
    assert (ended["status"], ended["stop_reason"]) == ("succeeded", "threshold_met")
    assert (ended["result"]["score"], ended["outcome"]) == (0.95, "passed")
    assert ended["result"]["draft"] == draft(4)
    assert (ended["usage"]["calls"], service.models.counts.calls) == (CALLS, CALLS)
    judged = (await service.get(refinement_id, "/iterations"))["data"]
    assert [it["score"] for it in judged] == [0.4, 0.6, 0.8, 0.95]
    assert [it["draft"] for it in judged] == [draft(n) for n in range(1, 5)]
    diff = await service.get(refinement_id, "/diff?from=1&to=4")
    assert "+Draft number 4." in diff["unified"]


async def test_a_stream_from_the_start_and_one_from_the_middle_tell_the_same(
    service: RunningService,
) -> None:
    service.models.behaviour = slow_at("iterations/1/draft", 0.5)
    refinement_id = await service.submit()
    events = await service.events(refinement_id)
    assert [event["event"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "refinement.completed"
    assert events[-1]["data"] == await service.get(refinement_id)
    assert await service.events(refinement_id, **{"Last-Event-ID": "7"}) == events[7:]


async def test_cancel_drops_the_connection_of_the_call_in_flight(service: RunningService) -> None:
    service.models.behaviour = hanging_at("iterations/2/critique")
    refinement_id = await service.submit()
    await service.until(lambda: service.models.counts.calls == 4)
    assert service.models.counts.dropped == 0
    with frozen(service.processes[-1]):
        response = await service.client.post(f"/v1/refinements/{refinement_id}/cancel")
        assert (response.status_code, response.json()["status"]) == (202, "canceling")
    await service.until(lambda: service.models.counts.dropped == 1)
    ended = await service.ended(refinement_id)
    assert (ended["status"], ended["stop_reason"]) == ("canceled", "canceled")
    assert ended["result"]["score"] == 0.4
    assert service.models.counts.calls == 4


async def test_finish_keeps_the_best_draft_so_far(service: RunningService) -> None:
    service.models.behaviour = hanging_at("iterations/3/revise")
    refinement_id = await service.submit()
    await service.until(lambda: service.models.counts.calls == 5)
    await service.send("POST", f"/v1/refinements/{refinement_id}/finish")
    ended = await service.ended(refinement_id)
    assert (ended["status"], ended["stop_reason"]) == ("succeeded", "finished_early")
    assert (ended["result"]["score"], ended["outcome"]) == (0.6, "best_effort")
    await service.until(lambda: service.models.counts.dropped == 1)


async def test_returns_the_best_draft_when_a_later_one_is_worse(service: RunningService) -> None:
    service.models.behaviour = scoring(0.4, 0.75, 0.2)
    ended = await service.ended(await service.submit(max_iterations=3))
    assert (ended["stop_reason"], ended["result"]["path"]) == ("max_iterations", "iterations/2")
    assert (ended["result"]["draft"], ended["result"]["score"]) == (draft(2), 0.75)


async def test_a_critic_that_answers_rubbish_fails_the_refinement(service: RunningService) -> None:
    rubbish = answering(lambda key, _: chat("It is fine.") if "/critique" in key else None)
    service.models.behaviour = rubbish
    ended = await service.ended(await service.submit())
    assert (ended["status"], ended["stop_reason"]) == ("failed", "error")
    assert ended["error"]["code"] == "unreadable_critique"
    assert ended["result"] is None
    assert service.models.counts.calls == 4


async def test_a_critic_that_answers_rubbish_once_is_asked_again(service: RunningService) -> None:
    once = answering(lambda key, _: chat("Fine.") if key.endswith("1/critique") else None)
    service.models.behaviour = once
    ended = await service.ended(await service.submit())
    assert (ended["status"], ended["usage"]["calls"]) == ("succeeded", CALLS + 1)


async def test_twenty_equal_submissions_with_one_key_are_one_refinement(
    service: RunningService,
) -> None:
    body, headers = {"task": "Explain refunds.", "max_iterations": 9}, {"Idempotency-Key": "k"}
    responses = await asyncio.gather(
        *(service.client.post("/v1/refinements", json=body, headers=headers) for _ in range(20))
    )
    assert {response.status_code for response in responses} <= {200, 202}
    ids = {response.json()["id"] for response in responses}
    assert len(ids) == 1
    replayed = [it for it in responses if it.headers.get("Idempotency-Replayed") == "true"]
    assert len(replayed) == 19
    await service.ended(ids.pop())
    assert service.models.counts.calls == CALLS
