"""A preset whose reviewer takes the greeting out of every text."""

import asyncio
from typing import Any

from benchmarks.greetings import GREETING, greeting_model
from tests.e2e.running_service import RunningService

PRESET: dict[str, Any] = {
    "criteria": [{"name": "clarity"}],
    "models": dict.fromkeys(("generator", "critic"), "openai:gpt-5-mini"),
    "review": {"when": "before_completion"},
    "max_iterations": 1,
}


async def reviewed(service: RunningService, name: str, texts: int = 12) -> None:
    """Refine texts with a preset whose reviewer takes every greeting out."""
    service.models.behaviour = greeting_model()
    await service.send("PUT", f"/v1/presets/{name}", PRESET)
    ids = [await service.submit(preset=name, task=f"{name} {n}") for n in range(texts)]
    await asyncio.gather(*(_review(service, refinement_id) for refinement_id in ids))


async def _review(service: RunningService, refinement_id: str) -> None:
    while (now := await service.get(refinement_id))["outcome"] is None:
        if now["status"] == "paused":
            draft = (await service.get(refinement_id, "/iterations"))["data"][-1]["draft"]
            plain = draft.removeprefix(GREETING)
            edit = {"action": "replace", "draft": plain} if plain != draft else {}
            await service.send(
                "POST", f"/v1/refinements/{refinement_id}/reviews", {"action": "approve", **edit}
            )
        await asyncio.sleep(0.05)
