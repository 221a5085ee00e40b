"""A sandbox for tests, as root with fewer rights, and drafts in it."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.contract.validators.python import PythonCasesValidator, PythonTestsValidator
from workers.validators.python import check_python_cases, check_python_tests
from workers.validators.sandbox import Interpreter, Sandbox
from workers.validators.violation import Measurement, Violation

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
VIA = NOBODY if os.geteuid() == 0 else ()
PYTHONS = (Interpreter.own(), Interpreter(Path("/usr/bin/python3"), Path("/usr")))


def readable_python() -> Interpreter | None:
    for python in PYTHONS:
        ran = subprocess.run([*VIA, "ls", str(python.path)], capture_output=True, check=False)
        if ran.returncode == 0:
            return python
    return None


PYTHON = readable_python() if shutil.which("bwrap") else None
needs_sandbox = pytest.mark.skipif(
    PYTHON is None,
    reason="no bubblewrap (apt-get install bubblewrap), or no Python that others than root can run",
)


async def violations(
    draft: str, tests: str, timeout_s: int = 30, sandbox: Sandbox | None = None
) -> tuple[Violation, ...]:
    assert PYTHON
    validator = PythonTestsValidator(kind="python_tests", tests=tests, timeout_s=timeout_s)
    found = await check_python_tests(validator, draft, sandbox or Sandbox(PYTHON, VIA))
    return tuple(it for it in found if isinstance(it, Violation))


async def answered(
    draft: str, function: str | None, *cases: dict[str, Any], **fields: Any
) -> tuple[Violation | Measurement, ...]:
    """Return what the cases find in a draft."""
    assert PYTHON
    given = {"kind": "python_cases", "function": function, "cases": cases, **fields}
    validator = PythonCasesValidator.model_validate(given)
    return await check_python_cases(validator, draft, Sandbox(PYTHON, VIA))
