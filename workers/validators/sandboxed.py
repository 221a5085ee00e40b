"""Runs tests against a draft inside the sandbox, with the standard library alone.

It reads `{"nonce", "draft", "tests", "cpu_s", "memory_bytes"}` from standard input, and writes a
line `ready`, then a line of JSON: the nonce, how many tests ran, and what failed. Output of the
draft is discarded.
"""

import asyncio
import inspect
import json
import os
import resource
import sys
import traceback
import types
import unittest
from typing import Any

HERE = "/tmp"  # noqa: S108 - the sandbox's own, empty at its start
MOST = 20
PROCESSES = 16
FILE_BYTES = 16 * 1024 * 1024


class RunResult(unittest.TestResult):
    """Failures as data: the test, the error, the line of the draft, and the assertion."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []
        self.passed = 0

    def addSuccess(self, test: Any) -> None:  # noqa: N802 - unittest's name
        """Count a test that passed, all of its subtests included."""
        self.passed += 1

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        """Count a test that failed as it should."""
        self.passed += 1

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802 - unittest's name
        """Record a test that raised."""
        self.found.append(failure(str(test.id()).removeprefix("unittest.case."), err[1]))

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        """Record a test whose assertion failed."""
        self.addError(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        """Record a subtest that failed."""
        if err is not None:
            self.addError(subtest, err)

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        """Record a test that should have failed."""
        self.found.append({"test": test.id(), "error": "it passed, but was expected to fail"})


class Function(unittest.FunctionTestCase):
    """A plain function whose name begins with `test`."""

    def __init__(self, name: str, function: Any) -> None:
        is_async = inspect.iscoroutinefunction(function)
        super().__init__((lambda: asyncio.run(function())) if is_async else function)
        self.name = name

    def id(self) -> str:
        """Return the function's name."""
        return self.name


def failure(test: str, error: BaseException) -> dict[str, Any]:
    """Return the error of a test, and where it was raised in the draft and in the tests."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename:
        frames.append(traceback.FrameSummary(error.filename, error.lineno, "", lookup_line=False))
    lines = {os.path.basename(frame.filename): frame.lineno for frame in frames}  # noqa: PTH119
    written = [frame.line for frame in frames if frame.filename.endswith("/test_draft.py")]
    said = "".join(traceback.format_exception_only(error)[-1:]).strip()
    return {
        "test": test[:200],
        "error": said[:400],
        "line": lines.get("draft.py"),
        "assertion": (written[-1] or "")[:200] if written else "",
    }


def collected(module: types.ModuleType) -> unittest.TestSuite:
    """Return the unittest cases and the plain test functions of a module."""
    suite = unittest.TestLoader().loadTestsFromModule(module)
    for name, value in vars(module).items():
        if name.startswith("test") and inspect.isfunction(value):
            suite.addTest(Function(name, value))
    return suite


def run(tests: str) -> dict[str, Any]:
    """Return the report; under `broken`, why the tests themselves cannot be run."""
    path = f"{HERE}/test_draft.py"
    module = types.ModuleType("test_draft")
    module.__file__ = path
    sys.modules["test_draft"] = module
    try:
        code = compile(tests, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return {"broken": f"the tests do not compile: {str(error)[:300]}"}
    try:
        exec(code, vars(module))  # noqa: S102
    except BaseException as error:  # noqa: BLE001 - whatever a draft may raise
        found = [failure("the tests cannot be loaded", error)]
        return {"ran": 0, "passed": 0, "of": 0, "found": found}
    suite, result = collected(module), RunResult()
    count = suite.countTestCases()
    if not count:
        return {"broken": "the tests contain no function or method whose name begins with test"}
    suite.run(result)
    skipped = len(result.skipped)
    return {
        "ran": result.testsRun - skipped,
        "passed": result.passed,
        "of": count - skipped,
        "found": result.found[:MOST],
    }


def main() -> None:
    """Read one request and write its report."""
    asked = json.load(sys.stdin)
    answers = open(os.dup(1), "w", encoding="utf-8")  # noqa: SIM115, PTH123
    nothing = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    for limit, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, asked["cpu_s"]),
        (resource.RLIMIT_AS, asked["memory_bytes"]),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NPROC, PROCESSES),
    ):
        resource.setrlimit(limit, (most, most))
    for name in ("draft", "tests"):
        file = "draft.py" if name == "draft" else "test_draft.py"
        with open(f"{HERE}/{file}", "w", encoding="utf-8") as out:  # noqa: PTH123
            out.write(asked[name])
    sys.path.insert(0, HERE)
    answers.write("ready\n")
    answers.flush()
    report = {"nonce": asked["nonce"], **run(asked["tests"])}
    answers.write(json.dumps(report) + "\n")
    answers.flush()
    os._exit(0)  # without waiting for threads and exit handlers of the draft


if __name__ == "__main__":
    main()
