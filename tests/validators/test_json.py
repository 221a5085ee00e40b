"""A draft that must be one JSON document."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.validators.json import JsonValidator
from tests.validators import violations
from workers.validators.violation import MAX_VIOLATIONS, Violation

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
DOCUMENTS = st.recursive(
    st.none() | st.integers() | NAMES | st.sampled_from(['{"a": 1', '"', "\\", "]:"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)


def found(draft: str) -> list[Violation]:
    return violations(JsonValidator(kind="json"), draft)


@given(DOCUMENTS)
def test_what_a_writer_of_json_writes_passes(document: Any) -> None:
    assert found(json.dumps(document)) == []
    assert found(json.dumps(document, indent=2, ensure_ascii=False)) == []


def test_says_line_and_column_of_what_is_wrong() -> None:
    (hit,) = found('{\n  "a": 1,\n  b: 2\n}')
    assert "line 3, column 3" in hit.message
    assert hit.span == (14, 15)


def test_places_are_those_of_the_draft_when_the_document_is_fenced() -> None:
    draft = '```json\n{"a": oops}\n```'
    (hit,) = found(draft)
    assert "line 2, column 7" in hit.message
    assert hit.span
    assert draft[hit.span[0]] == "o"


@pytest.mark.parametrize("draft", ["~~~json\n{}\n~~~", '````\n{"a": "```"}\n````\n'])
def test_any_fence_of_markdown_may_enclose_it(draft: str) -> None:
    assert found(draft) == []


@pytest.mark.parametrize("draft", ["", "Sure! {}", "{} {}", "[1,]", "'a'", "NaN"])
def test_refuses_what_is_not_json(draft: str) -> None:
    assert len(found(draft)) == 1


def test_points_at_a_name_that_an_object_has_twice() -> None:
    (hit,) = found('{"a": {"b": 1}, "b": [{"a": 2}], "\\u0061": 3}')
    assert hit.quote == '"\\u0061"'
    assert "line 1, column 34" in hit.message


def test_reports_only_the_first_repeated_names() -> None:
    assert len(found("{" + '"a": 1,' * 100 + '"a": 1}')) == MAX_VIOLATIONS
