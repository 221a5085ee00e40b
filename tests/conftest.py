"""What every test may ask for: a real Redis of its own, empty at the start of each test."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from redis import Redis

from app.local.embedded import EmbeddedRedis
from app.local.redis_binary import RedisNotFound, find_redis
from tests.servers import MISSING, find_oldest

# Examples that tests put into a copy of the repository.
collect_ignore = ["extending"]

# How fast this machine is today says nothing about the code.
settings.register_profile("hone", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hone")


def pytest_report_header() -> str:
    try:
        chosen = str(find_redis().version)
    except RedisNotFound as error:
        chosen = str(error)
    oldest = find_oldest()
    return f"server: {chosen}; tests/store also on: {oldest.version if oldest else MISSING}"


@pytest.fixture(scope="session")
def redis_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedRedis]:
    """One server per test process, its AOF off for speed; a parameter is what finds its binary."""
    binary = getattr(request, "param", find_redis)()
    with EmbeddedRedis.start(tmp_path_factory.mktemp("redis"), aof=False, binary=binary) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: EmbeddedRedis) -> str:
    """The address of that server, with nothing in it."""
    with Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url
