"""Copies of a busy service's Redis, and other services that start from them."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from app.local.embedded import EmbeddedRedis
from benchmarks.model_replies import draft
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.scripted_models import hanging_at
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long

CALLS_BEFORE = 2  # iteration 1: a draft and its critique
FILES, SNAPSHOT = "appendonlydir", "dump.rdb"


async def copy_of(redis: EmbeddedRedis, data: Path, to: Path) -> None:
    """Copy the append-only file while it is written, as docs/operations.md says."""
    with Redis.from_url(redis.url, socket_timeout=TIMEOUT_S) as client:
        client.config_set("auto-aof-rewrite-percentage", 0)
        while client.info("persistence")["aof_rewrite_in_progress"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        shutil.copytree(data / "redis" / FILES, to / "redis" / FILES)
        client.config_set("auto-aof-rewrite-percentage", 100)


async def snapshot_of(redis: EmbeddedRedis, data: Path, to: Path) -> None:
    """Have a snapshot written, and copy it."""
    with Redis.from_url(redis.url, socket_timeout=TIMEOUT_S) as client:
        client.bgsave()
        while client.info("persistence")["rdb_bgsave_in_progress"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    (to / "redis").mkdir(parents=True)
    shutil.copy(data / "redis" / SNAPSHOT, to / "redis" / SNAPSHOT)


async def begin_append_only_file(data: Path) -> None:
    """Start from a snapshot, and write an append-only file, as docs/operations.md says."""
    with (
        EmbeddedRedis(data, aof=False) as redis,
        Redis.from_url(redis.url, socket_timeout=TIMEOUT_S) as client,
    ):
        client.config_set("appendonly", "yes")
        while client.info("persistence")["aof_rewrite_in_progress"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_other_services_go_on_from_copies_of_a_busy_one(tmp_path: Path) -> None:
    data, copy, snapshot = (tmp_path / it / "data" for it in ("first", "second", "third"))
    async with running_service(tmp_path / "first", grace_s=0) as service:
        before = await service.ended(await service.submit(max_iterations=1))
        service.models.behaviour = hanging_at("iterations/2/revise")
        service.models.reset()
        busy = await service.submit()
        await service.until(lambda: service.models.counts.calls == CALLS_BEFORE + 1)
        if not (data / "redis" / FILES).exists():
            pytest.skip("Redis before 7.0 has one file")
        await copy_of(service.redis, data, copy)
        await snapshot_of(service.redis, data, snapshot)
        after = await service.submit()
    shutil.copytree(snapshot, tmp_path / "alone")
    with (
        EmbeddedRedis(tmp_path / "alone") as redis,
        Redis.from_url(redis.url, socket_timeout=TIMEOUT_S) as client,
    ):
        assert client.dbsize() == 0  # as the page warns
    await begin_append_only_file(snapshot)
    for path in (copy.parent, snapshot.parent):
        async with running_service(path) as restored:
            await goes_on(restored, before, busy, after)


async def goes_on(restored: RunningService, before: Any, busy: str, after: str) -> None:
    """Check that what was in the copy is there and goes on, and that nothing else is there."""
    assert await restored.get(before["id"]) == before
    ended = await restored.ended(busy)
    assert (ended["status"], ended["result"]["draft"]) == ("succeeded", draft(4))
    assert restored.models.counts.calls == 2 * 4 - CALLS_BEFORE  # no step twice
    assert (await restored.client.get(f"/v1/refinements/{after}")).status_code == 404
    numbers = [it["event"] for it in await restored.events(busy)]
    assert numbers == [*range(1, len(numbers) + 1)]
