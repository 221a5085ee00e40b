"""A provider's bad hour: refinements wait without a worker, and go on by themselves."""

import asyncio
from pathlib import Path
from subprocess import Popen

import pytest
from redis import Redis

from app.store.redis import keys
from tests.e2e.running_service import RunningService, frozen, running_service
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long

MANY = 30


def parked(service: RunningService) -> int:
    """Return how many refinements wait for the model without a worker."""
    with Redis.from_url(service.redis.url, socket_timeout=TIMEOUT_S) as client:
        return int(client.zcard(keys.PARKED_OF + "default:openai:test"))


async def killed_between_probes(service: RunningService, worker: Popen[bytes]) -> None:
    """Kill a worker when it does not try one of them, to see whether the outage is over."""
    async with asyncio.timeout(TIMEOUT_S):
        while worker.poll() is None:
            with frozen(worker):
                if parked(service) == MANY:
                    worker.kill()
                    worker.wait()
            await asyncio.sleep(0.05)


async def test_an_outage_fails_nothing_and_holds_no_slot(tmp_path: Path) -> None:
    async with running_service(tmp_path, concurrency=10) as service:
        service.models.fail(600)
        ids = [await service.submit(max_iterations=2) for _ in range(MANY)]
        await service.until(lambda: parked(service) == MANY)
        waiting = (await service.get(ids[0]))["waiting"]
        assert (waiting["model"], waiting["reason"]) == ("openai:test", "overloaded")
        # Workers come and go meanwhile.
        await killed_between_probes(service, service.processes[-1])
        assert parked(service) == MANY
        service.worker()
        service.models.fail(0)
        ended = await asyncio.gather(*(service.ended(it) for it in ids))
        assert {it["status"] for it in ended} == {"succeeded"}
        assert {it["waiting"] for it in ended} == {None}
        assert parked(service) == 0
