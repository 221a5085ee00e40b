"""The processes of a run: starts them, exchanges lines, measures by /proc, ends them by id."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from app.local.parent_death import dying_with_parent
from app.settings import Settings

TICKS = os.sysconf("SC_CLK_TCK")


def allow_many_files() -> None:
    """Raise the limit on open files for this process and those it starts."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def without_settings() -> dict[str, str]:
    """Return the environment of this process without what Hone and its traces read.

    What is measured is not the server, with the models, that the shell is set to.
    """
    read = ("HONE_", "OPENAI_", "ANTHROPIC_", "OTEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(read)}


class OwnSettings(Settings):
    """Settings that the arguments alone set: neither the shell nor a file `.env`."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: Any, init_settings: Any, *_: Any, **__: Any
    ) -> tuple[Any, ...]:
        """Return the arguments as the only source."""
        return (init_settings,)


def cpu_s(pid: int, proc: Path = Path("/proc")) -> float:
    """Return the CPU seconds of a process and all its descendants, in steps of 10 ms.

    A descendant that has ended counts once its parent has waited for it.
    """
    stats, spent, remaining = _stats_by_pid(proc), 0, [pid]
    while remaining:
        parent = remaining.pop()
        spent += sum(map(int, stats[parent][11:15]))
        remaining += [child for child, stat in stats.items() if int(stat[1]) == parent]
    return spent / TICKS


def _stats_by_pid(proc: Path) -> dict[int, list[str]]:
    """Return the fields of each process's `stat` (proc(5)), from its state on."""
    stats = {}
    for folder in proc.iterdir():
        if folder.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):  # if the process ended just now
                text = (folder / "stat").read_text()
                stats[int(folder.name)] = text.rpartition(")")[2].split()
    return stats


def peak_mb(pid: int) -> float:
    """Return the most memory a process has held (VmHWM)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"no VmHWM for process {pid}")


class ServiceProgram:
    """`python -m MODULE ARGUMENTS`, which dies with this process; its log goes into a file.

    It runs in the folder of the log, without settings of Hone but those in `env`. `under` is a
    command that runs it, such as one that counts instructions; `run_by` is what runs the command
    instead of `python -m`.
    """

    def __init__(
        self,
        name: str,
        *command: object,
        log_dir: Path,
        env: Mapping[str, str] | None = None,
        speaks: bool = True,
        under: Sequence[str] = (),
        run_by: Sequence[object] = (sys.executable, "-m"),
    ) -> None:
        self.name = name
        self._log = log_dir / f"{name}.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                dying_with_parent([*under, *map(str, (*run_by, *command))], signal.SIGKILL),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if speaks else log,
                stderr=log,
                text=True,
                env={**without_settings(), **(env or {})},
                cwd=log_dir,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def heard(self) -> dict[str, Any]:
        """Return the next line of JSON that it prints."""
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise self.failure("printed nothing")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def tell(self, word: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def failure(self, fact: str) -> RuntimeError:
        """Return an error that shows the end of its log."""
        tail = self._log.read_text(errors="replace")[-3000:]
        return RuntimeError(f"{self.name} {fact} (exit {self._process.poll()}):\n{tail}")

    @property
    def is_running(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None

    def leave(self) -> None:
        """Ask it to end, and wait until it has."""
        self._process.terminate()
        self._process.wait()

    def stop(self) -> None:
        """Kill it, since its Redis is discarded too, and close its pipes."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
