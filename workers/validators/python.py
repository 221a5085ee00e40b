"""The `python` validator: a draft that compiles on a certain version of Python."""

import ast
import sys
import warnings
from collections.abc import Iterator
from itertools import islice

from app.contract.validators import PythonValidator
from workers.validators.places import body_of, offset_of, violation_at
from workers.validators.ruff import Refused, Remark, remarks
from workers.validators.violation import Violation, shortened

MAX_VIOLATIONS = 20
COMPILES = ("E9", "F404", "F406", "F407", "F7", "PLE0117", "PLE0118")
"""What ruff's rules have to say about code that no Python compiles."""

FIX = "correct it so that it compiles on Python {}; answer with code and nothing else"


def check_python(validator: PythonValidator, draft: str) -> Iterator[Violation]:
    """Yield the first errors of syntax for the version asked for, and what the rules asked for say.

    ruff knows the syntax of every version. What it lets pass is compiled as well, where this
    server's Python is not older than the version asked for.
    """
    body, offset = body_of(draft)
    try:
        found = remarks(body, validator.version, (*COMPILES, *validator.ruff))
    except Refused as reason:
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
