"""Validators of Python: syntax and rules, and tests that run in a sandbox."""

from typing import Annotated, Literal

from pydantic import Field

from app.contract import patterns
from app.contract.resources import SANDBOX
from app.contract.validators import ScoringValidator, Validator


class PythonValidator(Validator):
    """The draft is Python that compiles on `version`, fenced or not. It is never run."""

    kind: Literal["python"]
    version: Literal["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"] = Field(
        "3.11", description="Oldest Python version that it must compile on."
    )
    ruff: tuple[Annotated[str, Field(pattern=patterns.RUFF_RULE.regex)], ...] = Field(
        (), max_length=50, description="Ruff rules or prefixes of rules, such as `F` and `B006`."
    )

    def in_words(self) -> str:
        """Return the version and the rules."""
        words = f"as a whole is Python that compiles on {self.version}"
        return f"{words} and obeys the rules {', '.join(self.ruff)} of Ruff" if self.ruff else words


class PythonTestsValidator(ScoringValidator):
    """The draft is Python, fenced or not, and passes these tests in a sandbox.

    The tests import it as `draft`. They are functions whose names begin with `test`, or unittest
    test cases. Tests and draft run in a sandbox each, which has the standard library only, no
    network, 512 MiB of memory, 16 MiB of writable storage and 16 processes. Its
    score is the share of tests that pass. It requires HONE_PYTHON_TESTS=true on the server.
    """

    needs = SANDBOX

    kind: Literal["python_tests"]
    tests: str = Field(min_length=1, max_length=100_000)
    timeout_s: int = Field(
        10, ge=1, le=60, description="Timeout in seconds of CPU time; twice that in real time."
    )
    visible: bool = Field(True, description="Whether the model that writes is shown the tests.")

    def in_words(self) -> str:
        """Return the tests, if they are visible."""
        words = (
            "as a whole is Python; imported as `draft` it passes tests, with the standard library"
        )
        return f"{words} only. The tests:\n{self.tests}" if self.visible else f"{words} only"
