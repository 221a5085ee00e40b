"""Validators that need more than a worker: a sandbox, or an endpoint of the caller."""

from typing import Literal

from pydantic import Field

from app.contract.tools import TimeoutS, Url
from app.contract.validator import Validator


class PythonTestsValidator(Validator):
    """The draft is Python, fenced or not, and passes these tests in a sandbox.

    The tests import it as `draft`. They are functions whose names begin with `test`, or cases of
    unittest; there is nothing but the standard library, no network, 512 MiB of memory, 16 MiB to
    write to and 16 processes. Only servers with HONE_PYTHON_TESTS=true run them.
    """

    kind: Literal["python_tests"]
    tests: str = Field(min_length=1, max_length=100_000)
    timeout_s: int = Field(
        10, ge=1, le=60, description="Seconds of CPU; by the clock it may take twice that."
    )


class HttpValidator(Validator):
    """The caller's own endpoint says whether the draft passes.

    It gets `{"draft": "..."}` by POST, signed as Standard Webhooks has it under HONE_SECRET_KEY,
    with an `Idempotency-Key` made of refinement and step, and answers 200 with `{"passed": true}`
    or `{"passed": false, "findings": [{"message", "fix", "span", "quote"}]}`; only `message` is
    required. Only public addresses are called, and redirects are not followed. An endpoint that
    does not answer fails the step.
    """

    kind: Literal["http"]
    url: Url
    timeout_s: TimeoutS = 10
