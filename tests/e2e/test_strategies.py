"""Every strategy over real HTTP with a real worker: it ends as it does when it is merely played."""

import asyncio
from typing import Any

import pytest

from benchmarks.examples import EDITED, request_for
from benchmarks.playing import StrategyPlayer
from tests.e2e.running_service import RunningService
from workers.model_registry import Editor

EDITOR = {"generator": "offline:editor", "critic": "offline:editor"}


@pytest.mark.long
async def test_every_strategy_ends_as_it_does_when_it_is_merely_played(
    service: RunningService,
) -> None:
    ended = await asyncio.gather(*(refined(service, kind) for kind in EDITED))
    told = dict(zip(EDITED, ended, strict=True))
    assert told == {kind: await played(kind) for kind in EDITED}
    assert service.models.counts.calls == 0


async def refined(service: RunningService, kind: str) -> dict[str, Any]:
    """Submit the example and return what became of it."""
    body = request_for(kind).model_dump(mode="json", by_alias=True) | {"models": EDITOR}
    refinement_id = await service.submit(**body)
    snapshot = await service.ended(refinement_id)
    iterations = (await service.get(refinement_id, "/iterations"))["data"]
    assert {it["path"] for it in iterations} == {it["path"] for it in snapshot["scores"]}
    result = snapshot["result"]
    return {
        "reason": snapshot["stop_reason"],
        "calls": snapshot["usage"]["calls"],
        "draft": result["draft"],
        "score": result["score"],
        "from": result["score_from"],
        "passed": snapshot["outcome"] == "passed",
    }


async def played(kind: str) -> dict[str, Any]:
    """Play the example in this process."""
    player = StrategyPlayer(request_for(kind), Editor())
    outcome = await player.play()
    scored = outcome.best.scored
    return {
        "reason": outcome.reason,
        "calls": player.calls,
        "draft": scored.draft.text,
        "score": scored.score,
        "from": outcome.score_from,
        "passed": outcome.passed,
    }
