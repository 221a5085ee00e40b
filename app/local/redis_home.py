"""The directory an embedded Redis lives in: its lock, the version that wrote it, socket, log."""

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
SOCKET_PATH_MAX = 102  # sun_path holds 104 bytes on macOS; one ends the text, Redis keeps another


class EmbeddedRedisError(Exception):
    """The embedded Redis could not be started; the text says why and what to do."""


class DataDirInUse(EmbeddedRedisError):
    """Another Redis already serves this data directory."""


class DataFromNewerServer(EmbeddedRedisError):
    """The data directory was written by a server whose files this one cannot read."""


class RedisHome:
    """`data_dir`/redis, readable by its owner alone."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir.expanduser().resolve() / "redis"
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        self.log = self.path / "redis.log"
        self.socket = _short_enough(self.path) / "redis.sock"

    def lock(self) -> int:
        """Take the directory's lock and return its descriptor; DataDirInUse names the holder.

        The lock belongs to the descriptor and lasts until every process that inherited it is gone.
        """
        path = self.path / "lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "just starting"
            os.close(descriptor)
            raise DataDirInUse(
                f"{self.path} is in use by another Redis (pid {holder}). Two servers on one data"
                " directory destroy it: stop that one, or choose another HONE_DATA_DIR."
            ) from None
        os.ftruncate(descriptor, 0)
        return descriptor

    def written_by(self) -> list[Version]:
        """The servers that wrote the files: the recorded one, and those that the files name.

        They differ if a server was killed while it took the directory over. Empty for a new
        directory, and for an AOF of plain commands, which every server reads.
        """
        return [*self._recorded(), *_versions_in_files(self.path)]

    def check(self, server: RedisBinary) -> None:
        """Raise DataFromNewerServer unless `server` can read what is here."""
        for writer in self.written_by():
            if not server.version.reads_files_of(writer):
                release = ".".join(map(str, writer.release))
                raise DataFromNewerServer(
                    f"{self.path} was written by {writer}, and {server.version} ({server.path})"
                    f" cannot read its files. Put {writer.product}-server {release} or newer first"
                    " on PATH, or choose another HONE_DATA_DIR."
                )

    def record(self, server: Version) -> None:
        """Note that from now on the files here are those of `server`."""
        new = self.path / "version.new"
        new.write_text(f"{server}\n")
        new.replace(self.path / "version")

    def _recorded(self) -> Iterator[Version]:
        with suppress(FileNotFoundError, ValueError):  # no record, or one that was cut short
            yield Version.parse((self.path / "version").read_text())

    def new_log(self) -> Path:
        """Set the last run's log aside, keeping that one only, and return where the next goes."""
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        return self.log


def _versions_in_files(home: Path) -> Iterator[Version]:
    """Who wrote the AOF in `home`, by its layout and by the head of its base file."""
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
    """`home`, or where its path is too long for a socket a private directory that belongs to it."""
    if len(os.fsencode(home / "redis.sock")) <= SOCKET_PATH_MAX:
        return home
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    short = Path(f"/tmp/hone-{os.getuid()}-{digest}")  # noqa: S108 - private, as checked below
    short.mkdir(mode=0o700, exist_ok=True)
    found = short.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise EmbeddedRedisError(
            f"{short} is not a private directory of yours. Remove it, or choose a HONE_DATA_DIR"
            " with a shorter path."
        )
    return short
