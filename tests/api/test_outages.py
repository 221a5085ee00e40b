"""Redis that is away, frozen, full or unusable."""

import math
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client import REGISTRY
from redis import Redis

from app.local.embedded import EmbeddedRedis
from app.main import measure_standing, serve_api
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import open_cells
from app.store.redis.connection import async_client
from tests.api.api_client import REQUEST, problem
from tests.api.conftest import running
from tests.waiting import TIMEOUT_S, eventually

BUSY = [("GET", "/v1/refinements"), ("GET", "/readyz"), ("POST", "/v1/refinements")]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    """A Redis that a test may stop."""
    with EmbeddedRedis(tmp_path, aof=True) as server:
        yield server


@contextmanager
def connected(redis: EmbeddedRedis, redis_timeout_s: float) -> Iterator[httpx.Client]:
    """A client of an API that waits so long for this Redis."""
    settings = Settings(redis_url=redis.url, redis_timeout_s=redis_timeout_s, port=0)
    with running(settings) as url, httpx.Client(base_url=url, timeout=TIMEOUT_S) as client:
        yield client


@pytest.fixture
def client(redis: EmbeddedRedis) -> Iterator[httpx.Client]:
    with connected(redis, redis_timeout_s=60) as client:
        yield client


def ask(client: httpx.Client, method: str, path: str) -> httpx.Response:
    return client.request(method, path, json=REQUEST if method == "POST" else None)


def test_without_redis_every_answer_is_a_503_until_it_is_back(
    redis: EmbeddedRedis, client: httpx.Client
) -> None:
    refinement_id = ask(client, "POST", "/v1/refinements").json()["id"]
    redis.stop()
    for method, path in BUSY:
        response = ask(client, method, path)
        problem(response, 503, "unavailable")
        assert int(response.headers["retry-after"]) > 0
    assert client.get("/healthz").status_code == 200
    redis.revive()
    assert eventually(lambda: client.get("/readyz").status_code == 200)
    assert client.get(f"/v1/refinements/{refinement_id}").json()["status"] == "queued"


def test_a_frozen_redis_is_a_503_before_the_client_gives_up(
    redis: EmbeddedRedis,
) -> None:
    with connected(redis, redis_timeout_s=10) as client, ThreadPoolExecutor() as threads:
        os.kill(redis.pid, signal.SIGSTOP)
        try:
            for response in threads.map(lambda it: ask(client, *it), BUSY):
                problem(response, 503, "unavailable")
        finally:
            os.kill(redis.pid, signal.SIGCONT)


async def test_without_redis_no_figure_of_before_is_left(redis: EmbeddedRedis) -> None:
    def value(name: str, **labels: str) -> float | None:
        return REGISTRY.get_sample_value(name, labels)

    settings = Settings(redis_url=redis.url, redis_timeout_s=60)
    async with open_cells(settings, RefinementQueue(settings.queue)) as cells:
        await measure_standing(cells)
        assert value("hone_standing", what="workers") == 0
        assert value("hone_redis_up", cell="0") == 1
        async with async_client(redis.url) as client:
            await client.config_set("min-replicas-to-write", 1)
            await measure_standing(cells)
            assert value("hone_redis_up", cell="0") == 0
            await client.config_set("min-replicas-to-write", 0)
        redis.stop()
        await measure_standing(cells)
        assert value("hone_standing", what="workers") is None
        assert math.isnan(value("hone_redis_memory_share") or 0)
        assert value("hone_redis_up", cell="0") == 0
        redis.revive()
        await measure_standing(cells)
        assert value("hone_standing", what="workers") == 0
        assert value("hone_redis_up", cell="0") == 1


def test_a_stream_outlives_an_outage(redis: EmbeddedRedis, client: httpx.Client) -> None:
    url = f"/v1/refinements/{ask(client, 'POST', '/v1/refinements').json()['id']}"
    with client.stream("GET", f"{url}/events") as response:
        lines = response.iter_lines()
        assert "id: 1" in lines
        redis.stop()
        problem(client.get(url), 503, "unavailable")
        redis.revive()
        assert eventually(lambda: client.post(f"{url}/cancel").status_code == 202)
        assert "id: 2" in lines


def test_a_full_redis_takes_no_more_work_and_still_answers(
    redis: EmbeddedRedis, client: httpx.Client
) -> None:
    url = f"/v1/refinements/{ask(client, 'POST', '/v1/refinements').json()['id']}"
    with Redis.from_url(redis.url) as admin:
        admin.config_set("maxmemory", admin.info("memory")["used_memory"] + 100_000)
    answers: list[httpx.Response] = []

    def is_refused() -> bool:
        answers.append(ask(client, "POST", "/v1/refinements"))
        return answers[-1].status_code == 503

    assert eventually(is_refused)
    response = answers[-1]  # the next may be taken: what Redis uses goes up and down
    problem(response, 503, "overloaded")
    assert int(response.headers["retry-after"]) > 0
    assert client.get(url).status_code == 200


def test_memory_that_is_nearly_full_or_may_be_evicted_is_a_warning(
    redis: EmbeddedRedis, client: httpx.Client
) -> None:
    def warns() -> bool:
        with Redis.from_url(redis.url) as admin:  # what is used changes while Redis starts
            admin.config_set("maxmemory", admin.info("memory")["used_memory"] * 100 // 95)
            admin.config_set("maxmemory-policy", "volatile-lru")
        warnings = " ".join(client.get("/readyz").json().get("warnings", ()))
        return "new refinements are refused" in warnings and "volatile-lru" in warnings

    assert eventually(warns)


def test_a_full_queue_takes_no_more_work(settings: Settings, redis_url: str) -> None:
    with running(settings.model_copy(update={"queue_max": 2})) as url:
        answers = [
            httpx.post(f"{url}/v1/refinements", json=REQUEST, timeout=TIMEOUT_S) for _ in range(3)
        ]
    assert [answer.status_code for answer in answers] == [202, 202, 503]
    problem(answers[2], 503, "overloaded")


def test_a_redis_that_would_lose_records_is_refused_at_the_start(
    redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    with Redis.from_url(redis.url) as admin:
        admin.config_set("maxmemory-policy", "allkeys-lru")
    assert serve_api(Settings(redis_url=redis.url)) == 1
    assert "maxmemory-policy" in caplog.text


def test_without_an_address_of_redis_nothing_starts(caplog: pytest.LogCaptureFixture) -> None:
    assert serve_api(Settings(redis_url="")) == 1
    assert "HONE_REDIS_URL" in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1", "no host"])
def test_where_it_cannot_listen_nothing_starts(
    redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture, host: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = Settings(redis_url=redis.url, host=host, port=port, auth="off")
        assert serve_api(settings) == 1
    assert "cannot start: [Errno" in caplog.text
