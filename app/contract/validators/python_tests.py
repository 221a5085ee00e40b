"""The validator that runs a draft: Python, against tests of the caller in a sandbox."""

from typing import Literal

from pydantic import Field

from app.contract.resources import SANDBOX
from app.contract.validators import Validator


class PythonTestsValidator(Validator):
    """The draft is Python, fenced or not, and passes these tests in a sandbox.

    The tests import it as `draft`. They are functions whose names begin with `test`, or cases of
    unittest; there is nothing but the standard library, no network, 512 MiB of memory, 16 MiB to
    write to and 16 processes. Only servers with HONE_PYTHON_TESTS=true run them.
    """

    needs = SANDBOX

    kind: Literal["python_tests"]
    tests: str = Field(min_length=1, max_length=100_000)
    timeout_s: int = Field(
        10, ge=1, le=60, description="Seconds of CPU; by the clock it may take twice that."
    )
