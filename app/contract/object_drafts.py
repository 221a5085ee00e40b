"""Drafts that are JSON objects: their one text, the schema of their form, and JSON Pointers.

Inside, such a draft is a text like any other: JSON with two spaces of indentation, in the order of
the object, a line for each member. So it is judged, scored and identified as one. As JSON, in
requests and records, it is the object.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, cast

from jsonschema import ValidationError
from jsonschema.exceptions import best_match
from pydantic import (
    Field,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from app.contract.drafts import LONGEST_TEXT, MAX_TEXT
from app.contract.json_schemas import JsonSchema, validator_for

DEEPEST = 20
"""Objects and lists within each other at most."""

A_SCALAR = {"type": ["string", "number", "boolean", "null"]}
"""The form of a member that was null: its type is not known."""


class ObjectText(str):
    """The text of a draft that was given as an object."""

    __slots__ = ()

    @property
    def value(self) -> dict[str, Any]:
        """The object."""
        found: dict[str, Any] = json.loads(self)
        return found


def object_text(value: Mapping[str, Any]) -> str:
    """Return the text of an object. Raises ValueError for a number that JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)


class _Digits(str):
    """A number that would be another one once it is read and written."""

    __slots__ = ()


class _Repeating(dict[str, Any]):
    """An object that has `name` more than once."""

    name = ""


def _number(digits: str) -> float | int | _Digits:
    """Return a number whose value is that of the shortest digits of its double."""
    number = float(digits)
    try:
        is_kept = math.isfinite(number) and Decimal(digits) == Decimal(repr(number))
    except InvalidOperation:  # its exponent is beyond all bounds
        is_kept = False
    if not is_kept:
        return _Digits(digits)
    return number if {*digits} & {*".eE"} else int(digits)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        found = _Repeating(found)
        found.name, _ = Counter(name for name, _ in pairs).most_common(1)[0]
    return found


_MARKING = json.JSONDecoder(
    parse_float=_number, parse_int=_number, parse_constant=_Digits, object_pairs_hook=_members
)
"""Marks in what it reads what would be another value once it is written."""


def _flaws(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield the JSON Pointer of what is not kept exactly, and why."""
    if isinstance(value, _Digits):
        yield at, f"the number {value[:40]} is not kept exactly: write it as a string"
    elif isinstance(value, str) and not _is_unicode(value):
        yield at, "it has half a surrogate pair, which is no character"
    elif isinstance(value, dict):
        if isinstance(value, _Repeating) and _is_unicode(value.name):
            yield f"{at}/{_escaped(value.name)}", "the object has this name twice: keep one"
        for name, held in value.items():
            if _is_unicode(name):
                yield from _flaws(held, f"{at}/{_escaped(name)}")
            else:
                yield at, "a name has half a surrogate pair, which is no character"
    elif isinstance(value, list):
        for index, held in enumerate(value):
            yield from _flaws(held, f"{at}/{index}")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def flaws_of_draft(body: str, at: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield what is not kept exactly of the `draft` of a request in JSON: pointer and why.

    `at` are the names of the members that the request stands in. Raises ValueError if it is no
    JSON.
    """
    found = _MARKING.decode(body)
    for name in (*at, "draft"):
        found = found[name]
    yield from _flaws(found, "".join(f"/{name}" for name in (*at, "draft")))


def read_object(text: str) -> dict[str, Any]:
    """Return the object that a text is the JSON of.

    Raises ValueError, which says why, unless it is kept exactly: each name once in an object,
    numbers that a double holds, and Unicode text.
    """
    try:
        value = _MARKING.decode(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ValueError("it is not one JSON object")  # noqa: TRY004 - a type of JSON
    if _depth(value) > DEEPEST:
        raise ValueError(f"the object is more than {DEEPEST} levels deep")
    for pointer, flaw in _flaws(value):
        raise ValueError(f"at {pointer}: {flaw}" if pointer else flaw)
    return value


def object_in(text: str) -> dict[str, Any] | None:
    """Return the object that a text is the JSON of; None if it is not, or is not kept exactly."""
    try:
        return read_object(text)
    except ValueError:
        return None


def revised_object(text: str, before: str) -> str:
    """Return the text of an object with the members that the one before it has, in their order.

    Raises ValueError, which says why, for a text that is no such object.
    """
    value, known = read_object(text), object_in(before)
    if known is not None and (lost := next(_lost(known, value), None)):
        raise ValueError(f"the object lacks the member {lost}")
    return object_text(_in_order_of(known, value))


def replacing_object(text: str, before: str, form: JsonSchema | None) -> str:
    """Return the text of an object that a person gives in place of another one.

    Raises ValueError, which says what to change, unless it has all members of that and, if there is
    one, satisfies the schema of the form.
    """
    written = revised_object(text, before)
    if len(written) > MAX_TEXT:
        raise ValueError(f"its text, a line for each member, is longer than {MAX_TEXT} characters")
    if form is not None and (error := best_match(validator_for(form).iter_errors(object_in(text)))):
        where = "".join(f"/{_escaped(str(part))}" for part in error.absolute_path)
        raise ValueError(f"{where or 'the object'} {_demanded(error)}")
    return written


def _demanded(error: ValidationError) -> str:
    """Return what a keyword of a form made by `schema_of` demands."""
    said = json.dumps(error.validator_value, ensure_ascii=False)[:200]
    match error.validator:
        case "type":
            return f"must be of the type {said.replace('[', '').replace(']', '')}"
        case "const":
            return f"is locked and must stay {said}"
        case "additionalProperties":
            value, schema = cast("Any", (error.instance, error.schema))
            new = next(name for name in value if name not in schema["properties"])
            return f"has the member {new[:100]!r}, which the draft has not"
    return f"must satisfy `{error.validator}: {said}`"


def _in_order_of(before: Any, value: Any) -> Any:
    """Return a value with its members in the order of another one; new members are the last."""
    if isinstance(value, dict):
        known = before if isinstance(before, dict) else {}
        names = dict.fromkeys((*(name for name in known if name in value), *value))
        return {name: _in_order_of(known.get(name), value[name]) for name in names}
    if isinstance(value, list):
        items = before if isinstance(before, list) and before else [None]
        last = len(items) - 1
        return [_in_order_of(items[min(at, last)], each) for at, each in enumerate(value)]
    return value


def _validated(given: Any, as_text: ValidatorFunctionWrapHandler) -> str:
    if not isinstance(given, str | dict):
        raise ValueError("must be a string or an object")  # noqa: TRY004 - pydantic's
    if isinstance(given, str):
        text: str = as_text(given)
        return given if isinstance(given, ObjectText) else text
    if not given:
        raise ValueError("an object needs at least one member")
    if _depth(given) > DEEPEST:
        raise ValueError(f"an object may be at most {DEEPEST} levels deep")
    text = ObjectText(as_text(object_text(given)))
    if len(text) > MAX_TEXT:
        raise ValueError(f"an object must have at most {MAX_TEXT} characters of JSON")
    return text


def _given(text: str) -> Any:
    return text.value if isinstance(text, ObjectText) else text


def _depth(value: Any) -> int:
    deepest, level = 0, [value]
    while level and deepest <= DEEPEST:
        deepest += 1
        held = [each for each in level if isinstance(each, dict | list)]
        level = [
            inner
            for each in held
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
    return deepest


TextOrObject = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_TEXT),
    WrapValidator(_validated),
    PlainSerializer(_given),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT},
                {"type": "object", "minProperties": 1, "additionalProperties": True},
            ]
        }
    ),
]
"""A text, or a JSON object, whose text counts."""


def schema_of(value: Any, fixed: Sequence[str] = (), at: str = "") -> dict[str, Any]:
    """Return the JSON Schema of the form of a value: the same members of the same types.

    What stands at the JSON Pointers `fixed` stays as it is.
    """
    if at in fixed:
        return {"const": value}
    if isinstance(value, dict):
        members = {
            name: schema_of(held, fixed, f"{at}/{_escaped(name)}") for name, held in value.items()
        }
        return {
            "type": "object",
            "properties": members,
            "required": list(members),
            "additionalProperties": False,
        }
    if isinstance(value, list):
        return _schema_of_list(value, fixed, at)
    if value is None:
        return A_SCALAR
    kinds = {bool: "boolean", str: "string"}
    return {"type": kinds.get(type(value), "number")}


def may_be_object(schema: JsonSchema) -> bool:
    """Return whether the type, the constant or the values of a schema leave room for an object."""
    if isinstance(schema, bool):
        return schema
    types, values = schema.get("type", "object"), schema.get("enum", [{}])
    is_one = isinstance(schema.get("const", {}), dict) and any(map(_is_object, values))
    return is_one and "object" in ([types] if isinstance(types, str) else types)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _schema_of_list(value: list[Any], fixed: Sequence[str], at: str) -> dict[str, Any]:
    """Return the schema of a list: of any length, unless something in it is fixed."""
    within = [pointer for pointer in fixed if pointer.startswith(f"{at}/")]
    if within:
        parts = [schema_of(held, within, f"{at}/{index}") for index, held in enumerate(value)]
        size = {"minItems": len(parts), "maxItems": len(parts)}
        return {"type": "array", "prefixItems": parts, "items": False, **size}
    forms = [schema_of(held) for held in value] or [A_SCALAR]
    once = [form for index, form in enumerate(forms) if form not in forms[:index]]
    return {"type": "array", "items": once[0] if len(once) == 1 else {"anyOf": once}}


def member_at(value: Any, pointer: str) -> bool:
    """Return whether something stands at a JSON Pointer (RFC 6901)."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return False
    return pointer.startswith("/")


def _lost(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Yield the JSON Pointers of members that an object had and has not; none within lists."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, held in before.items():
            pointer = f"{at}/{_escaped(name)}"
            if name in after:
                yield from _lost(held, after[name], pointer)
            else:
                yield pointer


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def pointer_at(text: str, position: int) -> str | None:
    """Return the JSON Pointer of the innermost member at a position of the text of an object.

    None outside of all members, and for another text.
    """
    value = object_in(text)
    if value is None or object_text(value) != text:
        return None
    before = [pointer for start, pointer in _places(value, "", 0, 1) if start <= position]
    return before[-1] if before else None


def _places(value: Any, pointer: str, start: int, level: int) -> Iterator[tuple[int, str]]:
    """Yield where each member begins in the text of a value that begins at `start`, in order."""
    is_object = isinstance(value, dict)
    members = value.items() if is_object else enumerate(value) if isinstance(value, list) else ()
    at = start + 1
    for name, held in members:
        at += 1 + 2 * level
        below = f"{pointer}/{_escaped(str(name))}"
        yield at, below
        at += len(f"{json.dumps(name, ensure_ascii=False)}: ") if is_object else 0
        yield from _places(held, below, at, level + 1)
        written = json.dumps(held, ensure_ascii=False, indent=2)
        at += len(written) + 2 * level * written.count("\n") + 1
