"""The Python client with a real service."""

import asyncio
import re

import httpx
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
            assert (ended.stop_reason, ended.outcome) == ("finished_early", "best_effort")
            assert len(client.iterations(running).data) == 1
            assert "Draft" in client.report(running)
            client.rate(running, path="iterations/1", score=0.4)
            again = client.continue_from(running, max_iterations=1)
            assert again.parent == running.id
            client.cancel(again)
            assert client.wait(again, timeout=60).status in {"canceled", "succeeded"}
            assert client.request("GET", "/v1/statistics?of=usage&format=csv").startswith("day,")
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
            assert client.wait_for_batch(batch, timeout=60).counts.best_effort == 1
            (result, refused) = client.batch_results(batch)
            assert (result.custom_id, result.outcome) == ("one", "best_effort")
            assert refused.outcome == "invalid"

    await asyncio.to_thread(run)


async def test_a_result_that_does_not_pass_says_so_and_is_refused_if_it_must_pass(
    service: RunningService, caplog: pytest.LogCaptureFixture
) -> None:
    """The scripted critic gives the first draft 0.4."""
    why = "Quality is 0.40; the threshold is 0.85; the limit of 1 iteration was reached."

    def run() -> None:
        with hone.Hone(url_of(service.settings)) as client:
            silent = client.refine(task="Explain refunds.", max_iterations=1, must_pass=False)
            assert (silent.passed, silent.outcome, silent.reason) == (False, "best_effort", why)
            assert (client.get(silent.id).reason, silent.usage.calls) == (why, 2)
            assert caplog.messages == []
            told = client.refine(task="Explain fees.", max_iterations=1)
            assert caplog.messages == [f"{told.id}: best_effort: {why}"]
            with pytest.raises(hone.NotPassed, match=re.escape(why)) as refused:
                client.refine(task="Explain refunds.", max_iterations=1, must_pass=True)
            assert refused.value.result.draft == told.draft
            assert client.refine(task="Explain refunds.", must_pass=True, max_iterations=9).passed
            assert silent.id in [it.id for it in client.list(outcome="best_effort")]

    caplog.set_level("WARNING", "hone")
    await asyncio.to_thread(run)


class LosingTransport(httpx.HTTPTransport):
    """A proxy that loses the first answer to each request that changes something."""

    lost: str = ""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        asked = f"{request.method} {request.url.path}"
        if request.method == "GET" or asked == self.lost:
            return response
        response.read()
        self.lost = asked
        raise httpx.ReadError("the proxy was restarted", request=request)


async def test_a_proxy_that_loses_each_first_answer_is_not_noticed(service: RunningService) -> None:
    def steer() -> None:
        with (
            httpx.Client(transport=LosingTransport(), timeout=60) as proxied,
            hone.Hone(url_of(service.settings), http_client=proxied) as client,
        ):
            paused = client.submit(task="Explain.", review={"when": "each_iteration"})
            for event in client.events(paused):
                if event.type == "refinement.paused":
                    break
            seen = client.get(paused).last_event
            assert client.change(paused, if_match=seen, threshold=0.99).threshold == 0.99
            assert client.finish(paused).id == paused.id
            assert client.wait(paused, timeout=60).stop_reason == "finished_early"
            client.rate(paused, path="iterations/1", score=0.4)
            again = client.continue_from(paused, max_iterations=1)
            assert [it.id for it in client.list() if it.parent == paused.id] == [again.id]
            client.cancel(again)
            client.erase(paused)
            with pytest.raises(hone.NotFound):
                client.get(paused)

    await asyncio.to_thread(steer)
