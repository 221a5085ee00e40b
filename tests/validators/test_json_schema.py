"""A draft that must be one JSON document of a certain shape."""

import json
from inspect import signature
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from app.contract.json_schemas import validator_for
from app.contract.validators.json import JsonSchemaValidator
from tests.validators import violations
from workers.validators.violation import MAX_VIOLATIONS, Violation

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from("aBc")
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("aBc"), inner),
    max_leaves=12,
)


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from("aBc"), inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": named,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "[A-Z]"]), inner),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "items": inner,
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "dependentSchemas": named,
        },
    )


SCHEMAS = st.recursive(
    st.booleans()
    | st.sampled_from([{"type": "string"}, {"pattern": "^[a-c]$"}, {"uniqueItems": True}])
    | st.sampled_from([{"minimum": 1}, {"enum": ["a", 1, None]}, {"required": ["a"]}])
    | st.sampled_from([{"const": [True]}, {"$ref": "#/$defs/n"}]),
    schemas,
    max_leaves=8,
)


def broken(schema: dict[str, Any] | bool, draft: str) -> list[Violation]:
    return violations(JsonSchemaValidator(kind="json_schema", schema=schema), draft)


@given(SCHEMAS, DOCUMENTS)
def test_agrees_with_the_reference_implementation(schema: Any, document: Any) -> None:
    whole = {"$ref": "#/$defs/s", "$defs": {"s": schema, "n": {"type": "number"}}}
    expected = Draft202012Validator(whole).is_valid(document)
    assert (broken(whole, json.dumps(document)) == []) is expected


@pytest.mark.parametrize(
    ("number", "of", "is_one"),
    [
        ("19.99", 0.01, True), ("0.3", 0.1, True), ("19.995", 0.01, False), ("1e300", 0.01, True),
        ("7", 2, False), ("true", 2, True),
    ],
)  # fmt: skip
def test_a_multiple_is_one_of_the_numbers_as_they_are_written(
    number: str, of: float, is_one: bool
) -> None:
    assert (broken({"multipleOf": of}, number) == []) is is_one


def test_points_at_what_breaks_the_schema() -> None:
    schema = {"properties": {"a/b": {"items": {"type": "integer"}}}}
    (found,) = broken(schema, '{"a/b": [1, "two"]}')
    assert found.message == 'at /a~1b/1: "two" is not of type "integer"'
    assert (found.span, found.quote) == ((12, 17), '"two"')


@pytest.mark.parametrize(
    ("schema", "message", "rule"),
    [
        ({"type": "number"}, 'null is not of type "number"', '`type: "number"`'),
        ({"const": True}, "true was expected", "`const: true`"),
        ({"enum": [True, "None"]}, 'null is not one of [true, "None"]', '`enum: [true, "None"]`'),
        (False, "false schema does not allow null", "`false`"),
    ],
)
def test_messages_have_the_words_of_json(schema: Any, message: str, rule: str) -> None:
    (found,) = broken(schema, "null")
    assert found.message == f"at the document: {message}"
    assert rule in (found.fix or "")


def test_the_document_may_stand_in_one_code_fence() -> None:
    draft = 'Here:\n\n```json\n{"a": 1}\n```'
    assert broken({"required": ["a"]}, draft.removeprefix("Here:")) == []
    assert len(broken({"required": ["a"]}, draft)) == 1


def test_a_draft_that_is_no_json_is_one_violation_with_line_and_column() -> None:
    (found,) = broken(True, '```\n{\n  "a": oops\n}\n```')
    assert "line 3, column 8" in found.message
    assert found.quote == "o"


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        ("NaN", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("1e999", "too large for a double"),
        ("1" * 5000, "4,300 digits"),
        ('"\\ud800"', "lone surrogate"),
        ("[" * 100_000, "levels deep"),
        ("[" * 101 + "]" * 101, "levels deep"),
    ],
)
def test_refuses_what_is_no_interoperable_json(draft: str, reason: str) -> None:
    (found,) = broken(True, draft)
    assert reason in found.message


def test_reports_only_the_first_violations() -> None:
    assert len(broken({"items": {"type": "string"}}, json.dumps([1] * 1000))) == MAX_VIOLATIONS


def test_a_message_stays_short_whatever_it_quotes() -> None:
    (found,) = broken({"type": "string"}, json.dumps(["long" * 100] * 1000))
    assert len(found.message) < 200


def test_an_older_dialect_is_honoured() -> None:
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}]}
    assert len(broken(draft_7, "[1]")) == 1


def test_a_nested_dialect_does_not_bring_backtracking_patterns_back() -> None:
    inner = {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "(a+)+$"}
    assert len(broken({"properties": {"a": inner}}, json.dumps({"a": "a" * 5000 + "!"}))) == 1


def test_a_schema_that_refers_to_itself_forever_is_a_violation() -> None:
    (found,) = broken({"$ref": "#"}, "1")
    assert "infinitely recursive" in found.message


def test_a_reference_is_never_fetched() -> None:
    (found,) = broken({"$ref": "http://127.0.0.1:9/schema"}, "1")
    assert "cannot be applied" in found.message


def test_format_is_an_annotation() -> None:
    assert broken({"format": "email"}, '"nobody"') == []


def test_jsonschema_has_the_private_names_that_its_references_are_followed_with() -> None:
    """What a later jsonschema renames is missing here; raise the bound in pyproject.toml after."""
    original = Draft202012Validator({})
    assert hasattr(original, "_resolver")
    assert hasattr(original, "_registry")
    assert "_resolver" in signature(Draft202012Validator).parameters
    validator = validator_for({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}})
    assert validator.evolve(schema={"$ref": "#/$defs/a"}).is_valid("text")


def test_jsonschema_has_the_private_names_that_the_contract_uses() -> None:
    schema: dict[str, Any] = {}
    missing = {"_resolver", "_registry"} - {*dir(validator_for(schema))}
    assert missing == set(), "app/contract/json_schemas.py reads what jsonschema has renamed"
