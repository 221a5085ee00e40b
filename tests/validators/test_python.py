"""Python that must compile, and is never run."""

import sys

import pytest

from app.contract.validators.python import PythonValidator
from tests.validators import violations
from workers.validators.running import compile_validators
from workers.validators.violation import MAX_VIOLATIONS, ValidatorUnavailable, Violation

RUNNING = f"{sys.version_info[0]}.{sys.version_info[1]}"


def found(draft: str, version: str = "3.11", *rules: str) -> list[Violation]:
    validator = PythonValidator.model_validate(
        {"kind": "python", "version": version, "ruff": rules}, strict=False
    )
    return violations(validator, draft)


@pytest.mark.parametrize(
    "draft",
    ["", "import os\nprint(undefined)", "```python\nx = 1\n```", "'\\d'", "match x:\n case 1: ..."],
)
def test_code_that_compiles_passes(draft: str) -> None:
    assert found(draft) == []


@pytest.mark.parametrize(
    ("draft", "since"),
    [
        ("match x:\n    case 1: pass", "3.10"),
        ("try: ...\nexcept* E: ...", "3.11"),
        ("def f[T](x: T): ...", "3.12"),
        ("""f"{d["a"]}\"""", "3.12"),
        ("type X[T = int] = list[T]", "3.13"),
        ("try: ...\nexcept A, B: ...", "3.14"),
    ],
)
def test_syntax_counts_from_the_version_that_has_it(draft: str, since: str) -> None:
    before = f"3.{int(since.removeprefix('3.')) - 1}"
    assert found(draft, since) == []
    assert found(draft, before)


def test_points_at_what_does_not_compile() -> None:
    draft = "```python\nx = 1\ndef é(:\n    pass\n```"
    hit = found(draft)[0]
    assert "line 3, column 7" in hit.message
    assert hit.span
    assert draft[hit.span[0]] == ":"


@pytest.mark.parametrize(
    "draft",
    [
        "return 1", "break", "def f(a, a): pass", "nonlocal x", "await x", "f(a=1, a=2)",
        "def f():\n  x = 1\n  global x", "x = 1\nfrom __future__ import annotations", "0777",
        "class A:\n  return 1", "from x import *\ndef f():\n  from x import *", "b'é'", "\x00",
        "from __future__ import braces", "'\\N{no such name}'", "Sure, here it is:\nx = 1",
    ],
)  # fmt: skip
def test_what_the_compiler_refuses_does_not_pass(draft: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        compile(draft, "draft.py", "exec")
    assert found(draft, RUNNING)


def test_rules_are_applied_when_they_are_asked_for() -> None:
    (hit,) = found("import os  # noqa", "3.11", "F")
    assert hit.message == "`os` imported but unused (F401) at line 1, column 8"
    assert (hit.quote, hit.fix) == ("os", "Remove unused import: `os`")


def test_the_end_of_a_draft_is_the_end_of_a_line() -> None:
    assert found("x = 1\n", "3.11", "W") == []


def test_reports_only_the_first_errors() -> None:
    assert len(found("def (:\n" * 100)) == MAX_VIOLATIONS


@pytest.mark.parametrize(
    "draft",
    ["-" * 100_000 + "1", "a." * 90_000 + "b", "(" * 100_000, "x = [" * 3000, "1+" * 90_000],
)
async def test_hostile_code_comes_to_an_end(draft: str) -> None:
    assert await compile_validators([PythonValidator(kind="python")]).run(draft)


async def test_an_unknown_rule_is_no_fault_of_the_draft() -> None:
    validator = PythonValidator(kind="python", ruff=("ZZZZ9",))
    with pytest.raises(ValidatorUnavailable, match="ZZZZ9"):
        await compile_validators([validator]).run("x = 1")
