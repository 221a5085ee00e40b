"""The embedded Redis: durable, alone on its data, gone with its parent."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from app.local.embedded import EmbeddedRedis
from app.local.redis_binary import RedisBinary, RedisNotFound, Version, find_redis
from app.local.redis_home import DataDirInUse, DataFromNewerServer, EmbeddedRedisError
from tests.waiting import eventually

ROOT = Path(__file__).parent.parent.parent

PARENT = """
import sys, time
from pathlib import Path
from app.local.embedded import EmbeddedRedis
print(EmbeddedRedis.start(Path(sys.argv[1])).pid, flush=True)
time.sleep(600)
"""


def _can_start(data_dir: Path) -> bool:
    try:
        with EmbeddedRedis.start(data_dir):
            return True
    except DataDirInUse:
        return False


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedRedis.start(tmp_path) as server, Redis.from_url(server.url) as client:
        client.set("kept", "yes")
    with EmbeddedRedis.start(tmp_path) as server, Redis.from_url(server.url) as client:
        assert client.get("kept") == b"yes"


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    with EmbeddedRedis.start(tmp_path) as server, Redis.from_url(server.url) as client:
        client.set("kept", "yes")
        os.kill(server.pid, signal.SIGKILL)
        assert eventually(lambda: not server.is_running)
        server.revive()
        assert client.get("kept") == b"yes"


def test_it_runs_with_the_settings_that_durability_needs(tmp_path: Path) -> None:
    with EmbeddedRedis.start(tmp_path) as server, Redis.from_url(server.url) as client:
        settings = client.config_get("*")
    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "everysec"
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["port"] == "0"


def test_only_its_owner_can_reach_it(tmp_path: Path) -> None:
    with EmbeddedRedis.start(tmp_path):
        assert stat.S_IMODE((tmp_path / "redis").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "redis" / "redis.sock").stat().st_mode) == 0o700


def test_a_second_server_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with (
        EmbeddedRedis.start(tmp_path) as first,
        pytest.raises(DataDirInUse, match=rf"\(pid {first.pid}\)"),
    ):
        EmbeddedRedis.start(tmp_path)


def test_a_path_too_long_for_a_socket_still_works(tmp_path: Path) -> None:
    data_dir = tmp_path / ("x" * 120)
    with EmbeddedRedis.start(data_dir) as server, Redis.from_url(server.url) as client:
        assert client.ping()
    assert not Path(server.url.removeprefix("unix://")).parent.exists()


def test_stopping_twice_is_harmless(tmp_path: Path) -> None:
    server = EmbeddedRedis.start(tmp_path)
    server.stop()
    server.stop()
    assert not server.is_running


def test_the_lock_is_free_after_kill_9_of_the_server(tmp_path: Path) -> None:
    with EmbeddedRedis.start(tmp_path) as server:
        os.kill(server.pid, signal.SIGKILL)
        assert eventually(lambda: _can_start(tmp_path))


def test_the_server_dies_with_its_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) > 0
        assert not _can_start(tmp_path)
        parent.kill()
    assert eventually(lambda: _can_start(tmp_path))


def test_a_directory_written_by_a_newer_server_is_refused(tmp_path: Path) -> None:
    with EmbeddedRedis.start(tmp_path):
        pass
    (tmp_path / "redis" / "version").write_text("redis 99.1.0\n")
    with pytest.raises(DataFromNewerServer, match=r"written by redis 99\.1\.0"):
        EmbeddedRedis.start(tmp_path)


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    home = tmp_path / "redis"
    with EmbeddedRedis.start(tmp_path):
        pass
    for file in [*home.glob("appendonly.aof"), *home.glob("appendonlydir/*.aof")]:
        file.write_bytes(b"not an AOF")
    with pytest.raises(EmbeddedRedisError, match="Bad file format"):
        EmbeddedRedis.start(tmp_path)


@pytest.mark.parametrize(
    ("server", "files", "readable"),
    [
        ("redis 7.0.15", "redis 6.2.14", True),
        ("redis 6.2.14", "redis 7.0.15", False),
        ("redis 6.2.14", "redis 6.2.14", True),
        ("valkey 8.1.0", "redis 7.2.4", True),
        ("valkey 8.1.0", "redis 7.4.0", False),
        ("redis 8.0.0", "valkey 7.2.5", False),
    ],
)
def test_a_server_reads_files_that_are_not_newer(server: str, files: str, readable: bool) -> None:
    assert Version.parse(server).reads_files_of(Version.parse(files)) is readable


def test_versions_are_read_from_what_servers_print() -> None:
    redis = "Redis server v=6.2.14 sha=40305114:0 malloc=libc bits=64 build=dff95a8e7a99d269"
    valkey = "Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1"
    assert str(Version.parse(redis)) == "redis 6.2.14"
    assert str(Version.parse(valkey)) == "valkey 8.0.1"


def _program(directory: Path, name: str, prints: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\necho '{prints}'\n")
    program.chmod(0o755)
    return program


def test_the_machines_own_server_comes_before_the_wheels(tmp_path: Path) -> None:
    wheel = _program(tmp_path / "env" / "bin", "redis-server", "Redis server v=6.2.14 sha=0")
    own = _program(tmp_path / "usr", "valkey-server", "Valkey server v=8.0.1 sha=0")
    path = os.pathsep.join([str(wheel.parent), str(own.parent)])
    assert find_redis(path, prefix=tmp_path / "env").path == own


def test_a_server_too_old_is_passed_over(tmp_path: Path) -> None:
    old = _program(tmp_path / "usr", "redis-server", "Redis server v=6.0.16 sha=0")
    wheel = _program(tmp_path / "env" / "bin", "redis-server", "Redis server v=6.2.14 sha=0")
    assert find_redis(str(old.parent), prefix=tmp_path / "env") == RedisBinary(
        wheel, Version("redis", (6, 2, 14))
    )


def test_without_any_server_the_error_names_the_command_that_installs_one(tmp_path: Path) -> None:
    manager = _program(tmp_path / "usr", "apt-get", "")
    with pytest.raises(RedisNotFound, match="sudo apt-get install -y redis-server"):
        find_redis(str(manager.parent), prefix=tmp_path / "env", wheel=tmp_path / "none")
