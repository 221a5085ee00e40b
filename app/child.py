"""One program run as a child process, in a session of its own, its output read line by line."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO

from app.tether import tethered

Emit = Callable[[str, str], None]
"""Takes a line of output and the name of who wrote it first; called from several threads."""


@dataclass(frozen=True)
class Program:
    """What to run: a name for people, the command, and its whole environment."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


class Child:
    """A program and its process; the process and all its descendants die with this one."""

    def __init__(self, program: Program, emit: Emit) -> None:
        self.name = program.name
        self._program = program
        self._emit = emit
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def status(self) -> int | None:
        """How the last process ended: its exit status, or minus the signal that killed it."""
        return self._process.poll() if self._process else None

    def revive(self) -> None:
        """Start it; what an earlier process left behind is killed first. From the main thread."""
        self.kill()
        self._process = subprocess.Popen(  # noqa: S603 - a program of ours
            tethered(self._program.command, signal.SIGKILL),
            env=dict(self._program.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True
        )
        self._reader.start()

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End it and everything it started, wait for it, and read its output to the end."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._reader is not None:
            # Bounded, because what has left the session may keep the pipe open.
            self._reader.join(timeout=2.0)

    def _read(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self._emit(self.name, line.decode(errors="replace").rstrip())
