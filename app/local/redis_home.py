"""The directory an embedded Redis lives in: its lock, the version that wrote it, socket, log."""

import fcntl
import hashlib
import os
import stat
from pathlib import Path

from app.local.redis_binary import Version

SOCKET_PATH_MAX = 106  # sun_path holds 108 bytes; one ends the text and Redis keeps one to spare


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

    def check(self, server: Version) -> None:
        """Raise DataFromNewerServer unless `server` can read what is here."""
        record = self.path / "version"
        if not record.exists():
            return
        written_by = Version.parse(record.read_text())
        if not server.reads_files_of(written_by):
            raise DataFromNewerServer(
                f"{self.path} was written by {written_by}, and {server} cannot read its files."
                f" Run {written_by} or newer, or choose another HONE_DATA_DIR."
            )

    def record(self, server: Version) -> None:
        """Note that from now on the files here are those of `server`."""
        (self.path / "version").write_text(f"{server}\n")

    def new_log(self) -> Path:
        """Set the last run's log aside, keeping that one only, and return where the next goes."""
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        return self.log


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
