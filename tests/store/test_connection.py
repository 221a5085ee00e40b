"""A Redis that would lose records is refused, and the refusal says what to change."""

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis

from app.contract.errors import Unavailable
from app.local.embedded import OLDEST
from app.settings import Settings
from app.store import Store, UnusableRedis, open_store, open_worker_store
from tests.servers import oldest_server
from tests.store.store_harness import ListQueue


async def test_a_redis_that_evicts_keys_is_refused(
    settings: Settings, queue: ListQueue, redis: Redis
) -> None:
    await redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(UnusableRedis, match="Set it to noeviction"):
            async with open_store(settings, queue):
                pass
        with pytest.raises(UnusableRedis, match="allkeys-lru"):
            async with open_worker_store(settings, queue, "worker-1"):
                pass
    finally:
        await redis.config_set("maxmemory-policy", "noeviction")


def test_the_oldest_server_that_these_tests_run_on_is_the_oldest_supported() -> None:
    assert oldest_server().version.release == OLDEST


async def test_ping_answers(store: Store) -> None:
    await store.workers()


async def test_a_redis_that_accepts_and_never_answers_is_unavailable(
    settings: Settings, queue: ListQueue, tmp_path: Path
) -> None:
    path = tmp_path / "hung.sock"

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1_024):
            pass
        writer.close()

    async with await asyncio.start_unix_server(never_answer, path):
        hung = settings.model_copy(update={"redis_url": f"unix://{path}", "redis_timeout_s": 1})
        with pytest.raises(Unavailable) as refused:
            async with open_store(hung, queue):
                pass
    assert refused.value.retry_after_s
