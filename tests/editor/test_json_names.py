"""Names of broken JSON get their quotes and colons back; what is valid is left as it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.text.json_repair import repaired, with_colons

JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, 2]))
def test_valid_json_comes_back_as_it_is(value: object, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    assert with_colons(text) == text


@pytest.mark.parametrize(
    ("broken", "value"),
    [
        ('{"a" 1, "b": 2}', {"a": 1, "b": 2}),
        ('{"a" "x", "b" "y"}', {"a": "x", "b": "y"}),
        ('{"a" {"b" [1, 2]}}', {"a": {"b": [1, 2]}}),
        ('{"a" true, "b" null}', {"a": True, "b": None}),
        ('{"a" = "x = y", "b" => 2, "c" := 3}', {"a": "x = y", "b": 2, "c": 3}),
        ('{"a" = 1 /* so far */, "b" = 2}', {"a": 1, "b": 2}),
        ("{first name: 1, other 2}", {"first name": 1, "other": 2}),
        ("{a = 'x', 'b' 'y'}", {"a": "x", "b": "y"}),
        ('{“a” = "x", “b” True}', {"a": "x", "b": True}),
        ('{"a" "A 5" screen", "b" = 2}', {"a": 'A 5" screen', "b": 2}),
        ('{"a" 1\n"b" 2}', {"a": 1, "b": 2}),
        ('{"list": ["x = 1", "y"], "b" 2}', {"list": ["x = 1", "y"], "b": 2}),
        ('{"a" = "cut off', {"a": "cut off"}),
    ],
)
def test_a_name_without_its_colon_is_mended(broken: str, value: object) -> None:
    mended = repaired(broken)
    assert mended is not None
    assert json.loads(mended) == value


@pytest.mark.parametrize(
    "text", ["a " * 50_000, '{"a" ' * 20_000, "{" + "a b " * 50_000, '"' * 9_999]
)
def test_text_that_is_no_json_takes_no_longer_than_it_is(text: str) -> None:
    assert len(with_colons(text)) <= 3 * len(text)
