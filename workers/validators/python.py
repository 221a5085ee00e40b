"""The validators of Python: syntax and rules with ruff, and tests in a sandbox."""

import ast
import asyncio
import binascii
import json
import marshal
import os
import resource
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cache
from importlib.util import MAGIC_NUMBER
from itertools import islice
from pathlib import Path
from typing import Any

from ruff import find_ruff_bin  # type: ignore[import-untyped]

from app.contract.validators.python import PythonTestsValidator, PythonValidator
from workers.children.process_tree import cpu_time_s, memory_exceeded
from workers.validators.syscall_filter import syscall_filter
from workers.validators.violation import (
    HIDES_OTHERS,
    Measurement,
    ValidatorUnavailable,
    Violation,
    body_of,
    offset_of,
    shortened,
    violation_at,
)

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
MAX_REPORT = 64 * 1024
START_S = 10
END_S = 5.0
READY = b"ready\n"
FILE_BYTES = 16 * 1024 * 1024
PROCESSES = 16


INSIDE = Path(__file__).parent / "sandboxed"
LOADER = """
import binascii, json, marshal, os, sys, types
os.setsid()
channel = int(sys.argv[1])
os.closerange(3, channel)
os.closerange(channel + 1, 1 + max(map(int, os.listdir("/proc/self/fd"))))
os.write(1, b"+")
parents, modules = json.loads(sys.stdin.buffer.readline())
same = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER.hex()
for name in parents:
    sys.modules[name] = types.ModuleType(name)
for name, magic, code, source in modules:
    sys.modules[name] = module = types.ModuleType(name)
    is_same = magic == same
    code = marshal.loads(binascii.a2b_base64(code)) if is_same else compile(source, name, "exec")
    exec(code, vars(module))
module.main()
"""
"""Runs modules from their text, or from their code if this is the version that compiled it.

It asks for them with a byte, once the kernel knows that the sandbox ends with the worker: if the
worker has died before, there is nothing to run. Descriptors that the worker inherited are closed.
"""

INTERFERED = "the draft interfered with its connection to the tests"
ENDED = {"it ended early": "the process ended early: out of CPU time or memory, or by itself"}


class RunsAsRoot(Exception):
    """The worker is root: it must not run a model's code, not even in a sandbox."""


class NoReport(Exception):
    """The process ended or was killed before the tests were done; the message says how."""


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


class Sandbox:
    """Runs tests against drafts, at most as many at once as there are processors.

    The draft and its tests run in two sandboxes, which share nothing but a socket. `via` is a
    command in front of bubblewrap, for example one that drops privileges. The processes of each
    sandbox have `memory_bytes` together.
    """

    def __init__(
        self, python: Interpreter, via: Sequence[str] = (), memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self._python = python
        self._via = tuple(via)
        self._memory_bytes = memory_bytes
        self._spend: Callable[[float], None] = _uncounted
        self._places = asyncio.Semaphore(os.cpu_count() or 1)

    def counted(self, spend: Callable[[float], None]) -> "Sandbox":
        """Return this sandbox as one that calls `spend` with the CPU time of each run."""
        counted = copy(self)
        counted._spend = spend
        return counted

    async def run(self, draft: str, tests: str, timeout_s: int) -> dict[str, Any]:
        """Return the report of `judge.py`.

        The tests and the draft have `timeout_s` seconds of CPU time each, and twice that plus
        `START_S` of wall time. Raises `NoReport`, and `ValidatorUnavailable` if the sandbox cannot
        be used.
        """
        limits = {
            "CORE": 0,
            "CPU": timeout_s,
            "AS": self._memory_bytes,
            "FSIZE": FILE_BYTES,
            "NPROC": PROCESSES,
        }
        nonce = secrets.token_hex(16)
        asked = {"draft": draft, "limits": limits}
        async with self._places:
            try:
                judged, served = await self._played(
                    {**asked, "nonce": nonce, "tests": tests}, asked, 2 * timeout_s + START_S
                )
            except OSError as error:  # such as out of descriptors, or of processes
                raise ValidatorUnavailable(f"the sandbox cannot be started: {error}") from None
        report: dict[str, Any] = {"ended": ""}
        if judged.is_ready:
            report = _report(judged, nonce)
        self._spend(report.pop("cpu_s", 0.0))
        if "ended" in report:
            for each in (judged, served):
                if not each.is_ready:
                    raise ValidatorUnavailable(f"the sandbox cannot be used: {each.reason}")
            raise NoReport(ENDED.get(report["ended"], INTERFERED))
        return report

    async def _played(
        self, tests: dict[str, Any], draft: dict[str, Any], wall_s: float
    ) -> tuple["SandboxOutput", "SandboxOutput"]:
        """Return what the process of the tests and that of the draft have written."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            tests["channel"], draft["channel"] = ours.fileno(), theirs.fileno()
            judge, server = await _all_started(
                self._started(ours.fileno()),
                self._started(theirs.fileno()),
            )
        started = time.monotonic()
        exceeded = [asyncio.create_task(_limited(it, self._memory_bytes)) for it in (judge, server)]
        judged = asyncio.create_task(_output(judge, "judge", tests))
        served = asyncio.create_task(_output(server, "draft_server", draft))
        try:
            async with asyncio.timeout(wall_s):
                await asyncio.shield(judged)
                await judge.wait()
        except TimeoutError:
            raise NoReport("timeout") from None
        finally:
            for it in exceeded:
                it.cancel()
            if judge.returncode is None:
                self._spend(cpu_time_s(judge.pid))
            most = min(draft["limits"]["CPU"], time.monotonic() - started)
            # A draft that has ended cannot be asked any more.
            self._spend(cpu_time_s(server.pid) if server.returncode is None else most)
            await _end({judge: judged, server: served})
        if any(it.done() and not it.cancelled() for it in exceeded):
            most = self._memory_bytes >> 20
            raise NoReport(f"its processes used more than {most} MiB of memory together")
        if served.cancelled():
            raise ValidatorUnavailable(f"the sandbox was killed, and is there after {END_S:g} s")
        return judged.result(), served.result()

    async def _started(self, channel: int) -> asyncio.subprocess.Process:
        filtered = syscall_filter()
        if filtered is None:
            raise ValidatorUnavailable("the sandbox knows only Linux on x86-64 and 64-bit ARM")
        readable, writable = os.pipe()
        os.write(writable, filtered)
        os.close(writable)
        try:
            return await asyncio.create_subprocess_exec(
                *self._command(readable, channel),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={"PATH": os.defpath},
                pass_fds=(readable, channel),
                start_new_session=True,  # hence a group; uvloop knows no process_group
            )
        finally:
            os.close(readable)

    def _command(self, filter_fd: int, channel: int) -> list[str]:
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
            LOADER,
            str(channel),
        ]


@dataclass(frozen=True, slots=True)
class SandboxOutput:
    """What a process in a sandbox wrote to its standard output and error."""

    said: bytes
    errors: bytes

    @property
    def is_ready(self) -> bool:
        """Whether its program was started."""
        return self.said.startswith(READY)

    @property
    def reason(self) -> str:
        """Why it was not."""
        return self.errors.decode(errors="replace").strip()[-300:] or "it did not start"


@cache
def _program(name: str) -> bytes:
    """Return a program for `LOADER`, with the modules that it imports."""
    package = "workers.validators.sandboxed"
    modules = []
    for each in ("exchange", "shared_files", name):
        source = (INSIDE / f"{each}.py").read_text(encoding="utf-8")
        code = marshal.dumps(compile(source, each, "exec", dont_inherit=True))
        text = binascii.b2a_base64(code, newline=False).decode()
        modules.append([f"{package}.{each}", MAGIC_NUMBER.hex(), text, source])
    parents = ["workers", "workers.validators", package]
    return json.dumps([parents, modules]).encode() + b"\n"


def open_sandbox(*, allowed: bool, user_id: int | None = None) -> Sandbox | None:
    """Return the sandbox of this worker, or None if it is not allowed. Raises `RunsAsRoot`."""
    if not allowed:
        return None
    if (os.geteuid() if user_id is None else user_id) == 0:
        raise RunsAsRoot("HONE_PYTHON_TESTS is on: a worker that runs drafts must not be root")
    return Sandbox(Interpreter.own())


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


def _report(judged: SandboxOutput, nonce: str) -> dict[str, Any]:
    if len(judged.said) > MAX_REPORT:
        raise NoReport("too much output")
    try:
        report = json.loads(judged.said.removeprefix(READY))
    except (ValueError, RecursionError):
        raise NoReport(ENDED["it ended early"]) from None
    if not isinstance(report, dict) or report.pop("nonce", None) != nonce:
        raise NoReport("a false report was written")
    return report


async def _output(
    process: asyncio.subprocess.Process, program_name: str, asked: dict[str, Any]
) -> SandboxOutput:
    assert process.stdin
    assert process.stdout
    assert process.stderr
    program = _program(program_name) + json.dumps(asked).encode()
    said, errors = await asyncio.gather(
        _answer(process, process.stdin, process.stdout, program), _read(process.stderr, process)
    )
    return SandboxOutput(said, errors)


async def _answer(
    process: asyncio.subprocess.Process,
    stdin: asyncio.StreamWriter,
    stdout: asyncio.StreamReader,
    program: bytes,
) -> bytes:
    """Send the program once `LOADER` asks for it, and return what it writes."""
    if await stdout.read(1):
        await _write(stdin, program)
    return await _read(stdout, process)


async def _all_started(
    *starting: Awaitable[asyncio.subprocess.Process],
) -> Sequence[asyncio.subprocess.Process]:
    """Return the processes once all have started; if one cannot, or cancelled, end the others.

    A start is never interrupted: it would leave a process that is not known here.
    """
    begun = asyncio.gather(*starting, return_exceptions=True)
    failure: BaseException | None = None
    while not begun.done():
        try:
            await asyncio.shield(begun)
        except asyncio.CancelledError as error:
            failure = error
    processes = [it for it in begun.result() if not isinstance(it, BaseException)]
    failures = [it for it in begun.result() if isinstance(it, BaseException)]
    if failure := failure or next(iter(failures), None):
        for process in processes:
            _kill(process)
        raise failure
    return processes


def _uncounted(_cpu_s: float) -> None:
    """Count nothing."""


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the process with its group, also if it has ended itself.

    The child of bubblewrap ends with its parent only once it has asked for that; until then it
    would stay for good, with the pipes open.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end(running: Mapping[asyncio.subprocess.Process, asyncio.Task[SandboxOutput]]) -> None:
    """Kill the processes that run or whose output is open, and wait up to `END_S` for their end."""
    for process, output in running.items():
        if process.returncode is None or not output.done():
            _kill(process)
    ends = [asyncio.create_task(process.wait()) for process in running]
    _, open_ = await asyncio.wait([*ends, *running.values()], timeout=END_S)
    for each in open_:
        each.cancel()
    await asyncio.gather(*open_, return_exceptions=True)


async def _read(stream: asyncio.StreamReader, process: asyncio.subprocess.Process) -> bytes:
    """Read to the end; kill a process that writes more than a report, and drop the rest."""
    said = b""
    while piece := await stream.read(MAX_REPORT):
        if len(said) <= MAX_REPORT:
            said += piece
        else:
            _kill(process)
    return said


async def _limited(process: asyncio.subprocess.Process, memory_bytes: int) -> None:
    """Kill a process whose tree has more memory than that; all of its namespace ends with it."""
    await memory_exceeded(process.pid, memory_bytes)
    _kill(process)


async def _write(stream: asyncio.StreamWriter, data: bytes) -> None:
    try:
        stream.write(data)
        await stream.drain()
        stream.close()
    except (OSError, RuntimeError):  # the latter is uvloop's
        return  # the process has ended, and its output says why


async def check_python_tests(
    validator: PythonTestsValidator, draft: str, sandbox: Sandbox, _key: str = ""
) -> tuple[Violation | Measurement, ...]:
    """Return a violation for every test that fails, and the share of the tests that pass.

    Raises `ValidatorUnavailable` for tests that cannot be run.
    """
    body, offset = body_of(draft)
    try:
        report = await sandbox.run(body, validator.tests, validator.timeout_s)
    except NoReport as reason:
        fix = f"make it end within {validator.timeout_s} s, without ending the process itself"
        violation = Violation(f"the tests did not finish: {reason}", fix, weight=HIDES_OTHERS)
        return (violation, *_measured(validator, 0, 0))
    if broken := report.get("broken"):
        raise ValidatorUnavailable(str(broken))
    found = tuple(_violations(report, body, draft, offset))
    return (*found, *_measured(validator, report["passed"], report["of"]))


def _measured(validator: PythonTestsValidator, passed: int, of: int) -> Iterator[Measurement]:
    if validator.score is not None:
        share = round(passed / of, 6) if of else 0.0
        yield Measurement(share, f"{passed} of {of} tests passed" if of else "no test was run")


def _violations(report: dict[str, Any], body: str, draft: str, offset: int) -> Iterator[Violation]:
    for found in report["found"]:
        assertion = f" (`{found['assertion']}`)" if found.get("assertion") else ""
        message = f"{found['test']}: {found['error']}{assertion}"
        fix = "change the code so that this test passes"
        weight = 1 if report["ran"] else HIDES_OTHERS
        if line := found.get("line"):
            start = offset_of(body, line, 1)
            length = len(body[start:].partition("\n")[0])
            yield violation_at(
                draft, offset + start, f"{message}; raised", fix, max(1, length), weight
            )
        else:
            yield Violation(message, fix, weight=weight)
    if not report["found"] and not report["ran"]:
        raise ValidatorUnavailable("every test was skipped")


CPU_S = 1
WALL_S = 10.0
SYNTAX = "invalid-syntax"

LineColumn = tuple[int, int]
"""Line and column, from 1."""


class RuffFailed(Exception):
    """ruff cannot parse this code, or needs too many resources; the message says which."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One diagnostic of ruff; `code` is None for a syntax error."""

    code: str | None
    message: str
    fix: str | None
    start: LineColumn
    end: LineColumn


def remarks(code: str, version: str, rules: Sequence[str]) -> tuple[Remark, ...]:
    """Return ruff's diagnostics of code for a version such as `3.11`, in order.

    `noqa` comments are ignored. Raises `RuffFailed`, and `ValidatorUnavailable` for a rule that
    ruff does not support.
    """
    try:
        ran = subprocess.run(  # noqa: S603
            [*_command(version, rules), "-"],
            input=code.encode(),
            capture_output=True,
            check=False,
            timeout=WALL_S,
            env={"RAYON_NUM_THREADS": "1"},
            # Only the check process runs this, and it has no threads.
            preexec_fn=_limit,
        )
    except subprocess.TimeoutExpired:
        raise RuffFailed("timeout of ruff") from None
    if ran.returncode == 2:
        said = " ".join(ran.stderr.decode(errors="replace").split())
        raise ValidatorUnavailable(f"ruff rejects the parameters of the validator: {said[:300]}")
    if ran.returncode:
        raise RuffFailed("it is nested too deeply, or too long")
    return tuple(_remark(each) for each in json.loads(ran.stdout))


def _command(version: str, rules: Sequence[str]) -> list[str]:
    return [
        find_ruff_bin(),
        "check",
        "--isolated",
        "--no-cache",
        "--no-fix",
        "--ignore-noqa",
        "--exit-zero",
        "--quiet",
        "--output-format=json",
        "--stdin-filename=draft.py",
        f"--target-version=py{version.replace('.', '')}",
        f"--select={','.join(rules)}",
    ]


def _remark(found: dict[str, Any]) -> Remark:
    code = found["code"]
    start, end = found["location"], found["end_location"]
    return Remark(
        code=None if code == SYNTAX else code,
        message=found["message"],
        fix=found["fix"]["message"] if found["fix"] else None,
        start=(start["row"], start["column"]),
        end=(end["row"], end["column"]),
    )


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


MAX_VIOLATIONS = 20
COMPILES = ("E9", "F404", "F406", "F407", "F7", "PLE0117", "PLE0118")
"""Rules of ruff for code that does not compile on any Python."""

FIX = "correct it so that it compiles on Python {}; answer with code and nothing else"


def check_python(validator: PythonValidator, draft: str) -> Iterator[Violation]:
    """Yield the first syntax errors for the requested version, and violations of requested rules.

    ruff supports the syntax of every version. Code that it accepts is also compiled, if this
    server's Python is not older than the requested version.
    """
    body, offset = body_of(draft)
    try:
        found = remarks(body, validator.version, (*COMPILES, *validator.ruff))
    except RuffFailed as reason:
        said = f"the draft could not be checked: {reason}"
        yield Violation(said, "simplify the draft", weight=HIDES_OTHERS)
        return
    fix = FIX.format(validator.version)
    for remark in islice(found, MAX_VIOLATIONS):
        yield violation_at(
            draft,
            offset + offset_of(body, *remark.start),
            f"{shortened(remark.message, 300)} ({remark.code or 'syntax'})",
            remark.fix or (fix if _is_error(remark) else f"follow ruff's rule {remark.code}"),
            max(1, offset_of(body, *remark.end) - offset_of(body, *remark.start)),
            HIDES_OTHERS if _is_error(remark) else 1,
        )
    if not any(map(_is_error, found)):
        yield from _uncompilable(body, offset, draft, validator.version)


def _is_error(remark: Remark) -> bool:
    return remark.code is None or remark.code.startswith(COMPILES)


def _uncompilable(body: str, offset: int, draft: str, version: str) -> Iterator[Violation]:
    major, minor = map(int, version.split("."))
    if (major, minor) > sys.version_info[:2]:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(body, feature_version=(major, minor))
            compile(tree, "draft.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        at = offset_of(body, error.lineno or 1, error.offset or 1)
        said = f"{error.msg} (syntax)"
        yield violation_at(draft, offset + at, said, FIX.format(version), weight=HIDES_OTHERS)
    except (RecursionError, MemoryError):
        yield Violation("the code is nested too deeply to compile", "nest it less")
    except ValueError as error:
        yield Violation(f"the code does not compile: {error}", FIX.format(version))
