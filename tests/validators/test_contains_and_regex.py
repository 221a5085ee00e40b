"""Texts and patterns: found where they stand, never in the way of anything else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.regexes import PatternError, compile_pattern
from app.contract.validators.text import ContainsValidator, RegexValidator
from tests.validators import violations
from workers.validators.violation import MAX_VIOLATIONS, Violation

PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def missing(draft: str, *texts: str, case_sensitive: bool = True) -> list[Violation]:
    validator = ContainsValidator(kind="contains", texts=texts, case_sensitive=case_sensitive)
    return violations(validator, draft)


def matched(draft: str, validator: RegexValidator) -> list[Violation]:
    return violations(validator, draft)


def test_names_every_text_that_is_missing() -> None:
    found = missing("Refunds take 30 days.", "30 days", "receipt", "e-mail")
    assert [each.fix for each in found] == [
        "add exactly this text: receipt",
        "add exactly this text: e-mail",
    ]


def test_says_when_a_text_stands_there_in_another_case() -> None:
    assert missing("the iphone", "iPhone")[0].message.endswith("with this capitalization")
    assert missing("the iphone", "iPhone", case_sensitive=False) == []


@pytest.mark.parametrize(
    ("draft", "text"), [("Mu\u0308ller", "Müller"), ("Müller", "Mu\u0308ller")]
)
def test_a_letter_is_found_however_it_is_written(draft: str, text: str) -> None:
    assert missing(f"Herr {draft}.", text) == []
    assert missing(f"Herr {draft.upper()}.", text, case_sensitive=False) == []


@given(PLAIN, PLAIN, PLAIN.filter(bool))
def test_a_draft_that_holds_the_text_passes(before: str, after: str, text: str) -> None:
    assert missing(before + text + after, text) == []


def test_points_at_every_match_that_must_not_be() -> None:
    validator = RegexValidator(kind="regex", pattern=r"\bvery\b", expect="no_match")
    found = matched("A very, vêry, very good one.", validator)
    assert [(each.span, each.quote) for each in found] == [((2, 6), "very"), ((14, 18), "very")]


def test_a_pattern_that_must_match_is_one_violation_when_it_does_not() -> None:
    validator = RegexValidator(kind="regex", pattern="^Dear ")
    assert len(matched("Hello", validator)) == 1
    assert matched("Dear reader", validator) == []


def test_case_is_ignored_when_asked() -> None:
    assert matched("DEAR", RegexValidator(kind="regex", pattern="dear", case_sensitive=False)) == []


def test_reports_only_the_first_matches() -> None:
    validator = RegexValidator(kind="regex", pattern="x", expect="no_match")
    assert len(matched("x" * 1000, validator)) == MAX_VIOLATIONS


@given(PLAIN, PLAIN.filter(lambda text: 0 < len(text) < 50))
def test_agrees_with_a_plain_search_for_a_quoted_text(draft: str, text: str) -> None:
    pattern = "".join(f"\\x{{{ord(each):x}}}" for each in text)
    validator = RegexValidator(kind="regex", pattern=pattern, expect="no_match")
    assert [each.span for each in matched(draft, validator)] == [
        found.span() for found in re.finditer(re.escape(text), draft)
    ]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing )"),
        ("(?=x)", "invalid perl operator"),
        (r"(a)\1", "invalid escape"),
        ("(x{1000}){1000}", "invalid repetition size"),
        (r"\pL{1000}" * 100, "too large a program"),
        ("x" * 1001, "at most 1000"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_refuses_a_pattern_and_says_why(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=re.escape(reason)):
        compile_pattern(pattern)
