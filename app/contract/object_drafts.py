"""Drafts that are JSON objects: their one text, the schema of their form, and JSON Pointers.

Inside, such a draft is a text like any other: JSON with two spaces of indentation, in the order of
the object, a line for each member. So it is judged, scored and identified as one. As JSON, in
requests and records, it is the object.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import (
    Field,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from app.contract.drafts import LONGEST_TEXT, MAX_TEXT

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
    """Return the text of an object."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def object_in(text: str) -> dict[str, Any] | None:
    """Return the object that a text is the JSON of; None if it is not."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def canonical_text(text: str) -> str:
    """Return the same JSON object as the text that stands for it; another text as it is."""
    value = object_in(text)
    return text if value is None else object_text(value)


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


def lost_members(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Yield the JSON Pointers of members that an object had and has not; none within lists."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, held in before.items():
            pointer = f"{at}/{_escaped(name)}"
            if name in after:
                yield from lost_members(held, after[name], pointer)
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
