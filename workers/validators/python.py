"""The validators of Python: syntax and rules with ruff, and cases and tests in a sandbox."""

import ast
import builtins
import json
import math
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from ruff import find_ruff_bin  # type: ignore[import-untyped]

from app.contract.validators.python import (
    PythonCase,
    PythonCasesValidator,
    PythonTestsValidator,
    PythonValidator,
)
from workers.validators.sandbox import ENDED_EARLY, Sandbox
from workers.validators.violation import (
    HIDES_OTHERS,
    MAX_VIOLATIONS,
    Body,
    Measurement,
    ValidatorUnavailable,
    Violation,
    abbreviated,
    offset_of,
)

MOST_SHOWN = 200
"""Characters of an answer that are shown."""

MAX_ANSWER = 64 * 1024
"""Bytes of an answer that leave the sandbox."""

LINE_OF_DRAFT = re.compile(r'draft\.py", line (\d{1,7})')


class CaseRun(BaseModel, strict=True):
    """How the process of a case ended, and what it wrote; a draft may write anything."""

    status: int
    answer: str
    errors: str


class FunctionAnswer(BaseModel, strict=True):
    """What a function is said to have returned, or which error it is said to have raised."""

    returned: Any = None
    raised: list[str] = []
    error: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """Whether a case passed; what the draft did; and, if that was an error, its line."""

    passed: bool
    did: str
    line: int | None = None
    is_error: bool = False


async def check_python_cases(
    validator: PythonCasesValidator, draft: str, sandbox: Sandbox, _key: str = ""
) -> tuple[Violation | Measurement, ...]:
    """Return a violation for every case that fails, and the share of the cases that pass."""
    body = Body(draft)
    cases, function = validator.cases, validator.function
    given = {"inputs": [case.input for case in cases], "function": function, "most": MAX_ANSWER}
    ran = await sandbox.run("run_cases", body.text, given, validator.timeout_s)
    verdicts = [_verdict(*said, function) for said in zip(cases, ran.said, strict=False)]
    passed = sum(verdict.passed for verdict in verdicts)
    found = list(_failed_cases(validator, verdicts))
    if (
        len(cases) == len(found)
        and len(alike := {(verdict.did, verdict.line) for verdict in verdicts}) == 1
    ):
        ((did, line),) = alike  # such as a syntax error
        found = [(f"each of {len(cases)} cases {did}", line)] if verdicts[0].is_error else found
    weight = 1 if len(found) > 1 or passed else HIDES_OTHERS
    said = tuple(_violation(*failed, body, weight) for failed in found[:MAX_VIOLATIONS])
    if missing := len(cases) - len(verdicts):
        why = f"{missing} of {len(cases)} cases were not run: {ran.ended}"
        said = (*said[: MAX_VIOLATIONS - 1], _unfinished(why, validator.timeout_s))
    return (*said, *_measured(validator, passed, len(cases), "cases"))


def _failed_cases(
    validator: PythonCasesValidator, verdicts: Sequence[CaseVerdict]
) -> Iterator[tuple[str, int | None]]:
    for number, (case, verdict) in enumerate(zip(validator.cases, verdicts, strict=False), 1):
        if verdict.passed:
            continue
        if validator.visible:
            expected = case.raises or repr(case.expected)
            question = abbreviated(case.question(validator.function), MOST_SHOWN)
            yield (
                f"{question} {verdict.did}; expected {abbreviated(expected, MOST_SHOWN)}",
                verdict.line,
            )
        else:
            did = verdict.did if verdict.is_error else "gave another answer than expected"
            yield f"hidden case {number} {did}", verdict.line


def _verdict(case: PythonCase, said: Any, function: str | None) -> CaseVerdict:
    try:
        ran = CaseRun.model_validate(said)
        if len(ran.answer) >= MAX_ANSWER:
            return CaseVerdict(
                False, f"answered with more than {MAX_ANSWER >> 10} KiB", is_error=True
            )
        if function is None:
            return _of_program(case, ran)
        return _of_function(case, FunctionAnswer.model_validate_json(ran.answer))
    except ValidationError:
        return CaseVerdict(False, f"gave no answer: {ENDED_EARLY}", is_error=True)


def _of_program(case: PythonCase, ran: CaseRun) -> CaseVerdict:
    if ran.status:
        *_, last = ran.errors.strip().splitlines() or [f"the status {ran.status}"]
        lines = [int(line) for line in LINE_OF_DRAFT.findall(ran.errors)]
        return CaseVerdict(False, f"ended with {last[:400]}", lines[-1] if lines else None, True)
    passed = _printed(ran.answer) == _printed(str(case.expected))
    return CaseVerdict(passed, f"printed {abbreviated(repr(ran.answer), MOST_SHOWN)}")


def _printed(text: str) -> list[str]:
    """Return the lines of an output, without the white space at their ends."""
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _of_function(case: PythonCase, answer: FunctionAnswer) -> CaseVerdict:
    if answer.error:
        did = f"raised {answer.error[:400]}" if answer.raised else answer.error[:400]
        passed = case.raises is not None and any(
            _is_a(name, case.raises) for name in answer.raised[:2]
        )
        return CaseVerdict(passed, did, answer.line, True)
    passed = case.raises is None and is_same(case.expected, answer.returned)
    return CaseVerdict(passed, f"returned {abbreviated(repr(answer.returned), MOST_SHOWN)}")


def _is_a(raised: str, expected: str) -> bool:
    """Return whether an exception has that name, or is a built-in one that derives from it."""
    found, base = getattr(builtins, raised, None), getattr(builtins, expected, None)
    is_derived = isinstance(found, type) and isinstance(base, type) and issubclass(found, base)
    return raised == expected or is_derived


def is_same(expected: Any, given: Any) -> bool:
    """Return whether two JSON values are the same; floats may differ by a billionth."""
    if isinstance(expected, bool) or isinstance(given, bool):
        return expected is given
    if isinstance(expected, float) or isinstance(given, float):
        numbers = isinstance(expected, int | float) and isinstance(given, int | float)
        return numbers and _is_close(expected, given)
    if isinstance(expected, list | tuple) and isinstance(given, list):
        pairs = zip(expected, given, strict=False)
        return len(expected) == len(given) and all(is_same(*pair) for pair in pairs)
    if isinstance(expected, dict) and isinstance(given, dict):
        return expected.keys() == given.keys() and all(
            is_same(value, given[name]) for name, value in expected.items()
        )
    return bool(expected == given)


def _is_close(expected: float, given: float) -> bool:
    try:
        return math.isclose(expected, given, rel_tol=1e-9, abs_tol=1e-12)
    except OverflowError:  # an integer that no float can hold
        return False


class TestFailure(BaseModel, strict=True):
    """A failed test or part of a test; its error, the line of the draft, the line of the test."""

    test: str
    error: str
    line: int | None = None
    assertion: str = ""


class TestsSaid(BaseModel, strict=True):
    """One line of the report on tests: it has one of these, or `failed` with its `failure`."""

    broken: str = ""
    unloadable: TestFailure | None = None
    collected: list[str] = []
    passed: str | None = None
    failed: str | None = None
    failure: TestFailure | None = None


async def check_python_tests(
    validator: PythonTestsValidator, draft: str, sandbox: Sandbox, _key: str = ""
) -> tuple[Violation | Measurement, ...]:
    """Return a violation for every test that fails or is not reported, and the share that pass.

    Raises `ValidatorUnavailable` for tests that cannot be run.
    """
    body = Body(draft)
    given = {"tests": validator.tests}
    ran = await sandbox.run("run_tests", body.text, given, validator.timeout_s)
    try:
        lines = [TestsSaid.model_validate(said) for said in ran.said]
    except ValidationError:
        lines = []
    if lines and lines[0].broken:  # said before the draft was imported
        raise ValidatorUnavailable(lines[0].broken[:300])
    unloadable = [line.unloadable for line in lines if line.unloadable]
    failures = [line.failure for line in lines if line.failure]
    collected = {name for line in lines for name in line.collected}
    passed = collected & {line.passed for line in lines} - {line.failed for line in lines}
    missing = collected - passed - {line.failed for line in lines}
    weight = HIDES_OTHERS if unloadable else 1
    said = tuple(
        _violation(_failed_test(failure), failure.line, body, weight)
        for failure in (*unloadable, *failures)[:MAX_VIOLATIONS]
    )
    reasons = [f"{len(missing)} of {len(collected)} tests were not run"] if missing else []
    reasons += [ran.ended] if ran.ended else []
    if not (reasons or collected or unloadable):
        reasons = ["no test was found"]
    if reasons:
        unfinished = _unfinished(": ".join(reasons), validator.timeout_s)
        said = (*said[: MAX_VIOLATIONS - 1], unfinished)
    count = 0 if ran.ended else len(passed)
    return (*said, *_measured(validator, count, len(collected), "tests"))


def _failed_test(failure: TestFailure) -> str:
    assertion = f" (`{failure.assertion[:MOST_SHOWN]}`)" if failure.assertion else ""
    return (
        f"{failure.test[:MOST_SHOWN].removeprefix('test_draft.')}: {failure.error[:400]}{assertion}"
    )


def _violation(message: str, line: int | None, body: Body, weight: float) -> Violation:
    """Return a violation, at a line of the draft if there is one."""
    fix = "change the code so that this passes"
    if line is None or not 0 < line <= body.text.count("\n") + 1:
        return Violation(message, fix, weight=weight)
    start = offset_of(body.text, line, 1)
    length = len(body.text[start:].partition("\n")[0])
    return body.violation(start, f"{message}; raised", fix, max(1, length), weight)


def _unfinished(reason: str, timeout_s: int) -> Violation:
    fix = f"make it end within {timeout_s} s, without ending the process itself"
    return Violation(f"the tests did not finish: {reason}", fix, weight=HIDES_OTHERS)


def _measured(
    validator: PythonCasesValidator | PythonTestsValidator, passed: int, of: int, what: str
) -> Iterator[Measurement]:
    if validator.score is not None:
        reason = f"{passed} of {of} {what} passed" if of else "no test was run"
        yield Measurement(round(passed / of, 6) if of else 0.0, reason)


CPU_S = 1
WALL_S = 10.0
SYNTAX = "invalid-syntax"


class RuffFailed(Exception):
    """ruff cannot parse this code, or needs too many resources; the message says which."""


Remark = Mapping[str, Any]
"""One diagnostic of ruff, as its JSON has it; `code` is `SYNTAX` or null for a syntax error."""


def remarks(code: str, version: str, rules: Sequence[str]) -> Sequence[Remark]:
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
    found: list[Remark] = json.loads(ran.stdout)
    return found


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


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


COMPILES = ("E9", "F404", "F406", "F407", "F7", "PLE0117", "PLE0118")
"""Rules of ruff for code that does not compile on any Python."""

FIX = "correct it so that it compiles on Python {}; answer with code and nothing else"


def check_python(validator: PythonValidator, draft: str) -> Iterator[Violation]:
    """Yield the syntax errors for the requested version, and violations of requested rules.

    ruff supports the syntax of every version. Code that it accepts is also compiled, if this
    server's Python is not older than the requested version.
    """
    body = Body(draft)
    try:
        found = remarks(f"{body.text}\n", validator.version, (*COMPILES, *validator.ruff))
    except RuffFailed as reason:
        said = f"the draft could not be checked: {reason}"
        yield Violation(said, "simplify the draft", weight=HIDES_OTHERS)
        return
    for remark in found:
        start, end = (
            offset_of(body.text, at["row"], at["column"])
            for at in (remark["location"], remark["end_location"])
        )
        code = remark["code"] if remark["code"] != SYNTAX else None
        fix = f"follow ruff's rule {code}"
        if _is_error(remark):
            fix = FIX.format(validator.version)
        yield body.violation(
            start,
            f"{abbreviated(remark['message'], 300)} ({code or 'syntax'})",
            remark["fix"]["message"] if remark["fix"] else fix,
            max(1, end - start),
            HIDES_OTHERS if _is_error(remark) else 1,
        )
    if not any(map(_is_error, found)):
        yield from _uncompilable(body, validator.version)


def _is_error(remark: Remark) -> bool:
    code = remark["code"]
    return code in (None, SYNTAX) or code.startswith(COMPILES)


def _uncompilable(body: Body, version: str) -> Iterator[Violation]:
    major, minor = map(int, version.split("."))
    if (major, minor) > sys.version_info[:2]:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(body.text, feature_version=(major, minor))
            compile(tree, "draft.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        at = offset_of(body.text, error.lineno or 1, error.offset or 1)
        said = f"{error.msg} (syntax)"
        yield body.violation(at, said, FIX.format(version), weight=HIDES_OTHERS)
    except (RecursionError, MemoryError):
        yield Violation("the code is nested too deeply to compile", "nest it less")
    except ValueError as error:
        yield Violation(f"the code does not compile: {error}", FIX.format(version))
