"""Validators of Python: syntax and rules, and cases and tests that run in a sandbox."""

import json
import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from app.contract import Contract, patterns
from app.contract.errors import FieldConflict, pointer_to
from app.contract.validators import SandboxedValidator, Validator


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
        words = f"as a whole is Python that compiles on {self.version}"
        return f"{words} and obeys the rules {', '.join(self.ruff)} of Ruff" if self.ruff else words


PythonName = Annotated[str, Field(pattern=patterns.PYTHON_NAME.regex, max_length=100)]
EXPECTED_CHARACTERS = 50_000


class PythonCase(Contract):
    """An input of the draft, and what it must answer."""

    input: (
        Annotated[str, Field(max_length=100_000)] | tuple[JsonValue, ...] | dict[str, JsonValue]
    ) = Field(
        description="Arguments of the function, as a list or by name; or the standard input of the"
        " program, a text."
    )
    expected: JsonValue = Field(
        None,
        description="What the function returns, as JSON; or what the program prints. Numbers with a"
        " fraction may differ by a billionth; white space at the ends of printed lines does not"
        " count.",
    )
    raises: PythonName | None = Field(
        None, description="Name of the exception that the function raises instead."
    )

    @model_validator(mode="after")
    def _expects_one_thing(self) -> Self:
        if self.raises is not None and self.expected is not None:
            raise FieldConflict("/raises", "a case has either expected or raises")
        if len(json.dumps(self.expected)) > EXPECTED_CHARACTERS:
            raise FieldConflict(
                "/expected", f"more than {EXPECTED_CHARACTERS:,} characters of JSON"
            )
        return self

    def question(self, function: str | None) -> str:
        """Return what the draft is given, in words."""
        if function is None:
            return f"the program, given {self.input!r},"
        if isinstance(self.input, dict):
            given = [f"{name}={value!r}" for name, value in self.input.items()]
        else:
            given = [repr(value) for value in self.input]
        return f"{function}({', '.join(given)})"


class PythonCasesValidator(SandboxedValidator):
    """The draft is Python, fenced or not, and answers each input in a sandbox as expected.

    With `function`, that function of the draft is called; without it, the draft is run as a
    program. Each case runs in a process of its own. The answers leave the sandbox and are compared
    outside, where no draft can forge the verdict. The sandbox has the standard library only, no
    network, 512 MiB of memory, 16 MiB of writable storage and 16 processes. The score is the share
    of cases that pass. It requires HONE_PYTHON_TESTS=true on the server.
    """

    kind: Literal["python_cases"]
    function: PythonName | None = Field(
        None, description="Name of a function of the draft; null for a program."
    )
    cases: tuple[PythonCase, ...] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _has_cases_of_its_form(self) -> Self:
        for index, case in enumerate(self.cases):
            is_text = isinstance(case.input, str)
            if self.function is None and not (is_text and isinstance(case.expected, str)):
                detail = "input and expected are texts where no function is named"
                raise FieldConflict(pointer_to("cases", index), detail)
            if self.function is not None and is_text:
                detail = "the arguments of a function are a list, or an object with their names"
                raise FieldConflict(pointer_to("cases", index, "input"), detail)
        return self

    def in_words(self) -> str:
        what = "a program" if self.function is None else f"a function `{self.function}`"
        words = f"as a whole is Python, with the standard library only: {what}"
        if not self.visible:
            return f"{words} that is tried on inputs"
        return "\n".join([f"{words} that answers as expected:", *self._cases_in_words()])

    def _cases_in_words(self) -> Iterator[str]:
        does = "prints" if self.function is None else "returns"
        for case in self.cases:
            answer = f"raises {case.raises}" if case.raises else f"{does} {case.expected!r}"
            yield f"{case.question(self.function)} {answer}"


A_TEST = re.compile(r"\bdef\s+(load_)?test")


class PythonTestsValidator(SandboxedValidator):
    """The draft is Python, fenced or not, and passes these tests in a sandbox.

    The tests import it as `draft`. They are functions whose names begin with `test`, or unittest
    test cases; one that is skipped has failed. Tests and draft run in one process: a hostile draft
    could forge the verdict, and the result says so in its caveats. Use `python_cases` where that
    matters. The sandbox is the same. The score is the share of tests that pass.
    """

    caveat: ClassVar[str | None] = (
        "the draft ran in one process with its tests: a hostile draft could have forged that it"
        " passes them"
    )

    kind: Literal["python_tests"]
    tests: str = Field(min_length=1, max_length=100_000)

    @model_validator(mode="after")
    def _has_tests(self) -> Self:
        if not A_TEST.search(self.tests):
            detail = "they contain no function or method whose name begins with test"
            raise FieldConflict("/tests", detail)
        return self

    def in_words(self) -> str:
        words = (
            "as a whole is Python; imported as `draft` it passes tests, with the standard library"
        )
        return f"{words} only. The tests:\n{self.tests}" if self.visible else f"{words} only"
