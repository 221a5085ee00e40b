"""The Python client with a real service."""

import asyncio

import pytest

import hone
from app.cli.processes import url_of
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import hanging_at


async def test_a_person_steers_with_the_synchronous_client(service: RunningService) -> None:
    service.models.behaviour = hanging_at("iterations/2/revise")

    def steer() -> None:
        with hone.Hone(url_of(service.settings)) as client:
            running = client.submit(task="Explain refunds.", max_iterations=9)
            for event in client.events(running):
                if event.type == "iteration.completed":
                    break
            assert client.change(running, threshold=0.99).threshold == 0.99
            with pytest.raises(hone.PreconditionFailed):
                client.change(running, threshold=0.5, if_match=1)
            client.finish(running)
            ended = client.wait(running, timeout=60)
            assert (ended.stop_reason, ended.passed) == ("finished_early", False)
            assert len(client.iterations(running).data) == 1
            assert "Draft" in client.report(running)
            client.rate(running, path="iterations/1", score=0.4)
            again = client.continue_from(running, max_iterations=1)
            assert again.parent == running.id
            client.cancel(again)
            assert client.wait(again, timeout=60).status in {"canceled", "succeeded"}
            assert client.request("GET", "/v1/usage?format=csv").startswith("day,")
            client.erase(running)
            with pytest.raises(hone.NotFound):
                client.get(running)

    await asyncio.to_thread(steer)


async def test_a_batch_is_submitted_and_read(service: RunningService) -> None:
    def run() -> None:
        with hone.Hone(url_of(service.settings)) as client:
            one: hone.RefinementRequest = {"task": "Explain refunds."}
            wrong: hone.RefinementRequest = {"task": "Explain fees.", "threshold": 7}
            batch = client.batch({"one": one, "wrong": wrong}, defaults={"max_iterations": 1})
            assert (batch.counts.total, batch.errors[0].custom_id) == (2, "wrong")
            assert client.wait_for_batch(batch, timeout=60).counts.succeeded == 1
            (result, refused) = client.batch_results(batch)
            assert (result.custom_id, result.status, refused.status) == (
                "one",
                "succeeded",
                "invalid",
            )

    await asyncio.to_thread(run)
