"""A `hone` command that runs beside the test, and every process it has started."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.processes import command_of, descendants, is_alive
from tests.waiting import TIMEOUT_S, eventually


class RunningCommand:
    """The process, and what it has printed so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._known: set[int] = set()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def says(self, words: str) -> bool:
        """Whether a line with these words has come, or comes before the command ends."""
        eventually(lambda: self._has(words) or not self._reader.is_alive())
        return self._has(words)

    def family(self) -> list[int]:
        """The processes it has started that are alive."""
        self._known |= set(descendants(self.process.pid))
        return self._alive()

    def named(self, words: str) -> int:
        """The one whose command line has these words."""
        return next(pid for pid in self.family() if words in command_of(pid))

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal, wait for the end, and return the exit status."""
        self.family()
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """Wait for the end, and return the exit status."""
        status = self.process.wait(TIMEOUT_S)
        self._reader.join()
        return status

    def left(self) -> list[int]:
        """What of its family is still alive, once they have had time to end."""
        eventually(lambda: not self._alive())
        return self._alive()

    def _alive(self) -> list[int]:
        return [pid for pid in self._known if is_alive(pid)]

    def _has(self, words: str) -> bool:
        return any(words in line for line in self.lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[RunningCommand]:
    """Run a command; whatever the test does, it is killed at the end."""
    command = [sys.executable, "-m", "app.cli", *arguments]
    variables = {name: v for name, v in os.environ.items() if not name.startswith("HONE_")}
    with subprocess.Popen(
        command,
        env=variables | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        run = RunningCommand(process)
        try:
            yield run
        finally:
            process.kill()
            run.end()
