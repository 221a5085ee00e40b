"""Values are brought to their schema; none is lost and none made up."""

import json
from typing import Any

import pytest

from workers.text.json_documents import repaired

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["version"],
    "additionalProperties": False,
    "properties": {
        "version": {"const": 2},
        "first_name": {"type": "string"},
        "count": {"type": "integer"},
        "price": {"type": "number"},
        "is_open": {"type": "boolean"},
        "note": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "status": {"enum": ["in stock", "sold out"]},
        "owner": {"$ref": "#/$defs/owner"},
    },
    "$defs": {"owner": {"type": "object", "properties": {"age": {"type": "integer"}}}},
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"count": "3"}, {"count": 3}),
        ({"price": "+2.5"}, {"price": 2.5}),
        ({"price": "0.5"}, {"price": 0.5}),
        ({"is_open": "True"}, {"is_open": True}),
        ({"tags": "red"}, {"tags": ["red"]}),
        ({"tags": [1]}, {"tags": ["1"]}),
        ({"owner": {"age": "41"}}, {"owner": {"age": 41}}),
    ],
)
def test_what_can_be_read_back_is_mended(given: dict[str, Any], expected: dict[str, Any]) -> None:
    mended = json.loads(repaired(json.dumps({"version": 2, **given}), [SCHEMA]) or "")
    assert json.dumps(mended) == json.dumps({"version": 2, **expected})


@pytest.mark.parametrize(
    "given",
    [
        {"count": "about 3"},
        {"count": "2.5"},
        {"count": "007"},
        {"is_open": "maybe"},
        {"status": "lost"},
        {"first_name": ["Ada", "Grace"]},
        {"note": None},
        {"extra": 1},
        {"firstName": "Ada"},
        {"status": "Sold-Out"},
    ],
)
def test_what_could_only_be_guessed_stays_as_it_is(given: dict[str, Any]) -> None:
    text = json.dumps({"version": 2, **given})
    assert repaired(text, [SCHEMA]) == text


def test_nothing_is_filled_in() -> None:
    assert repaired('{"count": 1}', [SCHEMA]) == '{"count": 1}'
    assert repaired('{"a": "1"}', [{"required": ["b"]}]) == '{"a": "1"}'


def test_neither_a_pattern_nor_an_address_of_a_schema_is_looked_at() -> None:
    endless = {"pattern": "^(a+)+$", "patternProperties": {"^(a+)+$": {"$ref": "http://x.test/"}}}
    text = json.dumps({"a" * 50 + "!": "a" * 50 + "!"})
    assert repaired(text, [{"type": "object", **endless}, {"$ref": "http://x.test/"}]) == text


@pytest.mark.parametrize("text", ['{"count": "1", "count": "2"}', '{"price": 1e999, "count": "1"}'])
def test_a_document_that_would_lose_something_is_left_alone(text: str) -> None:
    assert repaired(text, [SCHEMA]) == text


def test_a_schema_that_refers_to_itself_ends() -> None:
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert repaired('{"a": "1"}', [loop, True]) == '{"a": "1"}'
