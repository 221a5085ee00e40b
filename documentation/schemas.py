"""JSON Schemas as Markdown: one table for an object, one phrase for a type."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

RANGES = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("maxProperties", "at most {} members"),
)


def fields_of(schema: Schema, page: str = "") -> Iterator[str]:
    """Yield the lines of a table of an object's fields.

    `page` is where the objects are that it refers to; empty: the same page.
    """
    properties: Mapping[str, Schema] = schema.get("properties", {})
    if not properties:
        return
    required = set(schema.get("required", ()))
    yield "| field | type | |"
    yield "|---|---|---|"
    for name, field in properties.items():
        yield f"| `{name}` | {cell(type_of(field, page))} | {cell(said(field, name in required))} |"
    yield ""


def said(field: Schema, is_required: bool) -> str:
    """Return what a field means, its default and its range."""
    parts = [str(field.get("description", "")).strip()]
    if is_required and "const" not in field:
        parts.append("Required.")
    elif field.get("default") not in (None, "", [], {}):
        parts.append(f"Default: `{json.dumps(field['default'])}`.")
    bounds = _bounds(field)
    limits = [phrase.format(number(bounds[it])) for it, phrase in RANGES if it in bounds]
    if limits:
        parts.append(f"{', '.join(limits).capitalize()}.")
    return " ".join(part for part in parts if part)


def _bounds(field: Schema) -> Schema:
    """Return where the range of a field stands: a field that may be null has it one level down."""
    kept = [it for it in field.get("anyOf", ()) if it.get("type") != "null"]
    return dict(kept[0]) if len(kept) == 1 and "$ref" not in kept[0] else field


def type_of(schema: Schema, page: str = "") -> str:
    """Return the type of a value in a few words, with links to the objects that it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}]({page}#{name.lower()})"
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values:
        return ", ".join(f"`{json.dumps(it)}`" for it in values)
    choices = schema.get("oneOf", schema.get("anyOf", ()))
    if choices:
        return " or ".join(dict.fromkeys(type_of(it, page) for it in choices))
    return _plain(schema, page)


def _plain(schema: Schema, page: str) -> str:
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}), page)}"
    if isinstance(members := schema.get("additionalProperties"), dict):
        return f"object of {type_of(members, page)}"
    return f"{kind} ({schema['format']})" if "format" in schema else kind


def number(value: float) -> str:
    """Return a limit with commas between thousands."""
    return f"{int(value):,}" if value == int(value) else str(value)


def cell(text: str) -> str:
    """Return a text on one line that breaks no table."""
    return " ".join(text.split()).replace("|", "\\|")
