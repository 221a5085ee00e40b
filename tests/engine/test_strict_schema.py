"""A client's schema as the format of replies: the same documents, or nothing."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from workers.engine.strict_schema import MOST_LEVELS, MOST_PARTS, strict

TEXT = {"type": "string"}


def closed(**members: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


SAME = [
    closed(),
    closed(total={"type": "integer"}),
    closed(lines={"type": "array", "items": closed(sku=TEXT, price={"type": "number"})}),
    closed(name={**TEXT, "description": "As on the invoice."}),
    closed(count={"type": "integer", "minimum": 0, "maximum": 9}),
    closed(tags={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3}),
    closed(unit={"type": "string", "enum": ["kg", "m"]}, note={"anyOf": [TEXT, {"type": "null"}]}),
]
NULL_OR_TEXT = {"anyOf": [TEXT, {"type": "null"}]}
REWRITTEN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (closed(a={"type": ["string", "null"]}), closed(a=NULL_OR_TEXT)),
    (closed(a={"oneOf": [TEXT, {"type": "null"}]}), closed(a=NULL_OR_TEXT)),
    (closed(a={"const": "x"}), closed(a={"type": "string", "enum": ["x"]})),
    (
        closed(a={"type": "integer", "enum": [1, 2.0, "3", None]}),
        closed(a={"type": "integer", "enum": [1, 2.0]}),
    ),
    (closed(a={**TEXT, "title": "A", "default": "x"}), closed(a=TEXT)),
    ({**closed(a=TEXT), "$schema": "http://json-schema.org/draft-07/schema#"}, closed(a=TEXT)),
    ({"$ref": "#/$defs/it", "$defs": {"it": closed(a=TEXT)}}, closed(a=TEXT)),
    (
        {
            **closed(a={"allOf": [{"$ref": "#/definitions/a~1b"}]}, b={"$ref": "#/definitions/c"}),
            "definitions": {"a/b": {"$ref": "#/definitions/c"}, "c": TEXT},
        },
        closed(a=TEXT, b=TEXT),
    ),
    (closed(a={**TEXT, "minimum": 3}), closed(a=TEXT)),
]


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = TEXT
    for _ in range(levels):
        schema = closed(a=schema)
    return schema


OUTSIDE: Mapping[str, Any] = {
    "everything": True,
    "no object": {"type": "array", "items": TEXT},
    "objects or null": {**closed(), "type": ["object", "null"]},
    "alternatives of objects": {"anyOf": [closed(a=TEXT), closed(b=TEXT)]},
    "other members": {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
    "a member that may be missing": {**closed(a=TEXT, b=TEXT), "required": ["a"]},
    "a member that cannot be there": {**closed(a=TEXT), "required": ["a", "b"]},
    "names by pattern": {**closed(), "patternProperties": {"^x": TEXT}},
    "a pattern": closed(a={**TEXT, "pattern": "^a$"}),
    "a length": closed(a={**TEXT, "maxLength": 9}),
    "anything": closed(a={}),
    "any item": closed(a={"type": "array"}),
    "unique items": closed(a={"type": "array", "items": TEXT, "uniqueItems": True}),
    "a tuple": closed(a={"type": "array", "prefixItems": [TEXT], "items": False}),
    "alternatives that share a type": closed(a={"oneOf": [TEXT, {"const": "x"}]}),
    "numbers and whole numbers": closed(a={"oneOf": [{"type": "number"}, {"type": "integer"}]}),
    "a condition": closed(a={"if": TEXT, "then": {"const": "x"}}),
    "a bound of draft 4": closed(a={"type": "integer", "minimum": 1, "exclusiveMinimum": True}),
    "an object as a value": closed(a={"const": {"b": 1}}),
    "no value": closed(a={"type": "null", "enum": ["x"]}),
    "a schema of another address": closed(a={"$ref": "https://example.com/a.json"}),
    "a reference with a sibling": {
        **closed(a={"$ref": "#/$defs/a", "maxLength": 3}),
        "$defs": {"a": TEXT},
    },
    "a reference to nothing": closed(a={"$ref": "#/$defs/a"}),
    "recursion": closed(a={"anyOf": [{"type": "null"}, {"$ref": "#"}]}),
    "too many levels": nested(MOST_LEVELS + 1),
    "too many values": closed(a={"enum": list(range(MOST_PARTS))}),
}


@pytest.mark.parametrize("schema", SAME, ids=str)
def test_a_schema_within_the_subset_stays_as_it_is(schema: dict[str, Any]) -> None:
    assert strict(schema) == schema


@pytest.mark.parametrize(("schema", "expected"), REWRITTEN, ids=str)
def test_a_schema_is_rewritten_where_that_changes_nothing(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert strict(schema) == expected


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_schema_that_demands_less_or_more_is_no_format(name: str) -> None:
    assert strict(OUTSIDE[name]) is None


def test_the_deepest_and_the_largest_schema_are_within() -> None:
    assert strict(nested(MOST_LEVELS)) is not None
    assert strict(closed(a={"enum": list(range(MOST_PARTS - 2))})) is not None


def test_references_that_multiply_end_it_soon() -> None:
    definitions: dict[str, Any] = {"d0": TEXT}
    for number in range(1, 60):
        both = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"anyOf": [both, both]}
    assert strict({**closed(a={"$ref": "#/$defs/d59"}), "$defs": definitions}) is None


SCALARS = (None, True, 0, 1, 2.5, "", "x")
VALUES = (*SCALARS, [], *([it] for it in SCALARS), [0, "x"], {}, *({"a": it} for it in SCALARS))
LEAVES = st.one_of(
    st.sampled_from([{}, {"type": ["integer", "string"]}, {"type": "number", "minimum": 1}]),
    st.sampled_from(["string", "integer", "boolean", "null"]).map(lambda it: {"type": it}),
    st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3).map(lambda it: {"enum": it}),
)


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    ways = st.lists(inner, min_size=1, max_size=2)
    return st.one_of(
        inner.map(lambda it: closed(a=it)),
        inner.map(lambda it: {"type": "array", "items": it, "maxItems": 1}),
        st.builds(
            lambda how, them: {how: them}, st.sampled_from(["anyOf", "oneOf", "allOf"]), ways
        ),
    )


@given(st.recursive(LEAVES, around, max_leaves=5))
def test_the_same_documents_satisfy_what_a_schema_becomes(part: dict[str, Any]) -> None:
    schema = closed(a=part)
    found = strict(schema)
    if found is not None:
        documents = [{}, {"a": "x", "b": 1}, *({"a": it} for it in VALUES)]
        before, after = Draft202012Validator(schema), Draft202012Validator(found)
        assert [before.is_valid(it) for it in documents] == [after.is_valid(it) for it in documents]
