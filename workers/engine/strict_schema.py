"""A client's JSON Schema as the format of a reply: the same demands, in what all servers accept.

The subset is what OpenAI's strict mode, vLLM, Ollama and llama.cpp have in common: objects whose
members are all required and no others allowed, arrays, scalars, enumerations, and alternatives.
https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

MOST_LEVELS = 10
"""Objects and arrays within each other, as OpenAI allows."""

MOST_PARTS = 1_000
"""Schemas and values of enumerations, once references are replaced by what they refer to."""

SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
SIZES = frozenset({"minItems", "maxItems"})
KEYWORDS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(SCALARS, frozenset()),
    **dict.fromkeys(("number", "integer"), BOUNDS),
    "array": SIZES | {"items"},
    "object": frozenset({"properties", "required", "additionalProperties"}),
}
"""Types, and the keywords of the subset that apply to each; to other types they do not matter."""

DEMANDING = frozenset({"type"}).union(*KEYWORDS.values())
WITHOUT_EFFECT = frozenset(
    {"$comment", "$defs", "definitions", "title", "default", "examples", "deprecated"}
    | {"readOnly", "writeOnly"}
)
OF_ROOT = frozenset({"$schema", "$id", "id"})


class _Outside(Exception):
    """The schema demands what the subset cannot say."""


def strict(schema: Mapping[str, Any] | bool) -> dict[str, object] | None:
    """Return a schema of the subset that the same documents satisfy, all of them objects.

    Returns None if there is none, or if it is not certain.
    """
    try:
        found = _Rewriter(schema).part(_without(schema, OF_ROOT), 0, ())
    except _Outside:
        return None
    return found if found.get("type") == "object" else None


def unbounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of the subset without bounds on numbers and on the length of lists."""
    found: dict[str, Any] = {}
    for name, given in schema.items():
        if name == "properties":
            found[name] = {member: unbounded(part) for member, part in given.items()}
        elif name == "items":
            found[name] = unbounded(given)
        elif name == "anyOf":
            found[name] = [unbounded(part) for part in given]
        elif name not in BOUNDS | SIZES:
            found[name] = given
    return found


def _without(schema: object, names: frozenset[str]) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise _Outside
    return {name: member for name, member in schema.items() if name not in names}


class _Rewriter:
    """Rewrites a schema; `root` is where references point into."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._left = MOST_PARTS

    def part(self, schema: object, level: int, within: tuple[str, ...]) -> dict[str, object]:
        """Return one part of the schema; `within` are the references that it is the target of."""
        self._count(1)
        demands = _without(schema, WITHOUT_EFFECT)
        description = demands.pop("description", None)
        found = self._rewritten(demands, level, within)
        return {**found, "description": description} if isinstance(description, str) else found

    def _count(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise _Outside

    def _rewritten(
        self, schema: dict[str, Any], level: int, within: tuple[str, ...]
    ) -> dict[str, object]:
        match schema:
            case {"$ref": str() as reference} if len(schema) == 1 and reference not in within:
                return self.part(self._target(reference), level, (*within, reference))
            case {"allOf": [only]} if len(schema) == 1:
                return self.part(only, level, within)
            case {"anyOf": [_, *_] as ways} | {"oneOf": [_, *_] as ways} if len(schema) == 1:
                found = [self.part(way, level, within) for way in ways]
                return _alternatives(found, may_overlap="anyOf" in schema)
            case {"const": _} | {"enum": [_, *_]} if len(schema.keys() - {"type"}) == 1:
                return self._enumerated(schema)
            case {"type": _} if schema.keys() <= DEMANDING:
                found = [self._of_type(kind, schema, level, within) for kind in _kinds(schema)]
                return found[0] if len(found) == 1 else {"anyOf": found}
        raise _Outside

    def _target(self, reference: str) -> object:
        """Return what a JSON Pointer refers to. Other references are outside of the subset."""
        root, *names = reference.split("/")
        found = self._root
        if root != "#" or "%" in reference:
            raise _Outside
        for name in (part.replace("~1", "/").replace("~0", "~") for part in names):
            if not isinstance(found, Mapping) or name not in found:
                raise _Outside
            found = found[name]
        return found

    def _enumerated(self, schema: Mapping[str, Any]) -> dict[str, object]:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        self._count(len(values))
        allowed = set(_kinds(schema)) if "type" in schema else SCALARS
        allowed |= {"integer"} if "number" in allowed else set()
        fitting = [allowed_value for allowed_value in values if _kind(allowed_value) in allowed]
        kinds = sorted({_kind(allowed_value) for allowed_value in fitting})
        if not kinds:
            raise _Outside
        return {"type": kinds if len(kinds) > 1 else kinds[0], "enum": fitting}

    def _of_type(
        self, kind: str, schema: Mapping[str, Any], level: int, within: tuple[str, ...]
    ) -> dict[str, object]:
        if kind in SCALARS:
            return {"type": kind, **_numbers(schema, KEYWORDS[kind], int | float)}
        if level == MOST_LEVELS:
            raise _Outside
        if kind == "array":
            items = self.part(schema.get("items"), level + 1, within)
            return {"type": kind, "items": items, **_numbers(schema, SIZES, int)}
        members, required = schema.get("properties", {}), schema.get("required", [])
        is_closed = schema.get("additionalProperties") is False
        if not (is_closed and isinstance(members, Mapping) and set(members) == set(required)):
            raise _Outside
        return {
            "type": kind,
            "properties": {
                name: self.part(member, level + 1, within) for name, member in members.items()
            },
            "required": list(members),
            "additionalProperties": False,
        }


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    said = schema["type"]
    kinds = [said] if isinstance(said, str) else said
    if not kinds or not KEYWORDS.keys() >= set(kinds):
        raise _Outside
    return list(kinds)


def _numbers(
    schema: Mapping[str, Any], names: frozenset[str], allowed: Any
) -> dict[str, int | float]:
    found = {name: schema[name] for name in sorted(names) if name in schema}
    if any(
        isinstance(member, bool) or not isinstance(member, allowed) for member in found.values()
    ):
        raise _Outside  # a boolean `exclusiveMinimum` is draft 4
    return found


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float() if math.isfinite(value):
            return "integer" if value.is_integer() else "number"
    raise _Outside


def _alternatives(found: Sequence[dict[str, Any]], *, may_overlap: bool) -> dict[str, object]:
    """Return a schema of alternatives; `oneOf` is certain to be `anyOf` if no two share a type."""
    pairs = combinations(map(_types, found), 2)
    if not may_overlap and any(one & other for one, other in pairs):
        raise _Outside
    return {"anyOf": list(found)}


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a rewritten schema allows; a whole number is a number."""
    if "anyOf" in schema:
        return set().union(*map(_types, schema["anyOf"]))
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {"number" if kind == "integer" else kind for kind in kinds}
