"""The process of the tests: it runs them, and uses the draft through an exchange of messages.

It reads `{"nonce", "draft", "tests", "channel", "limits"}` from standard input, and writes a line
`ready`, then a line of JSON: the nonce, how many tests ran, and what failed. Output of tests and
draft is discarded. No code of the draft is run in this process.
"""

import builtins
import importlib.abc
import importlib.machinery
import inspect
import io
import json
import linecache
import os
import resource
import sys
import time
import traceback
import types
import unittest
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from workers.validators.sandboxed.exchange import (
    SPECIAL,
    ComparedProxy,
    Ended,
    NotCarried,
    Peer,
    RemoteModule,
    is_proxy,
)
from workers.validators.sandboxed.shared_files import SharedFiles

HERE = "/tmp"  # noqa: S108 - the sandbox's own, empty at its start
TESTS = "/tests/test_draft.py"
MOST = 20

ONLY_CALLED = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)
ONLY_ITERATED = (types.GeneratorType, types.AsyncGeneratorType, types.CoroutineType)
DESCRIBING = ("__name__", "__qualname__", "__module__", "__doc__", "__signature__")
ITERATING = ("send", "throw", "close", "asend", "athrow", "aclose")
DATA = (bool, int, float, str, bytes, type(None))
OF_TUPLES = ("_asdict", "_fields", "_replace", "_make")

IN_DRAFT: dict[str, Sequence[str]] = {
    "subprocess": (
        *("run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput"),
    ),
    "os": ("system", "popen"),
    "pickle": ("loads", "load"),
    "marshal": ("loads", "load"),
    "random": ("seed",),
    "runpy": ("run_path", "run_module"),
}
"""Functions that could run code of a draft: they are called in its process."""

IN_BOTH = ("seed",)
"""Those of them that tests want to have called in their own process too."""

OF_DRAFT: dict[str, Sequence[str]] = {
    "dataclasses": ("asdict", "astuple", "fields", "replace"),
    "inspect": ("getsource", "getsourcelines", "getdoc", "getmembers", "isabstract"),
    "doctest": ("testmod", "run_docstring_examples"),
    "pickle": ("dumps", "dump"),
    "typing": ("get_type_hints",),
}
"""Functions that are called in the process of the draft when they are given an object of it."""

HOOKS = ("load_tests", "setUpModule", "tearDownModule")
PROCESSES = ("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen")


class JudgingPeer(Peer):
    """Uses the draft. What the draft may do with objects of the tests is what they gave it."""

    def __init__(self, channel: int) -> None:
        reader, writer = os.fdopen(channel, "rb"), os.fdopen(os.dup(channel), "wb")
        super().__init__(reader, writer, 0, is_strict=True)
        self.failed: list[Exception] = []
        self._files = SharedFiles(HERE)
        self.refused = ""
        """The last comparison with an object of the draft that was not left to the draft."""

    def perform(self, does: str, args: tuple[Any, ...]) -> Any:
        """Do what the draft asks, if the tests gave it the object."""
        if does == "input":
            return builtins.input(str(args[0]))
        if does == "stdin":
            return {"read": sys.stdin.read, "readline": sys.stdin.readline}[args[0]](int(args[1]))
        if does == "get" and args[1] == "__signature__" and callable(args[0]):
            return _signature(args[0])
        if does == "set" and _is_mock(args[0]) and type(args[2]) in DATA:
            target, name, value = args
            if self._may_set(target, name):
                return setattr(target, name, value)
        return super().perform(does, args)

    def allows(self, does: str, target: Any, name: str) -> bool:
        """Return whether the draft may do that. Nothing leads from an object to the tests."""
        if does == "special":
            if isinstance(target, ONLY_ITERATED):
                return name in ("__iter__", "__next__", "__aiter__", "__anext__")
            return name in SPECIAL or name in ("__eq__", "__ne__")
        if does == "get":
            return self._may_read(target, name)
        if does in ("set", "delete"):
            return not _is_mock(target) and self._may_set(target, name)
        if does in ("copy", "dir"):
            return not isinstance(target, (*ONLY_CALLED, *ONLY_ITERATED, type))
        return does in ("call", "text", "start", "poll", "cancel")

    def _may_read(self, target: Any, name: str) -> bool:
        if isinstance(target, ONLY_CALLED):
            return name in DESCRIBING
        if isinstance(target, ONLY_ITERATED):
            return name in ITERATING
        if isinstance(target, tuple) and name in OF_TUPLES:
            return True
        if isinstance(target, type):
            own = [it for it in target.__mro__ if it.__module__ == "test_draft"]
            is_own = any(name in vars(it) for it in own) and name[:1] != "_"
            return is_own or name in DESCRIBING
        return name[:1] != "_" and not _is_machinery(target, name)

    def _may_set(self, target: Any, name: str) -> bool:
        if isinstance(target, (*ONLY_CALLED, *ONLY_ITERATED, type)) or name[:1] == "_":
            return False
        if _is_machinery(target, name):
            return False
        of_class = inspect.getattr_static(type(target), name, None)
        is_data = isinstance(of_class, (property, types.MemberDescriptorType))
        return of_class is None or is_data or name in getattr(target, "__dict__", {})

    def star(self, module: RemoteModule) -> list[str]:
        """Return names of the draft, but none that would hide what the tests use to judge."""
        try:
            names = self.request("get", module, "__all__")
        except AttributeError:
            names = [it for it in dir(module) if it[:1] != "_"]
        taken = {*vars(builtins), *sys.stdlib_module_names, *sys._getframe(2).f_globals, *HOOKS}
        return [it for it in names if it not in taken and not it.startswith("test")]

    def encode(self, value: Any) -> Any:
        """Return a value as JSON. Raises `NotCarried` for what runs the tests."""
        if isinstance(value, (unittest.TestResult, unittest.TestSuite, unittest.TestLoader)):
            raise NotCarried(f"a {type(value).__name__} stays in its process")
        return super().encode(value)

    def compare(self, one: Any, name: str, other: Any) -> Any:
        """Compare objects of the draft with one another, and with nothing else."""
        if not isinstance(other, ComparedProxy) and other is not None:
            self.refused = f"{type(one).__name__} with {type(other).__name__}"
        return super().compare(one, name, other)

    def raised(self, error: BaseException) -> BaseException:
        """Keep what a test asserts from the draft, which could swallow it."""
        if isinstance(error, (AssertionError, NotCarried)):
            self.failed.append(error)
            return AssertionError("an assertion of the tests failed")
        if isinstance(error, (unittest.SkipTest, KeyboardInterrupt, SystemExit)):
            return RuntimeError(f"{type(error).__name__} in a function of the tests")
        return error

    def accepted(self, error: BaseException) -> BaseException:
        """Return the error of a draft; it cannot skip a test."""
        if isinstance(error, (unittest.SkipTest, KeyboardInterrupt, Ended)):
            return RuntimeError("the draft raised an error of the tests")
        return error

    def attached(self) -> dict[str, Any]:
        """Return the files that the tests have changed."""
        files = self._files.changed()
        return {"files": files} if files else {}

    def take(self, attached: dict[str, Any]) -> None:
        """Print what the draft printed and write the files that it wrote, for tests that look."""
        self._files.apply(attached.get("files", []))
        for name, stream in (("out", sys.stdout), ("errors", sys.stderr)):
            if text := attached.get(name):
                stream.write(str(text))


def _is_mock(target: Any) -> bool:
    mock = sys.modules.get("unittest.mock")
    return mock is not None and isinstance(target, mock.NonCallableMock)


def _is_machinery(target: Any, name: str) -> bool:
    """Return whether the name is one that a test uses to judge, and not part of what it gave."""
    if _is_mock(target):
        return hasattr(sys.modules["unittest.mock"].MagicMock, name)
    return isinstance(target, unittest.TestCase) and hasattr(unittest.TestCase, name)


def _signature(function: Any) -> inspect.Signature:
    """Return the signature without its defaults, which a test may have chosen for itself."""
    found = inspect.signature(function)
    empty = inspect.Parameter.empty
    return found.replace(
        parameters=[
            it.replace(default=it.default if it.default is empty else None)
            for it in found.parameters.values()
        ]
    )


class DraftImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `draft` from its process."""

    def __init__(self, judge: JudgingPeer) -> None:
        self._judge = judge
        self._was_loaded = False

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """Return where `draft` comes from."""
        if name != "draft":
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=f"{HERE}/draft.py")

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> RemoteModule:
        """Import it there."""
        module = self._judge.request("again" if self._was_loaded else "import", spec.name)
        self._was_loaded = True
        if not isinstance(module, RemoteModule):
            raise self._judge.end("it has no module draft")
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: it was executed there."""


class RunResult(unittest.TestResult):
    """Failures as data: the test, the error, the line of the draft, and the assertion."""

    def __init__(self, judge: JudgingPeer) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []
        self.passed = 0
        self._judge = judge

    def startTest(self, test: Any) -> None:  # noqa: N802 - unittest's name
        """Begin a test."""
        super().startTest(test)
        self._judge.failed.clear()
        self._judge.refused = ""

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        """Count a test that passed, unless the draft swallowed one of its assertions."""
        if self._judge.failed:
            self.addError(test, (None, self._judge.failed[0], None))
        elif not self._judge.ended:
            self.passed += 1

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        """Count a test that failed as it should."""
        if not self._judge.ended:
            self.passed += 1

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802 - unittest's name
        """Record a test that raised."""
        found = failure(str(test.id()).removeprefix("unittest.case."), err[1])
        if self._judge.refused and isinstance(err[1], AssertionError):
            found["error"] += (
                f" (compared {self._judge.refused}: an object of the draft equals no value of the "
                "tests; return a built-in value)"
            )
        self.found.append(found)

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
        super().__init__(
            (lambda: import_module("asyncio").run(function())) if is_async else function
        )
        self.name = name

    def id(self) -> str:
        """Return the function's name."""
        return self.name


def failure(test: str, error: BaseException) -> dict[str, Any]:
    """Return the error of a test, and where it was raised in the draft and in the tests."""
    frames = traceback.extract_tb(error.__traceback__)
    written = [frame.line for frame in frames if frame.filename == TESTS]
    said = "".join(traceback.format_exception_only(error)[-1:]).strip()
    said = said.removeprefix(f"{NotCarried.__module__}.")
    return {
        "test": test[:200],
        "error": said[:400],
        "line": getattr(error, "_hone_line", None) if not is_proxy(error) else _line(error),
        "assertion": (written[-1] or "")[:200] if written else "",
    }


def _line(error: BaseException) -> Any:
    try:
        return object.__getattribute__(error, "_hone_line")
    except AttributeError:
        return None


def collected(module: types.ModuleType) -> unittest.TestSuite:
    """Return the unittest cases and the plain test functions of a module."""
    suite = unittest.TestLoader().loadTestsFromModule(module)
    for name, value in vars(module).items():
        if name.startswith("test") and type(value) is types.FunctionType:
            suite.addTest(Function(name, value))
    return suite


def run(tests: str, judge: JudgingPeer) -> dict[str, Any]:
    """Return the report; under `broken`, why the tests themselves cannot be run."""
    module = types.ModuleType("test_draft")
    module.__file__ = TESTS
    sys.modules["test_draft"] = module
    linecache.cache[TESTS] = (len(tests), None, tests.splitlines(keepends=True), TESTS)
    vars(module)["__builtins__"] = {**vars(builtins), **_evaluating(judge)}
    try:
        code = compile(tests, TESTS, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return {"broken": f"the tests do not compile: {str(error)[:300]}"}
    _call_in_draft(judge, tests)
    sys.addaudithook(_audited)
    try:
        exec(code, vars(module))  # noqa: S102
    except BaseException as error:  # noqa: BLE001 - whatever a draft may raise
        found = [failure("the tests cannot be loaded", error)]
        return {"ran": 0, "passed": 0, "of": 0, "found": found}
    suite, result = collected(module), RunResult(judge)
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


def _audited(event: str, args: tuple[Any, ...]) -> None:
    """Refuse what could run code of a draft in this process."""
    is_example = event == "exec" and args[0].co_filename.startswith("<doctest")
    if is_example or event in PROCESSES or event == "pickle.find_class":
        raise NotCarried(f"{event}: code of the draft runs only in its own process")


def _evaluating(judge: JudgingPeer) -> dict[str, Any]:
    def asked(how: str) -> Callable[..., Any]:
        def evaluate(source: Any, *namespaces: Any) -> Any:
            if not isinstance(source, str):
                raise NotCarried(f"{how}() of anything but text")
            caller = sys._getframe(1)
            known = {**caller.f_globals, **caller.f_locals}
            # The text may be the draft's, and name anything.
            given = {name: value for name, value in known.items() if is_proxy(value)}
            for namespace in namespaces:
                given |= namespace or {}
            return judge.request("evaluate", how, source, given)

        return evaluate

    return {"eval": asked("eval"), "exec": asked("exec")}


def _call_in_draft(judge: JudgingPeer, tests: str) -> None:
    """Replace functions of the standard library by ones that call them in the draft's process."""

    def calling(module: str, name: str, replaced: Any, *, always: bool) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name in IN_BOTH:
                replaced(*args, **kwargs)
            if always or any(map(is_proxy, args)):
                return judge.request("run", module, name, args, tuple(kwargs.items()))
            return replaced(*args, **kwargs)

        return call

    for functions, always in ((IN_DRAFT, True), (OF_DRAFT, False)):
        for module, names in functions.items():
            if module in tests:
                found = import_module(module)
                if module == "doctest":
                    found.DocTestSuite = _examples  # type: ignore[attr-defined]
                for name in names:
                    replaced = getattr(found, name)
                    setattr(found, name, calling(module, name, replaced, always=always))


def _examples(module: Any = None, **_: Any) -> unittest.TestSuite:
    """Return a test of the examples in the documentation of a module."""

    def examples() -> None:
        failed = import_module("doctest").testmod(module).failed
        assert not failed, f"{failed} examples of the documentation failed"

    return unittest.TestSuite([Function("examples", examples)])


def main() -> None:
    """Read one request and write its report."""
    asked = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    sys.stdin = io.StringIO()
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for name, most in asked["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    with open(f"{HERE}/draft.py", "w", encoding="utf-8") as out:  # noqa: PTH123
        out.write(asked["draft"])  # for tests that read it
    judge = JudgingPeer(asked["channel"])
    sys.meta_path.insert(0, DraftImporter(judge))
    answers.write("ready\n")
    answers.flush()
    try:
        report = run(asked["tests"], judge)
    except BaseException as error:  # noqa: BLE001 - the draft may raise it
        report = {"ran": 0, "passed": 0, "of": 0, "found": [failure("the tests", error)]}
    if judge.ended:
        report = {"ended": judge.ended}
    report |= {"nonce": asked["nonce"], "cpu_s": time.process_time()}
    answers.write(json.dumps(report) + "\n")
    answers.flush()
    os._exit(0)  # without waiting for threads and exit handlers of the tests


if __name__ == "__main__":
    main()
