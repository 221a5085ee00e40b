"""Inputs and expected outputs of a function or a program, compared outside the sandbox."""

from typing import Any

import pytest
from pydantic import ValidationError

from app.contract.validators.python import PythonCasesValidator
from tests.validators.sandboxed_python import answered, needs_sandbox
from workers.validators.python import is_same
from workers.validators.violation import Measurement, Violation

ADD = "def add(a, b):\n    return a + b\n"
SUM = "a, b = map(int, input().split())\nprint(a + b)\n"
TWO = ({"input": [2, 3], "expected": 5}, {"input": {"a": 1, "b": 1}, "expected": 2})


async def messages(draft: str, function: str | None, *cases: Any, **fields: Any) -> list[str]:
    found = await answered(draft, function, *cases, **fields)
    return [it.message for it in found if isinstance(it, Violation)]


@needs_sandbox
async def test_a_function_that_answers_as_expected_has_no_findings() -> None:
    refuses = {"input": [1, "x"], "raises": "TypeError"}
    assert await answered(f"```python\n{ADD}```", "add", *TWO, refuses) == ()


@needs_sandbox
async def test_a_program_that_prints_what_is_expected_has_no_findings() -> None:
    cases = [{"input": f"{n} 1\n", "expected": f"{n + 1}  \n\n"} for n in range(3)]
    assert await answered(SUM, None, *cases) == ()


@needs_sandbox
async def test_a_wrong_answer_is_shown_beside_what_was_expected() -> None:
    assert await messages("def add(a, b): return a * 2", "add", *TWO) == [
        "add(2, 3) returned 4; expected 5"
    ]
    raises = {"input": [1, 1], "raises": "ValueError"}
    assert await messages(ADD, "add", TWO[0], raises) == [
        "add(1, 1) returned 2; expected ValueError"
    ]
    assert await messages("print(7)", None, {"input": "1", "expected": "2"}) == [
        "the program, given '1', printed '7\\n'; expected '2'"
    ]


@needs_sandbox
@pytest.mark.parametrize(
    ("draft", "function"), [("def add(a, b):\n    return a + c\n", "add"), (f"{SUM}c", None)]
)
async def test_an_error_in_every_case_is_one_finding_at_its_line(
    draft: str, function: str | None
) -> None:
    cases = TWO if function else ({"input": "1 2", "expected": "3"},) * 2
    (hit,) = await answered(draft, function, *cases)
    assert isinstance(hit, Violation)
    assert hit.message.startswith("each of 2 cases")
    assert "NameError: name 'c' is not defined" in hit.message
    assert hit.quote == draft.splitlines()[-1]


@needs_sandbox
async def test_hidden_cases_stay_hidden() -> None:
    (said,) = await messages("def add(a, b): return 31", "add", TWO[0], visible=False)
    assert said == "hidden case 1 gave another answer than expected"


@needs_sandbox
async def test_each_case_begins_anew() -> None:
    draft = (
        "import os\ncalls = []\n"
        "def add(a, b):\n    calls.append(a)\n    open('file', 'a').write('x')\n"
        "    open('draft.py', 'w').write('')\n    if not os.fork(): __import__('time').sleep(60)\n"
        "    return len(calls) + os.path.getsize('file') + a + b - 2\n"
    )
    assert await answered(draft, "add", *TWO) == ()


@needs_sandbox
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os._exit(0)", "ended early"),
        ("import os, signal; os.kill(os.getppid(), signal.SIGKILL)", "ended early"),
        ("return 'x' * 10**6", "more than 64 KiB"),
        ("return {1}", "no JSON"),
        ("return 'x' * 10**9", "MemoryError"),
        ("while True: pass", "ended early"),
        ("__import__('time').sleep(99)", "2 of 2 cases were not run: timeout"),
    ],
)
async def test_a_draft_that_does_not_answer_does_not_pass(code: str, said: str) -> None:
    found = await messages(f"def add(a, b):\n    {code}\n", "add", *TWO, timeout_s=1)
    assert any(said in it for it in found)


@needs_sandbox
async def test_the_score_is_the_share_of_cases_that_pass() -> None:
    *_, measured = await answered("def add(a, b): return 5", "add", *TWO, score={"as": "decides"})
    assert measured == Measurement(0.5, "1 of 2 cases passed")


@pytest.mark.parametrize(
    ("expected", "given"),
    [(1, 1.0), (0.3, 0.1 + 0.2), ((1, [2.0]), [1, [2]]), ({"a": None}, {"a": None}), ("a", "a")],
)
def test_values_that_are_the_same(expected: Any, given: Any) -> None:
    assert is_same(expected, given)


@pytest.mark.parametrize(
    ("expected", "given"),
    [(1, True), (False, 0), (0.3, 0.3001), (2.0, 10**400), ("1", 1), ([1], [1, 2]), ({}, None)],
)
def test_values_that_differ(expected: Any, given: Any) -> None:
    assert not is_same(expected, given)


def test_a_request_with_cases_is_stored_and_read_again() -> None:
    cases = [*TWO, {"input": [], "raises": "KeyError"}, {"input": [0], "expected": None}]
    given = {"kind": "python_cases", "function": "add", "cases": cases}
    validator = PythonCasesValidator.model_validate(given)
    assert PythonCasesValidator.model_validate_json(validator.model_dump_json()) == validator


@pytest.mark.parametrize(
    ("function", "case", "said"),
    [
        ("add", {"input": "1 2", "expected": 3}, "arguments of a function"),
        (None, {"input": [1], "expected": "3"}, "texts where no function"),
        (None, {"input": "1", "expected": 3}, "texts where no function"),
        ("add", {"input": [], "expected": 3, "raises": "KeyError"}, "either expected or raises"),
        ("add", {"input": [], "expected": "x" * 50_001}, "50,000 characters"),
        ("a.b", {"input": [], "expected": 3}, "pattern"),
    ],
)
def test_a_case_that_cannot_be_tried_is_refused(
    function: str | None, case: dict[str, Any], said: str
) -> None:
    given = {"kind": "python_cases", "function": function, "cases": [case]}
    with pytest.raises(ValidationError, match=said):
        PythonCasesValidator.model_validate(given)
