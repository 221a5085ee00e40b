"""Processes for work that may take too long: asked by lines, limited, and ended at any point."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
INHERITED = (
    "PATH",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "HOME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
)


class ChildProcess:
    """Runs `python -m MODULE`; it starts with the first question, and again if it dies.

    Its environment has no secrets. One thread at a time may ask.
    """

    def __init__(self, module: str, *arguments: str, wall_s: float) -> None:
        self._command = (sys.executable, "-m", module, *arguments)
        self._wall_s = wall_s
        self._asked = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process, or None if none runs."""
        return self._process.pid if self._process else None

    def ask(self, line: bytes, times: float = 1.0) -> bytes:
        """Return the answer, or nothing if the process dies or takes more than `times` `wall_s`."""
        process = self._process = self._process or self._started()
        assert process.stdin
        assert process.stdout
        self._asked += 1
        number = b"%d " % self._asked
        out_of_time = threading.Timer(times * self._wall_s, process.kill)
        out_of_time.start()
        try:
            process.stdin.write(number + line + b"\n")
            process.stdin.flush()
            reply = process.stdout.readline()
        except OSError:
            reply = b""
        finally:
            out_of_time.cancel()
        if not (reply.startswith(number) and reply.endswith(b"\n")):
            self.close()
            return b""
        return reply.removeprefix(number)

    def close(self) -> None:
        """End the process, and with it what it does."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe:
                    pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(os.environ),
        )


def environment(of: Mapping[str, str]) -> dict[str, str]:
    """Return what a child process is given of an environment: no keys and no passwords."""
    path = os.pathsep.join(filter(None, (str(ROOT), of.get("PYTHONPATH"))))
    kept = {name: of[name] for name in INHERITED if name in of}
    # A fixed hash seed: what comes first must not depend on the order of a set.
    return kept | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}


def answer_lines(answer: Callable[[bytes], Any], memory_bytes: int) -> None:
    """Answer with JSON what a `ChildProcess` asks, until it asks no more.

    What else reads standard input finds it empty; what else writes to standard output writes to
    standard error, so that no print is an answer. Ctrl-C, which the terminal sends to every process
    of the group, is ignored: the worker decides when its processes end.
    """
    limit_memory(memory_bytes)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    for line in questions:
        number, _, asked = line.partition(b" ")
        answers.write(number + b" " + json.dumps(answer(asked)).encode() + b"\n")
        answers.flush()


class OutOfTime(BaseException):
    """Raised at any point of the code when its CPU time is used up."""


def limit_memory(memory_bytes: int) -> None:
    """Limit the address space, on systems that have such limits, and write no core files."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


@contextmanager
def cpu_limit(cpu_s: float) -> Iterator[None]:
    """Raise `OutOfTime` after `cpu_s`; die a second of computing later if C code prevents that.

    Both are counted from here on. RLIMIT_CPU is not: it goes by the ticks of the whole life of a
    process, which drift from what `getrusage` says by seconds, and ends it before its time.
    """
    signal.signal(signal.SIGPROF, _out_of_time)
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s + 1)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _out_of_time(signum: int, frame: object) -> None:
    raise OutOfTime


EVERY_S = 0.05
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


async def memory_exceeded(pid: int, memory_bytes: int) -> None:
    """Return when a process and its descendants hold more memory than that together.

    Pages that several of them share count for each. Where there is no /proc it never returns.
    """
    while sum(map(_resident_bytes, _tree(pid))) <= memory_bytes:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(EVERY_S)


def cpu_time_s(pid: int) -> float:
    """Return the CPU time that a process and its descendants have used, those that ended included.

    It is 0 for a process that does not run, and where there is no /proc.
    """
    return sum(map(_ticks, _tree(pid))) / TICKS_PER_S


def _tree(pid: int) -> Iterator[int]:
    """Yield the process and its descendants; those that end meanwhile may be missing."""
    yield pid
    try:
        threads = list((PROC / str(pid) / "task").iterdir())
    except OSError:
        return
    for thread in threads:
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _tree(int(child))


def _ticks(pid: int) -> int:
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    # utime, stime, cutime and cstime of proc(5)
    return sum(map(int, fields[11:15]))


def _resident_bytes(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0
