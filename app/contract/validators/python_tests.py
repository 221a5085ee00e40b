"""The validator that runs a Python draft against the caller's tests in a sandbox."""

from typing import Literal

from pydantic import Field

from app.contract.resources import SANDBOX
from app.contract.validators import Validator


class PythonTestsValidator(Validator):
    """The draft is Python, fenced or not, and passes these tests in a sandbox.

    The tests import it as `draft`. They are functions whose names begin with `test`, or unittest
    test cases. The sandbox has the standard library only, no network, 512 MiB of memory, 16 MiB of
    writable storage and 16 processes. It requires HONE_PYTHON_TESTS=true on the server.
    """

    needs = SANDBOX

    kind: Literal["python_tests"]
    tests: str = Field(min_length=1, max_length=100_000)
    timeout_s: int = Field(
        10, ge=1, le=60, description="Timeout in seconds of CPU time; twice that in real time."
    )
