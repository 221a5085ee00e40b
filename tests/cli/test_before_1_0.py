"""Records of a Hone before 1.0, as commit 4d39c5f7 wrote them: every process refuses them."""

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from app.cli.processes import free_port
from app.local.embedded import EmbeddedRedis
from tests.cli.running_command import running
from tests.waiting import TIMEOUT_S

WRITTEN = Path(__file__).with_name("before_1_0.aof.gz")
REFUSED = "this Redis has records of a Hone before 1.0, which this release cannot read"

PROCESSES = {
    "api": ("app.cli", "api"),
    "worker": ("workers",),
    "sender": ("workers.webhooks",),
    "keys": ("app.cli", "keys", "list"),
    "serve": ("app.cli", "serve"),
    "doctor": ("app.cli", "doctor"),
}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with one refinement, written by Redis 6.2 for `hone serve`."""
    folder = tmp_path / "data" / "redis"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "appendonly.aof").write_bytes(gzip.decompress(WRITTEN.read_bytes()))
    (folder / "version").write_text("redis 6.2.14\n")
    return folder.parent


@pytest.fixture
def old(data_dir: Path) -> Iterator[Redis]:
    """The Redis of that directory."""
    with (
        EmbeddedRedis(data_dir) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        yield client


def everything(redis: Redis) -> dict[bytes, bytes | None]:
    """Return every key with its value, as Redis would move it."""
    return {key: redis.dump(key) for key in redis.scan_iter()}


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(module, id=name, marks=() if name in {"api", "worker"} else pytest.mark.long)
        for name, module in PROCESSES.items()
    ],
)
def test_a_process_refuses_in_one_sentence_and_changes_nothing(
    module: tuple[str, ...], old: Redis
) -> None:
    before = everything(old)
    assert any(key.startswith(b"hone:1:refinement:") for key in before)
    refused = subprocess.run(
        [sys.executable, "-m", *module],
        env=os.environ
        | {
            "HONE_REDIS_URL": f"unix://{old.connection_pool.connection_kwargs['path']}",
            "HONE_PORT": str(free_port("127.0.0.1")),
            "HONE_SECRET_KEY": "a secret of the test",
            "HONE_WORKERS": "2",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert refused.returncode == 1
    said = " ".join(refused.stdout.split())
    assert said.count(REFUSED) == 1
    assert "or empty this one; nothing was changed" in said
    assert everything(old) == before


@pytest.mark.long
def test_serve_refuses_such_a_directory_and_accepts_its_own(data_dir: Path, tmp_path: Path) -> None:
    with running("serve", HONE_DATA_DIR=str(data_dir), HONE_PORT="0") as serve:
        assert serve.says(REFUSED)
        assert serve.end() == 1
    for _ in range(2):
        with running("serve", HONE_DATA_DIR=str(tmp_path / "new"), HONE_PORT="0") as serve:
            assert serve.says("Hone is ready")
            assert serve.interrupt() == 0


@pytest.mark.long
def test_processes_that_start_at_once_on_an_empty_redis_mark_it_once(redis_url: str) -> None:
    command = [sys.executable, "-m", "app.cli", "keys", "list"]
    environment = os.environ | {"HONE_REDIS_URL": redis_url}
    started = [subprocess.Popen(command, env=environment) for _ in range(3)]
    assert [process.wait(TIMEOUT_S) for process in started] == [0, 0, 0]
    with Redis.from_url(redis_url, socket_timeout=TIMEOUT_S) as client:
        assert client.get("hone:1:format") == b"1.0"
