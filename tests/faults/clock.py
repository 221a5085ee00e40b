"""The wall clock of single processes, moved by a preloaded library (clock.c)."""

import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path

from app.local.embedded import RedisBinary

SOURCE = Path(__file__).with_name("clock.c")


def missing() -> str | None:
    """Return why clocks cannot be moved on this machine, or None."""
    if sys.platform != "linux":
        return "clocks of single processes can be moved on Linux only"
    return None if shutil.which("cc") else "there is no C compiler (cc)"


class MovableClock:
    """A wall clock that runs `offset_s` ahead in every process started with its `environment`."""

    def __init__(self, directory: Path, name: str) -> None:
        self._library = directory / "clock.so"
        if not self._library.exists():
            command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE)]
            subprocess.run(command, check=True)
        self._file = directory / f"{name}.offset"
        self._file.write_bytes(bytes(8))
        self.offset_s = 0.0

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that goes by this clock."""
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFFSET_FILE": str(self._file)}

    def set(self, offset_s: float) -> None:
        """Move the clock, at once, in all of its processes."""
        with self._file.open("r+b") as file:  # in place: it is mapped
            file.write(struct.pack("q", int(offset_s * 1e6)))
        self.offset_s = offset_s

    def wrapped(self, binary: RedisBinary) -> RedisBinary:
        """Return a program that runs `binary` by this clock."""
        script = self._file.with_suffix(".sh")
        variables = " ".join(f"{name}={shlex.quote(it)}" for name, it in self.environment.items())
        script.write_text(f'#!/bin/sh\nexec env {variables} {shlex.quote(str(binary.path))} "$@"\n')
        script.chmod(0o700)
        return RedisBinary(script, binary.version)
