"""The directory of an embedded Redis: its lock, the version that wrote it, socket and log."""

import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from app.local.redis_binary import RedisBinary, Version

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


class RedisHome:
    """The directory `data_dir`/redis, readable only by its owner."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir.expanduser().resolve() / "redis"
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        self.log = self.path / "redis.log"
        self.socket = _short_enough(self.path) / "redis.sock"

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
        listed = re.search(r"^file (\S+) seq \d+ type b", manifest.read_text(), re.MULTILINE)
        base = manifest.with_name(listed[1]) if listed else base
    if base.exists():
        with base.open("rb") as file:
            head = RDB_HEAD.match(file.read(64))
        if head:
            yield Version.parse(f"{head[1].decode()} {head[2].decode()}")
    if manifest.exists():
        yield FIRST_WITH_MANIFEST


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
