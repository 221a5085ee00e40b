"""A batch outlives the processes that take it and work on it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.model_replies import draft, improving
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import hanging_at
from tests.waiting import TIMEOUT_S

REQUESTS = 8
SLOTS = 4
REQUEST = {"task": "Explain refunds.", "max_iterations": 9}


async def reached(service: RunningService, path: str, status: str, count: int) -> dict[str, Any]:
    """Poll a batch, as a client would, until so many of its requests are in a status."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                batch: dict[str, Any] = (await service.client.get(path)).json()
                if batch["counts"][status] >= count:
                    return batch
            except httpx.TransportError:  # the API has been killed
                pass
            await asyncio.sleep(0.05)


@pytest.mark.long
async def test_a_batch_goes_on_after_a_kill_of_the_api_and_the_worker(tmp_path: Path) -> None:
    hanging = hanging_at("iterations/2/critique")
    async with running_service(tmp_path, hanging, concurrency=SLOTS) as service:
        lines = [json.dumps({"custom_id": f"{it}", "request": REQUEST}) for it in range(REQUESTS)]
        answer = await service.client.post(
            "/v1/batches",
            content="\n".join(lines),
            headers={"Content-Type": "application/jsonl"},
        )
        assert answer.status_code == 202
        path = answer.json()["links"]["self"]
        before = await reached(service, path, "running", SLOTS)
        for process in service.processes:
            process.kill()
            process.wait()
        assert before["counts"]["passed"] < REQUESTS
        service.models.behaviour = improving
        service.start("app.cli", "api")
        service.worker()
        batch = await reached(service, path, "passed", REQUESTS)
        assert batch["status"] == "completed"
        results = (await service.client.get(f"{path}/results")).text.splitlines()
        told = [json.loads(it) for it in results]
        assert [it["custom_id"] for it in told] == [f"{it}" for it in range(REQUESTS)]
        assert {it["refinement"]["result"]["draft"] for it in told} == {draft(4)}
        repeated = [key for key, calls in service.models.counts.keys.items() if calls > 1]
        assert len(repeated) <= SLOTS  # what was under way at the kill
