"""A refinement of a tenant with a key of its own for its provider, by a real worker."""

import asyncio

from app.queue import RefinementQueue
from app.store import open_store
from benchmarks.model_replies import improving
from tests.e2e.running_service import RunningService
from tests.models.calls import RecordingBehaviour
from tests.waiting import TIMEOUT_S

OWN = "sk-of-the-tenant"


async def test_a_worker_calls_the_models_of_a_tenant_with_its_own_key(
    service: RunningService,
) -> None:
    behaviour = service.models.behaviour = RecordingBehaviour(improving)
    settings = service.settings
    async with open_store(settings, RefinementQueue(settings.queue)) as store:
        await store.provider_keys.put("default", "openai", OWN)
        used: set[str | None] = set()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while used != {f"Bearer {OWN}"}:  # a worker may go by a copy for two seconds
                    behaviour.asked.clear()
                    ended = await service.ended(await service.submit(max_iterations=1))
                    assert ended["status"] == "succeeded"
                    used = {it.header("authorization") for it in behaviour.asked}
        finally:
            await store.provider_keys.remove("default", "openai")
