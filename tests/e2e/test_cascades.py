"""A cascade as it runs: who wrote what, also when the worker dies while it hands over."""

from pathlib import Path
from typing import Any

import pytest

from app.settings import ModelServer as Address
from benchmarks.model_replies import chat, draft
from benchmarks.model_server import ScriptedModelServer
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import answering, slow_at

CASCADE = {"generator": ["openai:test", "second:test"], "escalate": "when_stuck"}
WRITERS = ["openai:bench", "openai:bench", "second:bench", "second:bench"]


async def played(service: RunningService, refinement_id: str) -> list[dict[str, Any]]:
    """Return what the journal says of its steps, without times and tokens."""
    ended = await service.ended(refinement_id)
    assert (ended["status"], ended["result"]["draft"]) == ("succeeded", draft(4))
    steps = [it["data"] for it in await service.events(refinement_id)]
    names = ("key", "model", "about", "prompt")
    return [{name: it[name] for name in names} for it in steps if "about" in it]


async def test_iterations_and_report_say_which_model_wrote_each_draft(tmp_path: Path) -> None:
    async with ScriptedModelServer() as second:
        other = {"second": Address(base_url=second.url)}
        async with running_service(tmp_path, providers=other) as service:
            refinement_id = await service.submit(models=CASCADE)
            await played(service, refinement_id)
            found = (await service.get(refinement_id, "/iterations"))["data"]
            assert [it["writer"] for it in found] == WRITERS
            assert second.counts.calls == 2
            report = await service.client.get(f"/v1/refinements/{refinement_id}/report")
            assert "not passed; written by second:bench" in report.text
            assert "after 2 judged drafts of one" in report.text


@pytest.mark.long
async def test_a_model_that_writes_nothing_is_followed_by_the_next_one(tmp_path: Path) -> None:
    async with ScriptedModelServer() as second:
        other = {"second": Address(base_url=second.url)}
        silent = answering(lambda key, _: chat("") if key.endswith("iterations/1/draft") else None)
        async with running_service(tmp_path, silent, providers=other) as service:
            refinement_id = await service.submit(models=CASCADE)
            await service.ended(refinement_id)
            found = (await service.get(refinement_id, "/iterations"))["data"]
            assert {it["writer"] for it in found} == {"second:bench"}
            assert found[0]["usage"]["calls"] > 2


@pytest.mark.long
async def test_a_killed_worker_hands_over_to_the_same_model_again(tmp_path: Path) -> None:
    async with ScriptedModelServer(slow_at("iterations/3/revise", 2)) as second:
        other = {"second": Address(base_url=second.url)}
        async with running_service(tmp_path, providers=other) as service:
            undisturbed = await played(service, await service.submit(models=CASCADE))
            before = second.counts.calls
            refinement_id = await service.submit(models=CASCADE)
            await service.until(lambda: second.counts.calls > before)
            service.processes[-1].kill()
            service.worker()
            assert await played(service, refinement_id) == undisturbed
