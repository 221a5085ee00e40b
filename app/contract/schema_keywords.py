"""The keywords of JSON Schema that run differently here than in jsonschema: on RE2, in linear time.

Each has the signature that jsonschema asks of a keyword: validator, value, instance, schema.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from jsonschema import ValidationError
from referencing.jsonschema import lookup_recursive_ref

from app.contract.regexes import compile_pattern

Errors = Iterator[ValidationError]
Keyword = Callable[[Any, Any, Any, Any], Errors]


def pattern(validator: Any, value: str, instance: Any, schema: Any) -> Errors:
    """The pattern matches somewhere in the string."""
    if validator.is_type(instance, "string") and not _found(value, instance):
        yield ValidationError(f"{instance!r} does not match {value!r}")


def pattern_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    """Every property whose name matches a pattern satisfies its schema."""
    if not validator.is_type(instance, "object"):
        return
    for each, subschema in value.items():
        for name, held in instance.items():
            if _found(each, name):
                yield from validator.descend(held, subschema, path=name, schema_path=each)


def additional_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    """Every property that no other keyword names satisfies the schema."""
    if not validator.is_type(instance, "object"):
        return
    named = _named(instance, schema)
    extra = [name for name in instance if name not in named]
    if value is False and extra:
        yield _unexpected("Additional properties", extra)
    elif value is not False:
        for name in extra:
            yield from validator.descend(instance[name], value, path=name)


def unevaluated_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    """Every property that nothing else evaluated satisfies the schema."""
    if not validator.is_type(instance, "object"):
        return
    evaluated = _evaluated(validator, instance, schema)
    if extra := [name for name in instance if name not in evaluated]:
        yield _unexpected("Unevaluated properties", extra)


def unique_items(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    """No item occurs twice; 1 and 1.0 are the same item, 1 and true are not."""
    if not value or not validator.is_type(instance, "array"):
        return
    if len({_hashable(item) for item in instance}) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


REPLACED: Mapping[str, Keyword] = {
    "pattern": pattern,
    "patternProperties": pattern_properties,
    "additionalProperties": additional_properties,
    "unevaluatedProperties": unevaluated_properties,
    "uniqueItems": unique_items,
}


def _found(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).search(text) is not None


def _unexpected(what: str, names: list[str]) -> ValidationError:
    verb = "was" if len(names) == 1 else "were"
    listed = ", ".join(map(repr, names))
    return ValidationError(f"{what} are not allowed ({listed} {verb} unexpected)")


def _hashable(item: Any) -> Hashable:
    match item:
        case bool():
            return ("bool", item)
        case list():
            return ("array", tuple(_hashable(each) for each in item))
        case dict():
            return ("object", frozenset((name, _hashable(held)) for name, held in item.items()))
        case _:
            return item  # type: ignore[no-any-return]


def _named(instance: Any, schema: Any) -> set[str]:
    named = set(instance) & set(schema.get("properties", {}))
    patterns = schema.get("patternProperties", {})
    return named | {name for name in instance for each in patterns if _found(each, name)}


def _evaluated(validator: Any, instance: Any, schema: Any) -> set[str]:
    """Return the properties that some keyword of the schema evaluated (2020-12, section 11.3)."""
    if isinstance(schema, bool):
        return set()
    names = _named(instance, schema)
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in schema:
            names |= {
                name
                for name, held in instance.items()
                if _is_valid(validator, held, schema[keyword])
            }
    for subschema in _in_place(validator, instance, schema):
        names |= _evaluated(validator, instance, subschema)
    for resolved in _references(validator, schema):
        there = validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
        names |= _evaluated(there, instance, resolved.contents)
    return names


def _in_place(validator: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """The subschemas that this instance satisfies, or that are asserted of it anyway."""
    for name, subschema in schema.get("dependentSchemas", {}).items():
        if name in instance:
            yield subschema
    for keyword in ("allOf", "anyOf", "oneOf"):
        for subschema in schema.get(keyword, ()):
            if _is_valid(validator, instance, subschema):
                yield subschema
    if "if" in schema:
        holds = _is_valid(validator, instance, schema["if"])
        if holds:
            yield schema["if"]
        yield schema.get("then" if holds else "else", True)


def _references(validator: Any, schema: Any) -> Iterator[Any]:
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            yield validator._resolver.lookup(schema[keyword])
    if "$recursiveRef" in schema:
        yield lookup_recursive_ref(validator._resolver)


def _is_valid(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None
