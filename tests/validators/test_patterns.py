"""What is wrong with patterns and schemas is said before anything runs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.json_schemas import MAX_VALUES
from app.contract.tools import Tool
from app.contract.validators.json import JsonSchemaValidator
from app.contract.validators.text import LengthValidator, RegexValidator
from app.service.admission import MAX_ERRORS, check_validators

KEYWORDS = st.sampled_from(["$ref", "$id", "$schema", "type", "pattern", "allOf", "items", "$defs"])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=3),
    max_leaves=8,
)


def schema(value: Any) -> JsonSchemaValidator:
    return JsonSchemaValidator(kind="json_schema", schema=value)


def placed(*validators: Any) -> list[tuple[str, Any]]:
    return [(f"/validators/{index}", it) for index, it in enumerate(validators)]


def pointers(*validators: Any) -> list[str]:
    return [error.pointer for error in check_validators(placed(*validators))]


def test_points_at_each_mistake() -> None:
    found = pointers(
        LengthValidator(kind="length", max_words=3),
        RegexValidator(kind="regex", pattern="("),
        schema({"properties": {"a/b": {"pattern": "(?=x)", "type": "text"}}}),
    )
    assert sorted(found) == [
        "/validators/1/pattern",
        "/validators/2/schema/properties/a~1b/pattern",
        "/validators/2/schema/properties/a~1b/type",
    ]


def test_points_at_a_mistake_in_the_parameters_of_a_tool() -> None:
    tool = Tool(name="a", description="b", url="https://e.com", parameters={"type": "text"})
    (error,) = check_validators((), [tool])
    assert error.pointer == "/tools/0/parameters/type"


def test_validators_and_tools_have_so_many_values_together() -> None:
    half = {"enum": list(range(MAX_VALUES * 2 // 3))}
    tool = Tool(name="a", description="b", url="https://e.com", parameters=half)
    assert check_validators((), [tool]) == ()
    (error,) = check_validators(placed(schema(half)), [tool])
    assert error.pointer == "/tools/0/parameters"


@pytest.mark.parametrize(
    "value",
    [
        True,
        {},
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"$id": "http://e/x", "$ref": "http://e/b#q", "$defs": {"a": {"$id": "b", "$anchor": "q"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}]},
        {"const": {"$ref": "nowhere"}},
        {"properties": {"$ref": {"type": "string"}, "pattern": {"type": "string"}}},
    ],
)
def test_accepts_a_schema(value: Any) -> None:
    assert pointers(schema(value)) == []


@pytest.mark.parametrize(
    "value",
    [
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "#/$defs/missing"},
        {"items": {"$ref": "#nowhere"}},
        {"$schema": "https://example.com/dialect"},
        {"$schema": "http://json-schema.org/draft-03/schema#"},
        {"$id": "http://[bad"},
        {"patternProperties": {"(?<!x)": {}}},
        {"maximum": float("inf")},
        {"enum": [[]] * 5000},
        {"allOf": [{"const": [[[[[[[[[[[]]]]]]]]]]]}] * 500},
    ],
)
def test_refuses_a_schema(value: Any) -> None:
    assert len(pointers(schema(value))) == 1


def test_the_schemas_of_a_request_share_one_limit() -> None:
    assert pointers(*[schema({"enum": list(range(3000))})] * 2) == ["/validators/1/schema"]


def test_says_only_the_first_errors() -> None:
    assert len(pointers(schema({"allOf": [{"type": "text"}] * 50}))) == MAX_ERRORS


@given(st.booleans() | st.dictionaries(KEYWORDS, JSON, max_size=4))
def test_never_fails_whatever_the_schema(value: Any) -> None:
    check_validators(placed(schema(value)))


def test_what_would_begin_after_its_time_is_an_error() -> None:
    (error,) = check_validators(placed(schema({"type": "object"})), cpu_s=-1)
    assert (error.pointer, "seconds to compile" in error.detail) == ("/validators", True)
