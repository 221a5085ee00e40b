"""A Redis of one's own: on a Unix socket, durable, alone on its data, gone with its parent."""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from app.redis_binary import RedisBinary, Version, find_redis
from app.tether import tethered

SOCKET_PATH_MAX = 106  # sun_path holds 108 bytes; one is the end mark and Redis keeps one to spare
LOG_TAIL_BYTES = 2000


class EmbeddedRedisError(Exception):
    """The embedded Redis could not be started; the text says why and what to do."""


class DataDirInUse(EmbeddedRedisError):
    """Another Redis already serves this data directory."""


class DataFromNewerServer(EmbeddedRedisError):
    """The data directory was written by a server whose files this one cannot read."""


class EmbeddedRedis:
    """A running Redis server that this process started and owns."""

    def __init__(self, process: "subprocess.Popen[bytes]", socket: Path, log: Path) -> None:
        self._process = process
        self._socket = socket
        self._log = log

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        aof: bool = True,
        binary: RedisBinary | None = None,
        ready_timeout_s: float = 60.0,
    ) -> "EmbeddedRedis":
        """Start a server that keeps its files in `data_dir`/redis and return once it answers.

        Call it from the main thread, which must live as long as the server is wanted. Its process
        holds an exclusive lock on the directory. Raises RedisNotFound, DataDirInUse,
        DataFromNewerServer, or EmbeddedRedisError with the end of the server's log.
        """
        binary = binary or find_redis()
        home = Path(data_dir).expanduser().resolve() / "redis"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
        lock = _lock(home / "lock")
        try:
            _check_version(home / "version", binary.version)
            server = _spawn(binary, home, lock, aof=aof)
        finally:
            os.close(lock)  # the server has inherited it: the lock lasts as long as the server
        try:
            server._wait_until_ready(ready_timeout_s)
        except BaseException:
            server.stop()
            raise
        (home / "version").write_text(f"{binary.version}\n")
        return server

    @property
    def url(self) -> str:
        """What redis-py's `from_url` takes."""
        return f"unix://{quote(str(self._socket))}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self, grace_s: float = 10.0) -> None:
        """End the server, its files written to disk, and wait for it; again is harmless."""
        if self.is_running:
            self._process.terminate()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._socket.parent != self._log.parent:
            shutil.rmtree(self._socket.parent, ignore_errors=True)

    def __enter__(self) -> "EmbeddedRedis":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _wait_until_ready(self, timeout_s: float) -> None:
        give_up = time.monotonic() + timeout_s
        with Redis(unix_socket_path=str(self._socket), retry=Retry(NoBackoff(), 0)) as client:
            while self.is_running:
                try:
                    client.ping()
                    return
                except (RedisConnectionError, RedisTimeoutError):  # not there yet, or loading
                    if time.monotonic() > give_up:
                        raise self._failure(f"did not answer within {timeout_s:g} s") from None
                    time.sleep(0.01)
        raise self._failure(f"ended with status {self._process.returncode} while starting")

    def _failure(self, fact: str) -> EmbeddedRedisError:
        tail = self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        return EmbeddedRedisError(f"The embedded Redis {fact}. The end of {self._log}:\n{tail}")


def _lock(path: Path) -> int:
    """An exclusive lock on an open descriptor; DataDirInUse names the process that has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "just starting"
        os.close(descriptor)
        raise DataDirInUse(
            f"{path.parent} is in use by another Redis (pid {holder}). Two servers on one data"
            " directory destroy it: stop that one, or choose another HONE_DATA_DIR."
        ) from None
    os.ftruncate(descriptor, 0)
    return descriptor


def _check_version(record: Path, server: Version) -> None:
    if not record.exists():
        return
    written_by = Version.parse(record.read_text())
    if not server.reads_files_of(written_by):
        raise DataFromNewerServer(
            f"{record.parent} was written by {written_by}, and {server} cannot read its files."
            f" Run {written_by} or newer, or choose another HONE_DATA_DIR."
        )


def _spawn(binary: RedisBinary, home: Path, lock: int, *, aof: bool) -> EmbeddedRedis:
    socket = home / "redis.sock"
    if len(os.fsencode(socket)) > SOCKET_PATH_MAX:
        socket = Path(tempfile.mkdtemp(prefix="hone-", dir="/tmp")) / "redis.sock"
    log = home / "redis.log"
    if log.exists():
        log.replace(home / "redis.log.1")
    # Its own session keeps a terminal's Ctrl-C away. LC_ALL=C: Redis refuses a locale it lacks.
    keep = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - a program that find_redis has chosen
            tethered([str(binary.path), *_options(home, socket, aof=aof)], signal.SIGTERM),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=keep | {"LC_ALL": "C"},
            pass_fds=(lock,),
            start_new_session=True,
        )
    os.pwrite(lock, f"{process.pid}\n".encode(), 0)
    return EmbeddedRedis(process, socket, log)


def _options(home: Path, socket: Path, *, aof: bool) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "protected-mode": "yes",
        "dir": str(home),
        "daemonize": "no",
        "save": "",
        "appendonly": "yes" if aof else "no",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
    }
    return [part for name, value in options.items() for part in (f"--{name}", value)]
