"""What is wrong with a value, in a sentence that says what is allowed.

Pydantic finds it; its own words are about Python, and show regular expressions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from app.contract.patterns import IN_WORDS

Location = Sequence[int | str]
Context = Mapping[str, Any]

INVALID = "is not what the schema of this value allows"
"""Said of an error that has no words here; a test sees to it that the contract can have none."""

MOST_LISTED = 12
WRAPPED = "schema"  # the name that pydantic gives to what it checks inside of something

A_TIME = "must be a time with an offset, such as 2026-01-31T09:00:00Z"
A_DATE = "must be a date, such as 2026-01-31"
A_LIST = "must be a list"
AN_OBJECT = "must be an object"
WHOLE = "must be a whole number"

ONE_MODEL = (
    "must be one model: its name or an object with `model`; only `generator` takes a list, with"
    " `escalate`"
)

WRONG_TYPES = {
    "string_type": "must be a string",
    "string_unicode": "must be Unicode text",
    "string_sub_type": "must be a string",
    "int_type": WHOLE,
    "int_from_float": WHOLE,
    "int_parsing": WHOLE,
    "int_parsing_size": WHOLE,
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "none_required": "must be null",
    "byte_size": "must be a number of bytes, such as 512MB",
    "byte_size_unit": "must be a number of bytes, such as 512MB",
    "tuple_type": A_LIST,
    "list_type": A_LIST,
    "dict_type": AN_OBJECT,
    "model_type": AN_OBJECT,
    "model_attributes_type": AN_OBJECT,
    "is_instance_of": "must be a string",  # a secret is one, as JSON
    "datetime_type": A_TIME,
    "datetime_parsing": A_TIME,
    "datetime_from_date_parsing": A_TIME,
    "datetime_object_invalid": A_TIME,
    "timezone_aware": A_TIME,
    "timezone_naive": A_TIME,
    "date_type": A_DATE,
    "date_parsing": A_DATE,
    "date_from_datetime_parsing": A_DATE,
    "date_from_datetime_inexact": A_DATE,
}


def suggested(name: str, known: Iterable[str]) -> str:
    """Return the beginning of a sentence about what a misspelt name may stand for, or nothing."""
    close = get_close_matches(name.lower()[:100], [*known], n=1, cutoff=0.7)
    return f"; did you mean `{close[0]}`?" if close else ""


def _unknown_tag(context: Context) -> str:
    known = [name.strip("' ") for name in str(context["expected_tags"]).split(",")]
    field, tag = _quoted(context["discriminator"]), str(context["tag"])[:100]
    if close := suggested(tag, known):
        return f"the {field} {tag!r} is unknown{close}"
    return f"the {field} must be one of {', '.join(f'`{name}`' for name in known)}"


def _quoted(names: str) -> str:
    return names.replace("'", "`")


OUT_OF_BOUNDS: Mapping[str, Callable[[Context], str]] = {
    "missing": lambda _: "is required",
    "greater_than": lambda context: f"must be greater than {_number(context['gt'])}",
    "greater_than_equal": lambda context: f"must be at least {_number(context['ge'])}",
    "less_than": lambda context: f"must be less than {_number(context['lt'])}",
    "less_than_equal": lambda context: f"must be at most {_number(context['le'])}",
    "string_too_short": lambda context: _at_least(context["min_length"], "character"),
    "string_too_long": lambda context: _at_most(context["max_length"], "character"),
    "too_short": lambda context: _at_least(context["min_length"], _items(context)),
    "too_long": lambda context: _at_most(context["max_length"], _items(context)),
    "string_pattern_mismatch": lambda context: IN_WORDS.get(context["pattern"], INVALID),
    "literal_error": lambda context: f"must be {context['expected'].replace(chr(39), '`')}",
    "enum": lambda context: f"must be {context['expected'].replace(chr(39), '`')}",
    "union_tag_not_found": lambda context: (
        f"must have the field {_quoted(context['discriminator'])}"
    ),
    "union_tag_invalid": _unknown_tag,
    "one_model": lambda _: ONE_MODEL,
    "value_error": lambda context: str(context["error"]),
}


def sentence_of(error: ErrorDetails, contract: type[BaseModel] | None = None) -> str:
    """Return what is wrong at the location of an error, and what is allowed there.

    With the contract that was validated, it names the fields that a misspelt one may stand for.
    """
    kind, loc = error["type"], error["loc"]
    if kind == "extra_forbidden":
        return _unknown_field(str(loc[-1]), fields_at(contract, loc[:-1]) if contract else ())
    if kind in WRONG_TYPES:
        said = WRONG_TYPES[kind]
    else:
        in_words = OUT_OF_BOUNDS.get(kind)
        said = in_words(error.get("ctx", {})) if in_words else INVALID
    return f"the name {said}" if loc[-1:] == ("[key]",) else said


def is_of_type(error: ErrorDetails) -> bool:
    """Return whether a value is of another type than this branch of a union allows."""
    return error["type"] in {*WRONG_TYPES, "literal_error", "enum"}


def in_one(sentences: Iterable[str]) -> str:
    """Return one sentence for what the branches of a union allow instead of the same value."""
    said = [*dict.fromkeys(sentences)]
    if WHOLE in said and WRONG_TYPES["float_type"] in said:
        said.remove(WHOLE)
    if len(said) > 1 and all(sentence.startswith("must be ") for sentence in said):
        *first, last = (sentence.removeprefix("must be ") for sentence in said)
        return f"must be {', '.join(first)} or {last}"
    return "; ".join(said)


def fields_at(contract: type[BaseModel], loc: Location) -> frozenset[str]:
    """Return the names of the fields that the object at a location may have."""
    schema: Any = contract.__pydantic_core_schema__
    definitions: dict[str, Any] = {}
    if schema["type"] == "definitions":
        definitions = {definition["ref"]: definition for definition in schema["definitions"]}
        schema = schema["schema"]
    return frozenset(_fields(schema, loc, definitions))


def _fields(schema: Any, loc: Location, definitions: Mapping[str, Any]) -> Iterator[str]:
    kind = schema["type"]
    if kind == "definition-ref":
        yield from _fields(definitions[schema["schema_ref"]], loc, definitions)
    elif kind == "model-fields":
        named = {
            field.get("validation_alias", name): field for name, field in schema["fields"].items()
        }
        if not loc:
            yield from named
        elif loc[0] in named:
            yield from _fields(named[str(loc[0])][WRAPPED], loc[1:], definitions)
    elif kind == "tagged-union":
        if loc and loc[0] in schema["choices"]:
            yield from _fields(schema["choices"][loc[0]], loc[1:], definitions)
    elif kind == "union":
        for choice in schema["choices"]:  # the location names the branch in pydantic's own words
            branch = choice[0] if isinstance(choice, tuple) else choice
            yield from _fields(branch, loc[1:], definitions)
    elif kind in ("tuple", "dict"):
        inner = schema["items_schema"][0] if kind == "tuple" else schema["values_schema"]
        yield from _fields(inner, loc[1:], definitions) if loc else ()
    elif WRAPPED in schema:
        yield from _fields(schema[WRAPPED], loc, definitions)


def _unknown_field(name: str, known: Iterable[str]) -> str:
    fields = sorted(known)
    if close := suggested(name, fields):
        return f"is not a field{close}"
    if 0 < len(fields) <= MOST_LISTED:
        return f"is not a field; the fields here are {', '.join(f'`{field}`' for field in fields)}"
    return "is not a field"


def _number(bound: Any) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)


def _items(context: Context) -> str:
    return "member" if context.get("field_type") == "Dictionary" else "item"


def _at_least(number: int, what: str) -> str:
    return "must not be empty" if number == 1 else f"must have at least {number} {what}s"


def _at_most(number: int, what: str) -> str:
    return f"must have at most {number} {what}{'' if number == 1 else 's'}"
