"""The Python client with a real service, through restarts of API and workers."""

import asyncio
import signal
from pathlib import Path

import pytest

import hone
from app.cli.processes import url_of
from benchmarks.model_replies import draft
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import hanging_at, slow_at


async def test_what_a_client_waits_for_survives_restarts(tmp_path: Path) -> None:
    async with running_service(tmp_path, slow_at("iterations/2/critique", 30)) as service:
        api, worker = service.processes
        client = hone.AsyncHone(url_of(service.settings), max_retries=99)
        submitted = await client.submit(task="Explain refunds.", max_iterations=9)
        seen: list[hone.Event] = []

        async def watch() -> None:
            async for event in client.events(submitted):
                seen.append(event)  # noqa: PERF401 - looked at meanwhile

        watching, waiting = (
            asyncio.create_task(watch()),
            asyncio.create_task(client.wait(submitted)),
        )
        await service.until(lambda: service.models.counts.calls == 4 and len(seen) > 3)
        for process in (api, worker):
            process.send_signal(signal.SIGKILL)
            process.wait()
        service.models.behaviour = slow_at("iterations/2/critique", 0)
        service.worker()
        refining = asyncio.create_task(client.refine(task="Explain fees.", max_iterations=1))
        await asyncio.sleep(0.5)  # nobody listens meanwhile
        service.start("app.cli", "api")
        ended = await waiting
        await watching
        assert ended.result is not None
        assert (ended.status, ended.result.draft) == ("succeeded", draft(4))
        assert [it.event for it in seen] == list(range(1, len(seen) + 1))
        assert seen[-1].data.result.draft == draft(4)
        assert (await refining).score is not None
        assert [it.status async for it in client.list()] == ["succeeded"] * 2
        await client.aclose()


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
