"""Cases and tests of the caller run against a draft, and nothing gets out of the sandbox.

As root they drop to an unprivileged user, since the sandbox is not for root.
"""

import asyncio
import os
import platform
import resource
import time
from pathlib import Path

import pytest

from app.contract.validators.python import PythonTestsValidator
from tests.processes import commands, descendants
from tests.validators.sandboxed_python import PYTHON, VIA, answered, needs_sandbox, violations
from tests.waiting import TIMEOUT_S
from workers.validators.python import check_python_tests
from workers.validators.running import ServerResources, compile_validators
from workers.validators.sandbox import Interpreter, RunsAsRoot, Sandbox, open_sandbox
from workers.validators.violation import Measurement, ValidatorUnavailable, Violation

ADD = "from draft import add\n\ndef test_adds():\n    assert add(2, 3) == 5\n"


async def found(draft: str) -> list[str]:
    """Return what tests and cases say of a draft whose `main` is to return 1."""
    by_tests, (by_cases,) = await asyncio.gather(
        violations(draft, "import draft\ndef test(): assert draft.main() == 1"),
        answered(draft, "main", {"input": [], "expected": 1}),
    )
    assert isinstance(by_cases, Violation)
    return [*(it.message for it in by_tests), by_cases.message]


def main(code: str) -> str:
    """A draft whose `main` is this code."""
    return "def main():\n" + "".join(f"    {line}\n" for line in code.splitlines())


@needs_sandbox
@pytest.mark.parametrize(
    "tests",
    [
        ADD,
        "import unittest, draft\nclass T(unittest.TestCase):\n def test(self): draft.add(1, 2)",
        "import draft\nasync def test(): assert draft.add(1, 1) == 2",
    ],
)
async def test_a_draft_that_passes_its_tests_has_no_findings(tests: str) -> None:
    assert await violations("```python\ndef add(a, b):\n    return a + b\n```", tests) == ()


@needs_sandbox
async def test_a_failed_assertion_is_quoted() -> None:
    (hit,) = await violations("def add(a, b):\n    return a - b\n", ADD)
    assert hit.message == "test_adds: AssertionError (`assert add(2, 3) == 5`)"


@needs_sandbox
async def test_an_error_points_at_its_line_of_the_draft() -> None:
    draft = "```python\ndef add(a, b):\n    return a + c\n```"
    (hit,) = await violations(draft, ADD)
    assert "NameError: name 'c' is not defined" in hit.message
    assert "line 3" in hit.message
    assert hit.quote == "    return a + c"


@needs_sandbox
@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ("def add(a, b) return", "SyntaxError"),
        ("def subtract(a, b): ...", "cannot import name 'add'"),
        ("raise SystemExit(0)", "SystemExit"),
        ("import os; os._exit(0)", "ended early"),
        ("import os; os.kill(os.getpid(), 9)", "ended early"),
        ("while True: pass", "ended early"),
        ("import time; time.sleep(999)", "did not finish: timeout"),
        ("x = 'x' * 10**9", "MemoryError"),
        ("print('ready'); print('{}')\ndef add(a, b): return 0", "AssertionError"),
        ("import unittest; raise unittest.SkipTest('later')", "SkipTest"),
        ("import atexit, os; atexit.register(os._exit, 0); raise SystemExit", "SystemExit"),
    ],
)
async def test_a_draft_that_cannot_be_tested_does_not_pass(draft: str, said: str) -> None:
    (hit,) = await violations(draft, ADD, timeout_s=1)
    assert said in hit.message


@needs_sandbox
@pytest.mark.parametrize(
    "code",
    [
        "import socket\nsocket.create_connection(('1.1.1.1', 80), 2)",
        "import os\nopen('/usr/x', 'w')",
        "open('/x', 'w')",
        "open('/dev/shm/x', 'w')",
        "open('/etc/passwd')",
        "with open('/tmp/x', 'wb') as f:\n    while True: f.write(b'x' * 10**6)",
        "import os\nfor _ in range(99): os.fork() or os._exit(0 * __import__('time').sleep(9))",
        "import os\nos.kill(os.getppid(), 0) if os.getppid() > 2 else os.listdir('/root')",
        "import os\nassert not [k for k in os.environ if 'KEY' in k or k == 'PYTHONPATH']\n1 / 0",
        "import subprocess\nsubprocess.run(['/usr/bin/unshare', '-U', 'true'], check=True)",
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (99, 99))",
        "import pydantic",
    ],
)
async def test_nothing_gets_out_of_the_sandbox(code: str) -> None:
    for message in await found(main(code)):
        assert "AssertionError" not in message
        assert "main() returned" not in message


SYSCALL = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
KEYCTL = 250 if platform.machine() == "x86_64" else 219
REFUSED = "assert got == -1 and ctypes.get_errno() == 1, 'it got through'\nraise PermissionError"


@needs_sandbox
@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.memfd_create('x')",
        "import socket\nsocket.socket(40)",
        f"{SYSCALL}got = libc.shmget(0, 4096, 0o1600)\n{REFUSED}",
        f"{SYSCALL}got = libc.msgget(0, 0o1600)\n{REFUSED}",
        f"{SYSCALL}got = libc.syscall(425, 1, None)\n{REFUSED}",
        f"{SYSCALL}got = libc.ptrace(0, 0, 0, 0)\n{REFUSED}",
        f"{SYSCALL}got = libc.syscall({KEYCTL}, 0, -3, 1)\n{REFUSED}",
    ],
)
async def test_the_kernel_refuses_calls_that_no_test_needs(code: str) -> None:
    assert all("PermissionError" in it for it in await found(main(code)))


FORKS = """import os, time
for _ in range(6):
    if not os.fork():
        held = bytearray(40 << 20)
        time.sleep(20)
time.sleep(20)
"""


@needs_sandbox
async def test_the_processes_of_a_draft_share_one_limit_on_memory() -> None:
    assert PYTHON
    tests = "import draft\ndef test(): draft.main()"
    validator = PythonTestsValidator(kind="python_tests", tests=tests)
    sandbox = Sandbox(PYTHON, VIA, memory_bytes=160 << 20)
    (hit,) = await check_python_tests(validator, main(FORKS), sandbox)
    assert isinstance(hit, Violation)
    assert "more than 160 MiB of memory together" in hit.message


@needs_sandbox
async def test_a_draft_that_writes_everywhere_does_not_pass() -> None:
    code = (
        "import os\nfor fd in range(3, 99):\n try: os.write(fd, b'x' * 10**7)\n except OSError: 0"
    )
    assert len(await found(main(code))) == 2


TESTED = """import unittest, draft
def test_one(): assert draft.a == 1
def test_two(): assert draft.a == 2
class T(unittest.TestCase):
    def test_each(self):
        for n in range(5):
            with self.subTest(n): assert draft.a == n
    @unittest.expectedFailure
    def test_known(self): assert draft.a == 3
    @unittest.skip("later")
    def test_later(self): assert draft.a == 4
"""


@needs_sandbox
@pytest.mark.parametrize(
    ("draft", "score", "reason"),
    [
        ("a = 1", 0.4, "2 of 5 tests passed"),
        ("a = 0", 0.2, "1 of 5 tests passed"),
        ("a =", 0.0, "no test was run"),
        ("import os\nos._exit(0)", 0.0, "no test was run"),
    ],
)
async def test_its_score_is_the_share_of_tests_that_pass(
    draft: str, score: float, reason: str
) -> None:
    assert PYTHON
    fields = {"kind": "python_tests", "tests": TESTED, "score": {"as": "decides"}}
    validator = PythonTestsValidator.model_validate(fields)
    *_, measured = await check_python_tests(validator, draft, Sandbox(PYTHON, VIA))
    assert measured == Measurement(score, reason)


@needs_sandbox
async def test_tests_that_do_not_compile_are_no_fault_of_the_draft() -> None:
    with pytest.raises(ValidatorUnavailable, match="do not compile"):
        await violations("x = 1", "def test(:")


@needs_sandbox
async def test_a_test_that_is_skipped_or_taken_away_has_failed() -> None:
    skipped = "import unittest\n@unittest.skip('later')\nclass T(unittest.TestCase):\n"
    (hit,) = await violations("x = 1", f"{skipped}    def test(self): ...")
    assert hit.message == "T.test: AssertionError: it was skipped: later"
    (hit,) = await violations(
        "import unittest\nunittest.TestCase.run = print",
        "import unittest, draft\nclass T(unittest.TestCase):\n    def test(self): assert False",
    )
    assert hit.message == "the tests did not finish: 1 of 1 tests were not run"


@needs_sandbox
async def test_the_checks_of_a_refinement_share_a_budget_of_cpu_time() -> None:
    assert PYTHON
    validator = PythonTestsValidator(kind="python_tests", tests=ADD)
    resources = ServerResources(Sandbox(PYTHON, VIA), check_cpu_s=0.02)
    checks = compile_validators([validator], resources=resources)
    assert await checks.run("def add(a, b): return a + b") == ()
    (finding,) = await checks.run("def add(a, b): return a + b")
    assert "have used their 0.02 s of CPU time" in finding.message
    assert finding.skipped


@pytest.mark.long
@needs_sandbox
async def test_what_a_sandbox_has_begun_ends_with_it() -> None:
    begins = "echo; sleep 3600 & exit"  # it ends at once, and its child keeps its output
    sandbox = Sandbox(Interpreter.own(), ("sh", "-c", begins))
    validator = PythonTestsValidator(kind="python_tests", tests=ADD)
    with pytest.raises(ValidatorUnavailable, match="it did not start"):
        await check_python_tests(validator, "x = 1", sandbox)


@needs_sandbox
@pytest.mark.parametrize("turns", range(6))
async def test_nothing_stays_of_a_sandbox_that_is_cancelled_while_it_starts(turns: int) -> None:
    sleeps = f"sleep 3600.{turns}{os.getpid()}"
    sandbox = Sandbox(Interpreter.own(), ("sh", "-c", f"{sleeps} & wait"))
    validator = PythonTestsValidator(kind="python_tests", tests=ADD)
    before = {*descendants(os.getpid())}
    checking = asyncio.create_task(check_python_tests(validator, "x = 1", sandbox))
    for _ in range(turns):
        await asyncio.sleep(0)
    time.sleep(0.05)  # noqa: ASYNC251 - the loop is busy, and the processes start meanwhile
    checking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await checking
    async with asyncio.timeout(TIMEOUT_S):
        while f"{sleeps} " in commands():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        # A loop that has not heard of the end of a process cannot be closed.
        while {*descendants(os.getpid())} - before:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@needs_sandbox
async def test_a_sandbox_gets_its_program_when_it_asks(tmp_path: Path) -> None:
    # Until then it may outlive a worker that is killed, and would run the program for nobody.
    asked = tmp_path / "program"
    sandbox = Sandbox(
        Interpreter.own(), ("sh", "-c", f"exec 1>&-; timeout 0.2 cat >> {asked}; true")
    )
    validator = PythonTestsValidator(kind="python_tests", tests=ADD)
    with pytest.raises(ValidatorUnavailable, match="it did not start"):
        await check_python_tests(validator, "x = 1", sandbox)
    assert asked.read_bytes() == b""


@needs_sandbox
async def test_a_sandbox_that_cannot_be_started_says_why() -> None:
    few = resource.getrlimit(resource.RLIMIT_NOFILE)
    sandbox = Sandbox(Interpreter.own(), VIA)
    validator = PythonTestsValidator(kind="python_tests", tests=ADD)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, few[1]))
    try:
        with pytest.raises(ValidatorUnavailable, match="Too many open files"):
            await check_python_tests(validator, "x = 1", sandbox)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, few)


@needs_sandbox
async def test_a_draft_has_no_descriptor_that_the_worker_inherited() -> None:
    inherited = os.open("/", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        said = await found(main(f"import os\nos.fstat({inherited})"))
    finally:
        os.close(inherited)
    assert all("Bad file descriptor" in it for it in said)


async def test_without_leave_of_the_server_nothing_is_run() -> None:
    validator = PythonTestsValidator(kind="python_tests", tests=ADD)
    assert open_sandbox(allowed=False) is None
    with pytest.raises(ValidatorUnavailable, match="HONE_PYTHON_TESTS"):
        await compile_validators([validator], resources=ServerResources()).run("x = 1")


def test_root_gets_no_sandbox() -> None:
    with pytest.raises(RunsAsRoot):
        open_sandbox(allowed=True, user_id=0)


async def test_a_sandbox_that_cannot_start_is_no_fault_of_the_draft() -> None:
    validator = PythonTestsValidator(kind="python_tests", tests=ADD)
    missing = Sandbox(Interpreter(Path("/nowhere/python"), Path("/usr")), VIA)
    with pytest.raises(ValidatorUnavailable, match="sandbox"):
        await check_python_tests(validator, "x = 1", missing)
