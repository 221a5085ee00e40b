"""A Redis that would lose records is refused, and the refusal says what to change."""

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.contract.errors import Overloaded, Unavailable
from app.local.embedded import OLDEST
from app.settings import Settings
from app.store import Store, UnusableRedis, open_store, open_tenant_keys, open_worker_store
from app.store.redis.connection import BACKOFF, is_away
from tests.servers import oldest_server
from tests.store.store_harness import TENANT, ListQueue, submit

pytestmark = [pytest.mark.one_server, pytest.mark.oldest_too]

WRITING_SCRIPT = "return redis.call('SET', 'key', 1)"


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


async def test_hundreds_of_calls_at_once_read_the_keys_of_their_tenants(redis_url: str) -> None:
    async with open_tenant_keys(Settings(redis_url=redis_url)) as tenant_keys:
        assert tenant_keys
        found = await asyncio.gather(*(tenant_keys.read(f"tenant-{n}") for n in range(500)))
    assert found == [{}] * 500


def test_a_connection_that_has_failed_for_hours_is_tried_again() -> None:
    assert BACKOFF.compute(10_000) <= 0.1


async def test_ping_answers(store: Store) -> None:
    await store.administration.workers()


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


REFUSALS = {
    "full": (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")),
    "without replicas": (
        ("CONFIG", "SET", "min-replicas-to-write", "1"),
        ("CONFIG", "SET", "min-replicas-to-write", "0"),
    ),
    "a replica": (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("write", [("SET", "key", "1"), ("EVAL", WRITING_SCRIPT, "0")])
async def test_a_write_that_a_real_redis_refuses_for_a_time_counts_as_away(
    redis: Redis, refusal: str, write: tuple[str, ...]
) -> None:
    begin, end = REFUSALS[refusal]
    await redis.execute_command(*begin)  # type: ignore[no-untyped-call]
    try:
        with pytest.raises(RedisError) as refused:
            await redis.execute_command(*write)  # type: ignore[no-untyped-call]
    finally:
        await redis.execute_command(*end)  # type: ignore[no-untyped-call]
    assert is_away(refused.value)


@pytest.mark.parametrize("refusal", ["without replicas", "a replica"])
async def test_a_redis_that_refuses_writes_is_not_called_unreachable(
    store: Store, redis: Redis, refusal: str
) -> None:
    begin, end = REFUSALS[refusal]
    await redis.execute_command(*begin)  # type: ignore[no-untyped-call]
    try:
        with pytest.raises(Unavailable, match="Redis refuses writes"):
            await store.administration.workers()
        with pytest.raises(Unavailable, match="Redis refuses writes"):
            await submit(store)
    finally:
        await redis.execute_command(*end)  # type: ignore[no-untyped-call]


async def test_a_redis_that_refuses_the_password_is_not_called_unreachable(
    settings: Settings, queue: ListQueue, redis: Redis
) -> None:
    async with open_store(settings, queue) as store:
        await redis.config_set("requirepass", "new")
        try:
            await redis.execute_command("CLIENT", "KILL", "TYPE", "normal")  # type: ignore[no-untyped-call]
            with pytest.raises(Unavailable, match="Redis refuses the password"):
                await store.administration.workers()
            wrong = settings.model_copy(update={"redis_url": f"{settings.redis_url}?password=old"})
            with pytest.raises(Unavailable, match="Redis refuses the password"):
                async with open_store(wrong, queue):
                    pass
        finally:
            await redis.config_set("requirepass", "")


async def test_a_redis_whose_memory_is_full_is_overloaded(store: Store, redis: Redis) -> None:
    refinement_id = await submit(store)
    await redis.config_set("maxmemory", "1")
    try:
        with pytest.raises(Overloaded):
            await store.cancel(TENANT, refinement_id)
    finally:
        await redis.config_set("maxmemory", "0")
