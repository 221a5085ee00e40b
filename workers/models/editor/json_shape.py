"""JSON values that have the wrong shape: brought to a JSON Schema without losing or inventing any.

What is changed can be read back: a number written as text, one value where a list is due, a name or
an option that differs in case, spaces, hyphens or underscores alone. What is filled in is what the
schema itself prescribes by `const` or `default`. Anything else stays as it is.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

Schema = Any
"""A JSON Schema: an object, or a boolean."""

NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?")
DEEPEST = 64
TYPES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
WORDS = {"true": True, "false": False, "yes": True, "no": False, "null": None, "none": None}


def shaped(text: str, schemas: Sequence[Schema]) -> str:
    """Return a JSON document with its values in the shape of the schemas, or as it is.

    One that Python cannot hold without a loss, such as a name given twice, is left alone.
    """
    try:
        given = value = json.loads(text, object_pairs_hook=_object)
        for schema in schemas:
            value = _Shape(schema).of(value, schema)
        indent = 2 if "\n" in text else None
        written = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        is_new = json.dumps(value) != json.dumps(given)
    except (ValueError, RecursionError):
        return text
    return written if is_new else text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(made := dict(pairs)) < len(pairs):
        raise ValueError("a name is given twice")
    return made


class _Shape:
    """Applies one schema document; its local references are followed `DEEPEST` levels deep."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def of(self, value: Any, schema: Schema, depth: int = 0) -> Any:
        """Return the value in the shape of a schema, or as it is."""
        schema = self._resolved(schema)
        if schema is None or depth > DEEPEST:
            return value
        value = _of_type(_optional(value, schema), _types(schema))
        if isinstance(value, dict):
            return self._object(value, schema, depth)
        if isinstance(value, list):
            return [self.of(it, schema.get("items"), depth + 1) for it in value]
        return value

    def _object(self, value: dict[str, Any], schema: Mapping[str, Any], depth: int) -> Any:
        known = _mapping(schema.get("properties"))
        others = schema.get("additionalProperties")
        named = {_name(name, value, known): held for name, held in value.items()}
        shaped = {
            name: self.of(held, known.get(name, others), depth + 1) for name, held in named.items()
        }
        for name in schema.get("required") or ():
            rule = self._resolved(known.get(name)) or {}
            if name not in shaped and rule.keys() & {"const", "default"}:
                shaped[name] = rule.get("const", rule.get("default"))
        return shaped

    def _resolved(self, schema: Schema) -> Mapping[str, Any] | None:
        """Follow local references; None when there is nothing to go by."""
        for _ in range(DEEPEST):
            if not isinstance(schema, Mapping):
                return None
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            schema = self._at(reference) if reference.startswith("#") else None
        return None

    def _at(self, reference: str) -> Schema:
        found = self._root
        for part in reference.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


def _name(name: str, value: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return the one property of the schema that a name misspells and no other name has."""
    if name in known:
        return name
    meant = [it for it in known if _key(it) == _key(name) and it not in value]
    rivals = [it for it in value if it not in known and _key(it) == _key(name)]
    return meant[0] if len(meant) == len(rivals) == 1 else name


def _optional(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the one option of an `enum` or `const` that a text misspells."""
    options = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(value, str) or not isinstance(options, list) or value in options:
        return value
    meant = [it for it in options if isinstance(it, str) and _key(it) == _key(value)]
    return meant[0] if len(meant) == 1 else value


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)


def _of_type(value: Any, types: tuple[str, ...]) -> Any:
    """Return the value as one of the types when exactly one reading of it has one."""
    if not types or _type(value) in types or (_type(value) == "integer" and "number" in types):
        return value
    if isinstance(value, list) and len(value) == 1 and "array" not in types:
        inner = _of_type(value[0], types)
        return inner if _type(inner) in types or _type(inner) == "integer" else value
    if isinstance(value, str) and (read := _read(value, types)) is not value:
        return read
    if "array" in types and value is not None:
        return [value]
    if types == ("string",) and isinstance(value, bool | int | float):
        return json.dumps(value)
    return value


def _read(text: str, types: tuple[str, ...]) -> Any:
    """Return the number or word that a text spells, if it has one of the types, or the text."""
    bare = text.strip()
    word = WORDS.get(bare.lower(), text)
    if word is not text and _type(word) in types:
        return word
    if not NUMBER.fullmatch(bare):
        return text
    number = json.loads(re.sub(r"^\+|,", "", bare)) if _is_plain(bare) else text
    fits = _type(number) in types or (_type(number) == "integer" and "number" in types)
    return number if fits else text


def _is_plain(digits: str) -> bool:
    """Tell a number from a code such as 007, whose zeros mean something."""
    return not re.match(r"[+-]?0\d", digits)


def _type(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return TYPES[type(value)]


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
