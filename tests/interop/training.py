"""TRL prepares preference pairs for its DPO trainer; without PyTorch it trains nothing."""

import asyncio
from pathlib import Path

from benchmarks.environments import environment_with
from benchmarks.model_replies import draft
from tests.e2e.running_service import running_service
from tests.e2e.scripted_models import answering
from tests.e2e.test_pairs import prefers_the_result
from tests.interop.openai_clients import ran

PROGRAM = Path(__file__).with_name("training_program.py")


async def play(folder: Path) -> bool:
    """Download pairs of ratings and of a comparison in both forms, and have TRL prepare them."""
    await asyncio.to_thread(environment_with, "trl", "datasets", "transformers", "jinja2")
    python = await asyncio.to_thread(environment_with, "trl", "--no-deps", "trl")  # no PyTorch
    files = [folder / f"{form}.jsonl" for form in ("plain", "conversational")]
    async with running_service(folder, answering(prefers_the_result)) as service:
        house = {"instructions": {"generator": "Write to one person."}}
        for fields in ({}, {"draft": draft(1), "compare": True}, house):
            refinement_id = await service.submit(**fields)
            await service.ended(refinement_id)
            said = {"path": "iterations/3", "better_than": "iterations/2", "by": "Zoë"}
            await service.client.post(f"/v1/refinements/{refinement_id}/ratings", json=said)
        for file in files:
            found = await service.client.get("/v1/pairs", params={"form": file.stem})
            file.write_bytes(found.content)
    return await ran("TRL", [str(python), str(PROGRAM), *map(str, files)])
