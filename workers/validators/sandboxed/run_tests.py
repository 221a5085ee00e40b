"""Runs tests against a draft, in one process, and reports what was collected and each outcome."""

import asyncio
import inspect
import traceback
import types
import unittest
from collections.abc import Callable
from importlib import import_module
from typing import Any

Report = Callable[[Any], None]


class Outcomes(unittest.TestResult):
    """Reports each test by name as soon as it has passed or failed."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report

    def addSuccess(self, test: Any) -> None:  # noqa: N802 - unittest's names
        self._report({"passed": test.id()})

    def addExpectedFailure(self, test: Any, _err: Any) -> None:  # noqa: N802
        self._report({"passed": test.id()})

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._report({"failed": test.id(), "failure": failed_test(test, err[1])})

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self.addError(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._report({"failed": test.id(), "failure": failed_test(subtest, err[1])})

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self.addError(test, (None, AssertionError(f"it was skipped: {reason}")))

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        self.addError(test, (None, AssertionError("it passed, but was expected to fail")))


class Function(unittest.FunctionTestCase):
    """A plain function whose name begins with `test`."""

    def __init__(self, name: str, function: Any) -> None:
        is_async = inspect.iscoroutinefunction(function)
        super().__init__((lambda: asyncio.run(function())) if is_async else function)
        self.name = name

    def id(self) -> str:
        return f"test_draft.{self.name}"


def failed_test(test: Any, error: BaseException) -> dict[str, Any]:
    """Return an error, and where it was raised in the draft and in the tests."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.endswith("/draft.py")]
    if isinstance(error, SyntaxError) and str(error.filename).endswith("/draft.py"):
        lines.append(error.lineno)
    written = [frame.line for frame in frames if frame.filename.endswith("/test_draft.py")]
    return {
        "test": test if isinstance(test, str) else test.id(),
        "error": "".join(traceback.format_exception_only(error)[-1:]).strip(),
        "line": lines[-1] if lines else None,
        "assertion": written[-1] if written else "",
    }


def collected(module: types.ModuleType) -> unittest.TestSuite:
    """Return the unittest cases and the plain test functions of a module."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    for name, value in vars(module).items():
        if name.startswith("test") and inspect.isfunction(value):
            suite.addTest(Function(name, value))
    return suite


def names(suite: Any) -> list[str]:
    """Return the names of all tests of a suite."""
    if isinstance(suite, unittest.TestSuite):
        return [name for part in suite for name in names(part)]
    return [suite.id()]


def load_tests(tests: str, report: Report) -> unittest.TestSuite | None:
    """Return the tests, and report their names; report why if they cannot be loaded."""
    with open("test_draft.py", "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(tests)
    try:
        compile(tests, "test_draft.py", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        report({"broken": f"the tests do not compile: {error}"})
        return None
    try:
        suite = collected(import_module("test_draft"))
    except BaseException as error:  # noqa: BLE001 - whatever the draft raises
        report({"unloadable": failed_test("the tests cannot be loaded", error)})
        return None
    report({"collected": names(suite)})
    return suite


def main(asked: dict[str, Any], report: Report, _channel: int) -> None:
    """Run `asked["tests"]`."""
    if suite := load_tests(asked["tests"], report):
        suite.run(Outcomes(report))
