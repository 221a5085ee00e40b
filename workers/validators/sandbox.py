"""The sandbox in which drafts run: bubblewrap, limits, and a filter of system calls.

The filter is a program for seccomp(2), in classic BPF: it loads a field of `struct seccomp_data`
(linux/seccomp.h), compares and jumps. What is refused fails with EPERM, and a system call of
another architecture ends the process.
"""

import asyncio
import json
import os
import platform
import secrets
import shlex
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from workers.children.child_process import cpu_time_s, memory_exceeded
from workers.validators.violation import ValidatorUnavailable

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""By machine: its AUDIT_ARCH, and which of two numbers of a system call is its own."""

REFUSED = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
}
"""The numbers of the system calls that are refused, on x86-64 and on 64-bit ARM."""

SOCKET = (41, 198)
FAMILIES = (1, 2, 10)
"""Families of sockets that are allowed: Unix, IPv4 and IPv6, which reach nothing in there."""

X32 = 0x40000000
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, EPERM, KILL = 0x7FFF0000, 0x00050001, 0x80000000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16


def syscall_filter(machine: str | None = None) -> bytes | None:
    """Return the program for a machine (default: this one), or None if none is known."""
    known = MACHINES.get(machine or platform.machine())
    return None if known is None else b"".join(_instructions(*known))


def _instructions(architecture: int, place: int) -> Iterator[bytes]:
    yield _instruction(LOAD, ARCHITECTURE)
    yield _instruction(EQUAL, architecture, 1, 0)
    yield _instruction(RETURN, KILL)
    yield _instruction(LOAD, NUMBER)
    yield _instruction(AT_LEAST, X32, 0, 1)
    yield _instruction(RETURN, EPERM)
    for number in sorted(numbers[place] for numbers in REFUSED.values()):
        yield _instruction(EQUAL, number, 0, 1)
        yield _instruction(RETURN, EPERM)
    yield _instruction(EQUAL, SOCKET[place], 1, 0)
    yield _instruction(RETURN, ALLOW)
    yield _instruction(LOAD, FIRST_ARGUMENT)
    for family in FAMILIES:
        yield _instruction(EQUAL, family, 0, 1)
        yield _instruction(RETURN, ALLOW)
    yield _instruction(RETURN, EPERM)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return a `struct sock_filter` (linux/filter.h) in the byte order of the machine."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


MEMORY_BYTES = 512 * 1024 * 1024
# Without --new-session: bubblewrap's child would leave the group before it ends with its parent.
SEALED = (
    "--unshare-all --unshare-user --disable-userns --die-with-parent --cap-drop ALL"
    " --clearenv --setenv HOME /tmp --setenv LANG C.UTF-8 --setenv PYTHONHASHSEED 0"
    " --hostname sandbox"
)
# Bubblewrap's own file systems are writable and unlimited until they are remounted read-only.
WRITABLE = (
    "--proc /proc --dev /dev --size 16777216 --tmpfs /tmp --remount-ro /dev --remount-ro /"
    " --chdir /tmp --"
)
MAX_REPORT = 8 * 1024 * 1024
MAX_LINE = 1024 * 1024
START_S = 10
END_S = 5.0
FILE_BYTES = 16 * 1024 * 1024
PROCESSES = 16

ENDED_EARLY = "the process ended early: out of CPU time or memory, or by itself"


class RunsAsRoot(Exception):
    """The worker is root: it must not run a model's code, not even in a sandbox."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter, and the directory of its installation."""

    path: Path
    prefix: Path

    @classmethod
    def own(cls) -> "Interpreter":
        """Return the interpreter of this process, without the packages of its environment."""
        prefix = Path(sys.base_prefix)
        major, minor = sys.version_info[:2]
        return cls(prefix / "bin" / f"python{major}.{minor}", prefix)


@dataclass(frozen=True, slots=True)
class SandboxRun:
    """What a program in the sandbox reported, and why it ended before its end (empty if not)."""

    said: Sequence[Any]
    ended: str = ""


class Sandbox:
    """Runs drafts, at most as many at once as there are processors.

    `via` is a command in front of bubblewrap, for example one that drops privileges. The processes
    of a run have `memory_bytes` together.
    """

    def __init__(
        self, python: Interpreter, via: Sequence[str] = (), memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self._python = python
        self._via = tuple(via)
        self._memory_bytes = memory_bytes
        self._spend: Callable[[float], None] = lambda _cpu_s: None
        self._places = asyncio.Semaphore(os.cpu_count() or 1)

    def counted(self, spend: Callable[[float], None]) -> "Sandbox":
        """Return this sandbox as one that calls `spend` with the CPU time of each run."""
        counted = copy(self)
        counted._spend = spend
        return counted

    async def run(
        self, program: str, draft: str, given: dict[str, Any], timeout_s: int
    ) -> SandboxRun:
        """Run a program of `sandboxed/` on a draft, and return what it reported.

        Each process has `timeout_s` seconds of CPU time, all have twice that plus `START_S` of real
        time. Raises `ValidatorUnavailable` if the sandbox cannot be used.
        """
        limits = {
            "CORE": 0,
            "CPU": timeout_s,
            "AS": self._memory_bytes,
            "FSIZE": FILE_BYTES,
            "NPROC": PROCESSES,
        }
        nonce = secrets.token_hex(16)
        asked = {**given, "draft": draft, "limits": limits, "nonce": nonce}
        asked["program"] = _text(program)
        async with self._places:
            try:
                process = await self._started()
            except OSError as error:  # such as out of descriptors, or of processes
                raise ValidatorUnavailable(f"the sandbox cannot be started: {error}") from None
            return await self._played(process, json.dumps(asked).encode(), nonce, timeout_s)

    async def _played(
        self, process: asyncio.subprocess.Process, asked: bytes, nonce: str, timeout_s: int
    ) -> SandboxRun:
        started, said, ended = time.monotonic(), list[Any](), "timeout"
        exceeded = asyncio.create_task(self._limited(process))
        try:
            async with asyncio.timeout(2 * timeout_s + START_S):
                ended = await _reported(process, asked, nonce, said)
        except TimeoutError:
            pass
        finally:
            is_exceeded = exceeded.done()
            exceeded.cancel()
            is_running = process.returncode is None
            most = min(timeout_s, time.monotonic() - started)
            self._spend(cpu_time_s(process.pid) if is_running else most)
            errors = await _end(process)
        if errors is None:
            raise ValidatorUnavailable(f"the sandbox was killed, and is there after {END_S:g} s")
        if not said:
            raise ValidatorUnavailable(
                f"the sandbox cannot be used: {errors or 'it did not start'}"
            )
        if is_exceeded:
            ended = (
                f"its processes used more than {self._memory_bytes >> 20} MiB of memory together"
            )
        return SandboxRun(said[1:], ended)

    async def _limited(self, process: asyncio.subprocess.Process) -> None:
        """Kill a process whose tree has too much memory; all of its namespace ends with it."""
        await memory_exceeded(process.pid, self._memory_bytes)
        _kill(process)

    async def _started(self) -> asyncio.subprocess.Process:
        """Start the sandbox. It is never interrupted: it would leave an unknown process."""
        filtered = syscall_filter()
        if filtered is None:
            raise ValidatorUnavailable("the sandbox knows only Linux on x86-64 and 64-bit ARM")
        readable, writable = os.pipe()
        os.write(writable, filtered)
        os.close(writable)
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *self._command(readable),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=MAX_LINE,
                env={"PATH": os.defpath},
                pass_fds=(readable,),
                start_new_session=True,  # hence a group; uvloop knows no process_group
            )
        )
        canceled: asyncio.CancelledError | None = None
        try:
            while not starting.done():
                try:
                    await asyncio.wait([starting])
                except asyncio.CancelledError as error:
                    canceled = error
        finally:
            os.close(readable)
        if canceled:
            if not starting.exception():
                _kill(starting.result())
            raise canceled
        return starting.result()

    def _command(self, filter_fd: int) -> list[str]:
        bubblewrap = shutil.which("bwrap")
        if bubblewrap is None:
            raise ValidatorUnavailable(
                "bubblewrap, the sandbox, is missing on this worker: apt-get install bubblewrap"
            )
        return [
            *self._via,
            bubblewrap,
            *shlex.split(SEALED),
            *("--seccomp", str(filter_fd)),
            *_system(self._python.prefix),
            *shlex.split(WRITABLE),
            str(self._python.path),
            *shlex.split("-I -S -B -X utf8 -c"),
            _text("loader"),
        ]


def open_sandbox(*, allowed: bool, user_id: int | None = None) -> Sandbox | None:
    """Return the sandbox of this worker, or None if it is not allowed. Raises `RunsAsRoot`."""
    if not allowed:
        return None
    if (os.geteuid() if user_id is None else user_id) == 0:
        raise RunsAsRoot("HONE_PYTHON_TESTS is on: a worker that runs drafts must not be root")
    return Sandbox(Interpreter.own())


@cache
def _text(program: str) -> str:
    path = Path(__file__).parent / "sandboxed" / f"{program}.py"
    return path.read_text(encoding="utf-8")


def _system(prefix: Path) -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", *["/etc/ld.so.cache"] * 2]
    for path in map(Path, ("/bin", "/lib", "/lib32", "/lib64")):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    if not prefix.is_relative_to("/usr"):
        arguments += ["--ro-bind", str(prefix), str(prefix)]
    return arguments


async def _reported(
    process: asyncio.subprocess.Process, asked: bytes, nonce: str, said: list[Any]
) -> str:
    """Add what the sandbox reports to `said`, and return why it ended before the end, if it did.

    A line counts if it begins with the nonce of the run; drafts may write others.
    """
    assert process.stdin
    assert process.stdout
    if await process.stdout.read(1):  # the loader asks for its program
        try:
            process.stdin.write(asked)
            await process.stdin.drain()
            process.stdin.close()
        except (OSError, RuntimeError):  # the latter is uvloop's
            pass  # the process has ended
    size = 0
    try:
        while line := await process.stdout.readline():
            size += len(line)
            if size > MAX_REPORT:
                return "too much output"
            head, _, rest = line.partition(b" ")
            if head == nonce.encode():
                if (each := json.loads(rest)) == "end":
                    return ""
                said.append(each)
    except (ValueError, RecursionError):  # a line that is cut off or too long, or no report
        return "the report cannot be read"
    return ENDED_EARLY


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the process with its group, also if it has ended itself.

    The child of bubblewrap ends with its parent only once it has asked for that; until then it
    would stay for good, with the pipes open.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end(process: asyncio.subprocess.Process) -> str | None:
    """Kill the process, wait up to `END_S` for its end, and return what bubblewrap complained of.

    None if it has not ended.
    """
    assert process.stdout
    assert process.stderr
    _kill(process)
    errors = asyncio.create_task(process.stderr.read())
    rest = asyncio.create_task(_drained(process.stdout))
    _, open_ = await asyncio.wait(
        [errors, rest, asyncio.create_task(process.wait())], timeout=END_S
    )
    for each in open_:
        each.cancel()
    await asyncio.gather(*open_, return_exceptions=True)
    return None if open_ else errors.result().decode(errors="replace").strip()[-300:]


async def _drained(stream: asyncio.StreamReader) -> None:
    while await stream.read(MAX_LINE):
        pass
