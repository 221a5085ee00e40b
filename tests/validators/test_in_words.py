"""Each validator says in words what it demands, for the model that writes the text."""

from typing import Any

import pytest

from app.contract.requests import RefinementRequest
from app.contract.validators import VALIDATORS, Validator
from tests.validators.validator_page import sections


def words(**given: Any) -> str | None:
    validator: Validator = VALIDATORS[given["kind"]].model_validate(given)
    return validator.in_words()


def test_every_validator_but_the_callers_own_says_what_it_demands() -> None:
    silent = {kind for kind, it in sections().items() if words(**it.example) is None}
    assert silent == {"http"}


DEMANDS: list[tuple[dict[str, Any], list[str]]] = [
    ({"kind": "length", "min_words": 80, "max_words": 120}, ["at least 80 and at most 120 words"]),
    ({"kind": "length", "max_words": 0, "min_sentences": 2}, ["at most 0 words", "2 sentences"]),
    ({"kind": "contains", "texts": ['say "hi"']}, ['"say \\"hi\\""']),
    ({"kind": "contains", "texts": ["a"], "case_sensitive": False}, ["in any letter case"]),
    ({"kind": "excludes", "texts": ["a", "b"], "whole_words": True}, ["nowhere as whole words"]),
    ({"kind": "regex", "pattern": "^a+$"}, ["matches the regular", "^a+$"]),
    ({"kind": "regex", "pattern": "x", "expect": "no_match"}, ["matches nowhere"]),
    ({"kind": "readability", "min_reading_ease": 60}, ["at least 60", "Flesch reading ease"]),
    ({"kind": "spelling", "allow": ["Hone"]}, ["misspelt", "Hone"]),
    ({"kind": "markdown", "headings": ["## Usage"]}, ["Markdown", "## Usage"]),
    ({"kind": "json_schema", "schema": {"type": "array"}}, ["JSON Schema", '{"type": "array"}']),
    ({"kind": "sql", "tables": {"t": ["a", "b"], "u": []}}, ["t (a, b); u (any column)"]),
    ({"kind": "sql", "dialect": "duckdb"}, ["duckdb"]),
    ({"kind": "python", "ruff": ["F", "B006"]}, ["3.11", "F, B006"]),
    ({"kind": "citations", "required": True}, ["cites at least one document", "4 words"]),
]


@pytest.mark.parametrize(("given", "parts"), DEMANDS)
def test_the_words_have_what_was_asked_for(given: dict[str, Any], parts: list[str]) -> None:
    said = words(**given)
    assert said is not None
    assert all(part in said for part in parts), said


def test_tests_of_python_are_shown_unless_they_are_hidden() -> None:
    tests = "def test_it():\n    assert draft.two() == 2"
    given = {"kind": "python_tests", "tests": tests}
    assert tests in (words(**given) or "")
    hidden = words(**given, visible=False) or ""
    assert "passes tests" in hidden
    assert "two" not in hidden


def test_cases_of_python_are_shown_unless_they_are_hidden() -> None:
    cases = [{"input": ["a", 1], "expected": None}, {"input": {"b": 2}, "raises": "KeyError"}]
    given = {"kind": "python_cases", "function": "find", "cases": cases}
    said = words(**given) or ""
    assert said.endswith("find('a', 1) returns None\nfind(b=2) raises KeyError")
    hidden = words(**given, visible=False) or ""
    assert "`find`" in hidden
    assert "KeyError" not in hidden


def test_a_request_has_the_demands_of_those_that_count() -> None:
    given = [
        {"kind": "length", "max_words": 9},
        {"kind": "spelling", "on_fail": "warn"},
        {"kind": "http", "url": "https://example.com/check"},
        {"kind": "json", "on_fail": "revise"},
    ]
    said = RefinementRequest.model_validate({"task": "x", "validators": given}).in_words()
    assert len(said) == 2
    assert said[0] == "has at most 9 words"
