"""Child processes: each in its own process group, restarted after a crash, ended by Ctrl-C."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, NoReturn, Protocol, Self

from app.local.parent_death import die_with_parent, dying_with_parent

if TYPE_CHECKING:
    from app.local.embedded import EmbeddedRedis

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MARGIN_S = 5.0
"""Time for a program to end after its own grace period."""


class Interrupts:
    """A context in which only the first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt.

    The shutdown therefore runs without interruption, and can check whether Ctrl-C was pressed again
    (`in_a_hurry`). Only the main thread may enter it.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._presses = 0
        self._before: dict[signal.Signals, Any] = {}

    @property
    def in_a_hurry(self) -> bool:
        """Whether Ctrl-C was pressed after the first signal."""
        return self._presses > 0

    def __enter__(self) -> Self:
        # nohup makes its program ignore SIGHUP, which must stay so.
        wanted = [s for s in STOPS if s is signal.SIGINT or signal.getsignal(s) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._note) for number in wanted}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._seen += 1
        if self._seen == 1:
            raise KeyboardInterrupt
        if number == signal.SIGINT:
            self._presses += 1


Emit = Callable[[str, str], None]
"""Takes the name of a program and a line of its output; called from several threads."""


@dataclass(frozen=True)
class Program:
    """A program to run: a name for display, the command, and its whole environment."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it in a session of its own. Call it in the main thread."""
        return subprocess.Popen(  # noqa: S603 - one of Hone's own programs
            dying_with_parent(self.command, signal.SIGKILL),
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@dataclass(frozen=True)
class ForkedProgram:
    """A function to run in a copy of this process: it needs no imports, and shares memory.

    It returns the exit status. A process that forks must have a single thread.
    """

    name: str
    run: Callable[[], int]

    def start(self) -> "ProcessCopy":
        """Start it in a process group of its own, which writes where this process does."""
        return ProcessCopy(self.run)


class ProcessCopy:
    """A copy of this process, as `subprocess.Popen` shows a process."""

    stdout = None

    def __init__(self, run: Callable[[], int]) -> None:
        self._status: int | None = None
        parent = os.getpid()
        # A signal that came before the copy has its own handlers would act as on this process.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                exit_with(lambda: self._begin(parent, run))
            with contextlib.suppress(OSError):  # the copy did the same already, or has ended
                os.setpgid(self.pid, self.pid)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def poll(self) -> int | None:
        """Return the exit status, or minus the signal that killed it; None while it runs."""
        return self._status if self._status is not None else self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for its end, and return what `poll` does."""
        return self._status if self._status is not None else self._wait(0)

    def terminate(self) -> None:
        """Ask it to end, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def _wait(self, options: int) -> int | None:
        ended, status = os.waitpid(self.pid, options)
        if ended:
            self._status = os.waitstatus_to_exitcode(status)
        return self._status

    @staticmethod
    def _begin(parent: int, run: Callable[[], int]) -> int:
        os.setpgid(0, 0)
        die_with_parent(signal.SIGKILL, parent)
        for number in STOPS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        return run()


def exit_with(run: Callable[[], int]) -> NoReturn:
    """End this process with what `run` returns, without the exit handlers of its parent."""
    status = 1
    try:
        status = run()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - it must not return into the copy of its parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


class Child:
    """A program and its process, which ends when this process does."""

    def __init__(self, program: Program | ForkedProgram, emit: Emit) -> None:
        self.name = program.name
        self._program = program
        self._emit = emit
        self._process: subprocess.Popen[bytes] | ProcessCopy | None = None
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, or None if it does not run."""
        return self._process.pid if self._process and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def status(self) -> int | None:
        """Exit status of the last process, or minus the signal that killed it."""
        return self._process.poll() if self._process else None

    def revive(self) -> None:
        """Start it, after killing the rest of an earlier process. Call it in the main thread."""
        self.kill()
        self._process = self._program.start()
        if self._process.stdout is not None:
            self._reader = threading.Thread(
                target=self._read, args=(self._process.stdout,), daemon=True
            )
            self._reader.start()

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """Kill it and everything it started, wait for it, and read its output to the end."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._reader is not None:
            # With a timeout, because a process that left the session may keep the pipe open.
            self._reader.join(timeout=2.0)

    def _read(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self._emit(self.name, line.decode(errors="replace").rstrip())


Clock = Callable[[], float]


class Restartable(Protocol):
    """Something that can crash and be restarted: a child process, or the embedded Redis."""

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""

    @property
    def status(self) -> int | None:
        """Exit status of the last process, or minus the signal that killed it."""

    def revive(self) -> None:
        """Start it."""


@dataclass(frozen=True)
class Backoff:
    """Delay before a restart: none at first, then doubled with every crash until a steady run.

    What was killed by a signal waits `longest_killed_s` at most, because its work waits for it.
    What exits by itself may be unable to start.
    """

    first_s: float = 0.25
    longest_s: float = 15.0
    longest_killed_s: float = 0.5
    steady_s: float = 30.0

    def delay_s(self, crashes: int, *, killed: bool) -> float:
        """Return the seconds to wait after this many crashes in a row, at least 1."""
        if crashes == 1:
            return 0.0
        longest_s = self.longest_killed_s if killed else self.longest_s
        return min(longest_s, self.first_s * 2.0 ** min(crashes - 2, 30))


class Keeper:
    """Keeps one thing running: restarts it after a crash, with backoff.

    `crashes` are those in a row of the same kind: killed by a signal, or ended by itself. A worker
    that was killed often must not wait long after its first error.
    """

    def __init__(
        self,
        name: str,
        thing: Restartable,
        emit: Emit,
        backoff: Backoff,
        clock: Clock,
    ) -> None:
        self.name = name
        self.crashes = 0
        self._was_killed = False
        self._thing = thing
        self._emit = emit
        self._backoff = backoff
        self._clock = clock
        self._started_at: float | None = clock() if thing.is_running else None
        self._due_at = clock()

    @property
    def failures(self) -> int:
        """How often in a row it has ended by itself, and soon after its start."""
        return 0 if self._was_killed else self.crashes

    def tick(self) -> None:
        """Start it if it does not run and is due. Raises what `revive` raises."""
        if self._thing.is_running:
            return
        if self._started_at is not None:
            self._note_crash(self._started_at)
        if self._clock() >= self._due_at:
            self._thing.revive()
            self._started_at = self._clock()

    def _note_crash(self, started_at: float) -> None:
        was_steady = self._clock() - started_at >= self._backoff.steady_s
        killed = (self._thing.status or 0) < 0
        is_first = was_steady or killed != self._was_killed
        self.crashes, self._was_killed = 1 if is_first else self.crashes + 1, killed
        delay_s = self._backoff.delay_s(self.crashes, killed=killed)
        self._due_at = self._clock() + delay_s
        self._started_at = None
        self._emit(self.name, f"has ended unexpectedly; restarting in {delay_s:g} s")


class Supervisor:
    """Runs the programs of a service and, if it is embedded, their Redis.

    Entering starts the programs, `tick` restarts those that have ended and calls `meanwhile`,
    leaving ends them all:
    first the programs, in parallel, then Redis. However this process ends, they end with it.
    """

    def __init__(
        self,
        programs: Sequence[Program | ForkedProgram],
        emit: Emit,
        *,
        redis: "EmbeddedRedis | None" = None,
        grace_s: float = 25.0,
        in_a_hurry: Callable[[], bool] = lambda: False,
        backoff: Backoff = Backoff(),
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self.children = tuple(Child(program, emit) for program in programs)
        self._emit = emit
        self._redis = redis
        self._grace_s = grace_s
        self._in_a_hurry = in_a_hurry
        self._meanwhile = meanwhile
        kept: dict[str, Restartable] = {} if redis is None else {"redis": redis}
        kept |= {child.name: child for child in self.children}
        self.keepers = tuple(Keeper(*item, emit, backoff, time.monotonic) for item in kept.items())

    def tick(self) -> None:
        """Start what does not run and is due. Call it several times a second in the main thread."""
        for keeper in self.keepers:
            keeper.tick()
        self._meanwhile()

    def run(self, pause_s: float = 0.1) -> None:
        """Tick until interrupted."""
        while True:
            self.tick()
            time.sleep(pause_s)

    def stop(self) -> None:
        """End everything; programs have the grace period, unless `in_a_hurry` is true."""
        for child in self.children:
            child.terminate()
        deadline = time.monotonic() + self._grace_s
        while any(child.is_running for child in self.children):
            if time.monotonic() > deadline or self._in_a_hurry():
                break
            time.sleep(0.02)
        for child in self.children:
            if child.is_running:
                self._emit(child.name, "did not end in time: killing it")
            child.kill()
        if self._redis is not None:
            self._redis.stop()

    def __enter__(self) -> Self:
        try:
            self.tick()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
