"""A model server that is broken, and another one that stands in for it."""

from pathlib import Path

import pytest

from app.settings import ModelServer as Address
from benchmarks.model_replies import AskedPrompt, ModelServerReply, draft, refusal
from benchmarks.model_server import ScriptedModelServer
from tests.e2e.running_service import running_service

pytestmark = pytest.mark.long

CALLS = 8
MOST_IN_VAIN = 20


def broken(asked: AskedPrompt) -> ModelServerReply:
    """A server that fails every call."""
    return refusal(500, "out of order")


async def test_a_broken_servers_calls_are_served_by_the_next_one(tmp_path: Path) -> None:
    async with ScriptedModelServer() as second:
        other = {"second": Address(base_url=second.url)}
        async with running_service(tmp_path, broken, providers=other) as service:
            choice = {"model": "openai:test", "fallbacks": ["second:test"]}
            refinement_id = await service.submit(
                models={"generator": choice, "critic": "second:test"}
            )
            ended = await service.ended(refinement_id)
            assert (ended["status"], ended["result"]["draft"]) == ("succeeded", draft(4))
            in_vain = service.models.counts.calls  # until its breaker opened, and probes
            assert second.counts.calls == CALLS
            assert 1 <= in_vain < MOST_IN_VAIN
            # Refusals before a claim ended, because every branch waited, are not counted.
            assert CALLS <= ended["usage"]["calls"] <= in_vain + CALLS
            events = await service.events(refinement_id)
            steps = [it["data"] for it in events if it["type"] == "step.completed"]
            written = [it for it in steps if it["key"].endswith(("/draft", "/revise"))]
            assert {it["model"] for it in written} == {"second:bench"}
            assert {it["tried"][0]["code"] for it in written} == {"error"}
            assert all(count == 1 for count in second.counts.keys.values())
