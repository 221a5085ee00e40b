"""What was deleted leaves the append-only file of the embedded server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from app.local.embedded import EmbeddedRedis
from app.store.administration import LogRewriter
from app.store.redis import keys
from app.store.redis.scripts import SCRIPTS
from tests.waiting import TIMEOUT_S, eventually

MARK = b"a text that nobody must find"
ID = "ref_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"
RECORD = ["tenant", "default", "status", "queued", "metadata", "{}"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path) as server:
        yield server


@pytest.fixture
def client(server: EmbeddedRedis) -> Iterator[Redis]:
    with Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client:
        yield client


def deleted(client: Redis) -> None:
    """Store a refinement with the mark, and delete it."""
    client.hset(keys.SUMMARY + ID, items=[*RECORD, "text", MARK])
    assert client.eval(SCRIPTS["erase"].text, 0, ID, "default", "all") == b"OK"


def is_on_disk(path: Path) -> bool:
    files = (file for file in path.rglob("*") if file.is_file())
    return any(MARK in file.read_bytes() for file in files)


def test_a_deleted_text_is_off_the_disk_after_the_next_rewrite(
    client: Redis, tmp_path: Path
) -> None:
    deleted(client)
    assert eventually(lambda: is_on_disk(tmp_path))
    rewriter = LogRewriter(client, 0, look_s=0)

    def is_done() -> bool:
        rewriter.tick()
        return not client.exists(keys.ERASURES)

    assert eventually(is_done)
    assert not is_on_disk(tmp_path)


def test_it_is_rewritten_no_earlier_than_the_time_between_two_rewrites(
    client: Redis, tmp_path: Path
) -> None:
    deleted(client)
    rewriter = LogRewriter(client, 3_600, look_s=0)
    for _ in range(3):
        rewriter.tick()
    assert eventually(lambda: is_on_disk(tmp_path))
    assert client.info("persistence")["aof_last_rewrite_time_sec"] == -1
    noted = client.hgetall(keys.ERASURES)
    deleted(client)
    again = client.hgetall(keys.ERASURES)
    assert (again[b"since"], noted[b"count"], again[b"count"]) == (noted[b"since"], b"1", b"2")


def test_what_is_deleted_during_a_rewrite_is_due_for_the_next_one(client: Redis) -> None:
    deleted(client)
    rewriter = LogRewriter(client, 0, look_s=0)
    rewriter.tick()
    deleted(client)

    def was_rewritten() -> bool:
        return bool(client.info("persistence")["aof_last_rewrite_time_sec"] >= 0)

    assert eventually(was_rewritten)
    since = int(client.hget(keys.ERASURES, "since") or 0)
    rewriter.tick()
    assert client.hget(keys.ERASURES, "count") == b"2"
    assert int(client.hget(keys.ERASURES, "since") or 0) >= since


def test_a_server_that_is_away_is_asked_again_later(server: EmbeddedRedis, client: Redis) -> None:
    deleted(client)
    rewriter = LogRewriter(client, 0, look_s=0)
    server.stop()
    rewriter.tick()
    server.revive()
    assert client.hget(keys.ERASURES, "count") == b"1"

    def is_done() -> bool:
        rewriter.tick()
        return not client.exists(keys.ERASURES)

    assert eventually(is_done)
