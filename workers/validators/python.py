"""The validator of Python code, which may be hostile: ruff parses it, and it never runs."""

import ast
import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ruff import find_ruff_bin  # type: ignore[import-untyped]

from app.contract.validators.python import PythonValidator
from workers.validators.violation import (
    ValidatorUnavailable,
    Violation,
    body_of,
    offset_of,
    shortened,
    violation_at,
)

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
        yield Violation(f"the draft could not be checked: {reason}", "simplify the draft")
        return
    fix = FIX.format(validator.version)
    for remark in islice(found, MAX_VIOLATIONS):
        yield violation_at(
            draft,
            offset + offset_of(body, *remark.start),
            f"{shortened(remark.message, 300)} ({remark.code or 'syntax'})",
            remark.fix or (fix if _is_error(remark) else f"follow ruff's rule {remark.code}"),
            max(1, offset_of(body, *remark.end) - offset_of(body, *remark.start)),
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
        yield violation_at(draft, offset + at, f"{error.msg} (syntax)", FIX.format(version))
    except (RecursionError, MemoryError):
        yield Violation("the code is nested too deeply to compile", "nest it less")
    except ValueError as error:
        yield Violation(f"the code does not compile: {error}", FIX.format(version))
