"""The `python_tests` validator: tests of the caller, run against the draft in a sandbox.

They run in the draft's own process: they find mistakes, not a draft that sets out to deceive them.
"""

from collections.abc import Iterator
from typing import Any

from app.contract.validators import PythonTestsValidator
from workers.validators.sandbox import NoReport, Sandbox
from workers.validators.violation import (
    ValidatorUnavailable,
    Violation,
    body_of,
    offset_of,
    violation_at,
)


async def check_python_tests(
    validator: PythonTestsValidator, draft: str, sandbox: Sandbox | None
) -> tuple[Violation, ...]:
    """Return a violation for every test that fails.

    Raises `ValidatorUnavailable` without a sandbox, and for tests that are none.
    """
    if sandbox is None:
        raise ValidatorUnavailable("this worker runs no tests: HONE_PYTHON_TESTS is off")
    body, offset = body_of(draft)
    try:
        report = await sandbox.run(body, validator.tests, validator.timeout_s)
    except NoReport as reason:
        fix = f"make it end within {validator.timeout_s} s, without ending the process itself"
        return (Violation(f"the tests could not be run to their end: {reason}", fix),)
    if broken := report.get("broken"):
        raise ValidatorUnavailable(str(broken))
    return tuple(_violations(report, body, draft, offset))


def _violations(report: dict[str, Any], body: str, draft: str, offset: int) -> Iterator[Violation]:
    for found in report["found"]:
        assertion = f" (`{found['assertion']}`)" if found.get("assertion") else ""
        message = f"{found['test']}: {found['error']}{assertion}"
        fix = "change the code so that this test passes"
        if line := found.get("line"):
            start = offset_of(body, line, 1)
            length = len(body[start:].partition("\n")[0])
            yield violation_at(draft, offset + start, f"{message}; it was", fix, max(1, length))
        else:
            yield Violation(message, fix)
    if not report["found"] and not report["ran"]:
        raise ValidatorUnavailable("every test was skipped")
