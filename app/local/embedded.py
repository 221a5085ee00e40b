"""An embedded Redis: on a Unix socket, durable, with a locked directory, ending with its parent."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from app.local.parent_death import dying_with_parent
from app.local.redis_binary import RedisBinary, find_redis
from app.local.redis_home import EmbeddedRedisError, RedisHome

LOG_TAIL_BYTES = 2000


class EmbeddedRedis:
    """A Redis server that this process has started and ends."""

    def __init__(
        self, home: RedisHome, binary: RedisBinary, *, aof: bool, ready_timeout_s: float
    ) -> None:
        self._home = home
        self._binary = binary
        self._aof = aof
        self._ready_timeout_s = ready_timeout_s
        self._process = self._launch()

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        aof: bool = True,
        binary: RedisBinary | None = None,
        ready_timeout_s: float = 60.0,
    ) -> Self:
        """Start a server that keeps its files in `data_dir`/redis and return once it responds.

        Call it from the main thread. The server's process holds an exclusive lock on the directory
        and ends when this process does. Raises RedisNotFound, DataDirInUse, DataFromNewerServer,
        or EmbeddedRedisError with the end of the server's log.
        """
        home = RedisHome(Path(data_dir))
        server = binary or find_redis(files_of=home.written_by())
        return cls(home, server, aof=aof, ready_timeout_s=ready_timeout_s)

    @property
    def url(self) -> str:
        """The URL for redis-py's `from_url`; the same for the same data directory."""
        return f"unix://{quote(str(self._home.socket))}"

    @property
    def pid(self) -> int:
        """The server's process id; it changes with `revive`."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether its process is alive."""
        return self._process.poll() is None

    def revive(self) -> None:
        """Restart it with the same data and address; raises what `start` raises."""
        if not self.is_running:
            self._process = self._launch()

    def stop(self, grace_s: float = 10.0) -> None:
        """Shut the server down, with its files written to disk; calling it again is harmless.

        After `grace_s` seconds it is killed, which loses at most the last second of writes.
        """
        _end(self._process, grace_s)
        if self._home.socket.parent != self._home.path:
            shutil.rmtree(self._home.socket.parent, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _launch(self) -> "subprocess.Popen[bytes]":
        lock = self._home.lock()
        try:
            self._home.check(self._binary)
            process = self._spawn(lock)
        finally:
            os.close(lock)  # the server has inherited it, and holds the lock until it ends
        try:
            self._wait_until_ready(process)
        except BaseException:
            _end(process, grace_s=10.0)
            raise
        self._home.record(self._binary.version)
        return process

    def _spawn(self, lock: int) -> "subprocess.Popen[bytes]":
        # In its own session it gets no Ctrl-C. LC_ALL=C: Redis rejects a locale that is missing.
        keep = {
            name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ
        }
        with self._home.new_log().open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - the program that find_redis returned
                dying_with_parent([str(self._binary.path), *self._options()], signal.SIGTERM),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._home.path,
                env=keep | {"LC_ALL": "C"},
                pass_fds=(lock,),
                start_new_session=True,
            )
        os.pwrite(lock, f"{process.pid}\n".encode(), 0)
        return process

    def _options(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._home.socket),
            "unixsocketperm": "700",
            "protected-mode": "yes",
            "dir": str(self._home.path),
            "daemonize": "no",
            "save": "",
            "appendonly": "yes" if self._aof else "no",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
        }
        return [part for name, value in options.items() for part in (f"--{name}", value)]

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + self._ready_timeout_s
        once = Retry(NoBackoff(), 0)
        with Redis(unix_socket_path=str(self._home.socket), retry=once) as client:
            while process.poll() is None:
                try:
                    client.ping()
                    return
                except (RedisConnectionError, RedisTimeoutError):  # not started yet, or loading
                    if time.monotonic() > deadline:
                        raise self._failure("was not ready in time") from None
                    time.sleep(0.01)
        raise self._failure(f"exited with status {process.returncode} during startup")

    def _failure(self, fact: str) -> EmbeddedRedisError:
        tail = self._home.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        return EmbeddedRedisError(f"The embedded Redis {fact}. The end of its log:\n{tail}")


def _end(process: "subprocess.Popen[bytes]", grace_s: float) -> None:
    process.terminate()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
