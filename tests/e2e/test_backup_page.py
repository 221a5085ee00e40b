"""A copy of a busy service's append-only file, and another service that starts from it."""

import asyncio
import shutil
from pathlib import Path

import pytest
from redis import Redis

from app.local.embedded import EmbeddedRedis
from benchmarks.model_replies import draft
from tests.e2e.running_service import running_service
from tests.e2e.scripted_models import hanging_at

CALLS_BEFORE = 2  # iteration 1: a draft and its critique
FILES = "appendonlydir"


async def copy_of(redis: EmbeddedRedis, data: Path, to: Path) -> None:
    """Copy the append-only file while it is written, as docs/backup.md says."""
    with Redis.from_url(redis.url) as client:
        client.config_set("auto-aof-rewrite-percentage", 0)
        while client.info("persistence")["aof_rewrite_in_progress"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        shutil.copytree(data / "redis" / FILES, to / "redis" / FILES)
        client.config_set("auto-aof-rewrite-percentage", 100)


async def test_another_service_goes_on_from_a_copy_of_a_busy_one(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    async with running_service(tmp_path / "first", grace_s=0) as service:
        before = await service.ended(await service.submit(max_iterations=1))
        service.models.behaviour = hanging_at("iterations/2/revise")
        service.models.reset()
        busy = await service.submit()
        await service.until(lambda: service.models.counts.calls == CALLS_BEFORE + 1)
        if not (tmp_path / "first" / "data" / "redis" / FILES).exists():
            pytest.skip("Redis before 7.0 has one file")
        await copy_of(service.redis, tmp_path / "first" / "data", backup)
        after = await service.submit()
    (tmp_path / "second").mkdir()
    shutil.copytree(backup, tmp_path / "second" / "data")
    async with running_service(tmp_path / "second") as restored:
        assert await restored.get(before["id"]) == before
        ended = await restored.ended(busy)
        assert (ended["status"], ended["result"]["draft"]) == ("succeeded", draft(4))
        assert restored.models.counts.calls == 2 * 4 - CALLS_BEFORE  # no step twice
        assert (await restored.client.get(f"/v1/refinements/{after}")).status_code == 404
        numbers = [it["event"] for it in await restored.events(busy)]
        assert numbers == [*range(1, len(numbers) + 1)]
