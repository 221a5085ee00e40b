"""What every test may ask for: a real Redis of its own, empty at the start of each test."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from redis import Redis

from app.local.embedded import EmbeddedRedis

# Examples that tests put into a copy of the repository.
collect_ignore = ["extending"]

# How fast this machine is today says nothing about the code.
settings.register_profile("hone", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hone")


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """One server per test process, its AOF off for speed."""
    with EmbeddedRedis.start(tmp_path_factory.mktemp("redis"), aof=False) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: EmbeddedRedis) -> str:
    """The address of that server, with nothing in it."""
    with Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url
