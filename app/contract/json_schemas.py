"""JSON Schema by jsonschema, with some keywords replaced: patterns by RE2, all in linear time.

A keyword has the signature that jsonschema requires: validator, value, instance, schema.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema import FormatChecker, ValidationError, validators
from referencing.exceptions import Unresolvable
from referencing.jsonschema import (
    EMPTY_REGISTRY,
    UnknownDialect,
    lookup_recursive_ref,
    specification_with,
)

from app.contract.regexes import PatternError, compile_pattern

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


def multiple_of(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    """The number is a multiple, both as they are written: in doubles 19.99 is none of 0.01."""
    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(value)):
        yield ValidationError(f"{instance!r} is not a multiple of {value!r}")


REPLACED: Mapping[str, Keyword] = {
    "pattern": pattern,
    "patternProperties": pattern_properties,
    "additionalProperties": additional_properties,
    "unevaluatedProperties": unevaluated_properties,
    "uniqueItems": unique_items,
    "multipleOf": multiple_of,
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
    for resolved in _schema_references(validator, schema):
        there = validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
        names |= _evaluated(there, instance, resolved.contents)
    return names


def _in_place(validator: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Yield the subschemas that this instance satisfies, or that apply to it in any case."""
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


def _schema_references(validator: Any, schema: Any) -> Iterator[Any]:
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            yield validator._resolver.lookup(schema[keyword])
    if "$recursiveRef" in schema:
        yield lookup_recursive_ref(validator._resolver)


def _is_valid(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


MAX_VALUES = 5_000
MAX_DEPTH = 64
MAX_ERRORS = 10
DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": validators.Draft202012Validator,
    "https://json-schema.org/draft/2019-09/schema": validators.Draft201909Validator,
    "http://json-schema.org/draft-07/schema": validators.Draft7Validator,
    "http://json-schema.org/draft-06/schema": validators.Draft6Validator,
    "http://json-schema.org/draft-04/schema": validators.Draft4Validator,
}
LATEST = next(iter(DIALECTS))

JsonSchema = dict[str, Any] | bool
Error = tuple[tuple[str | int, ...], str]
"""The path of an error in the schema, and its message."""


class SchemaError(ValueError):
    """The schema cannot be used; the message says why."""


def schema_errors(
    schema: JsonSchema, max_values: int = MAX_VALUES
) -> tuple[tuple[Error, ...], int]:
    """Return the errors in a schema, at most `MAX_ERRORS`, and the number of its values.

    A valid schema has at most `max_values` values, `MAX_DEPTH` levels and no infinity, names a
    supported dialect, satisfies its meta-schema, has patterns in RE2 syntax, and contains
    everything that it refers to.
    """
    try:
        size = _measured(schema, max_values)
    except SchemaError as error:
        return (((), str(error)),), 0
    try:
        errors = tuple(islice(_against_meta_schema(schema), MAX_ERRORS))
        return errors or tuple(islice(_dead_references(schema), 1)), size
    except (ValueError, UnknownDialect) as error:
        return (((), f"the schema is invalid: {error}"),), size
    except RecursionError:
        return (((), "the schema is nested too deeply"),), size


def validator_for(schema: JsonSchema) -> Any:
    """Return a jsonschema validator of the schema's dialect. Raises `SchemaError`."""
    return _dialect(_dialect_of(schema))(schema, registry=EMPTY_REGISTRY)


def _dialect_of(schema: JsonSchema) -> str:
    named = LATEST if isinstance(schema, bool) else schema.get("$schema", LATEST)
    uri = named.removesuffix("#") if isinstance(named, str) else ""
    if uri not in DIALECTS:
        raise SchemaError(f"unknown dialect in $schema; supported are {', '.join(DIALECTS)}")
    return uri


@lru_cache
def _dialect(uri: str) -> Any:
    dialect = validators.extend(DIALECTS[uri], REPLACED)  # type: ignore[no-untyped-call]
    dialect.evolve = _evolve
    return dialect


def _evolve(validator: Any, **changes: Any) -> Any:
    """Keep the class: jsonschema's own `evolve` changes it to that of a nested `$schema`."""
    return type(validator)(
        schema=changes.get("schema", validator.schema),
        format_checker=validator.format_checker,
        registry=validator._registry,
        _resolver=changes.get("_resolver", validator._resolver),
    )


def _measured(schema: Any, max_values: int) -> int:
    values, level = 0, [schema]
    for _ in range(MAX_DEPTH):
        values += len(level)
        if values > max_values:
            raise SchemaError(
                f"the schemas of a request must have at most {MAX_VALUES} values together"
            )
        if any(isinstance(each, float) and not math.isfinite(each) for each in level):
            raise SchemaError("the schema contains a number that is not finite")
        level = [child for each in level for child in _children(each)]
        if not level:
            return values
    raise SchemaError(f"the schema is nested more than {MAX_DEPTH} levels deep")


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


def _against_meta_schema(schema: JsonSchema) -> Iterator[Error]:
    dialect = _dialect(_dialect_of(schema))
    meta = dialect(dialect.META_SCHEMA, registry=EMPTY_REGISTRY, format_checker=_FORMATS)
    for error in meta.iter_errors(schema):
        reason = str(error.cause) if error.cause else _shortened(error.message)
        yield tuple(error.absolute_path), reason


def _dead_references(schema: JsonSchema) -> Iterator[Error]:
    specification = specification_with(_dialect_of(schema))
    root = specification.create_resource(schema)
    registry = _PUBLISHED.with_resource(root.id() or "", root).crawl()
    pending = [(root, registry.resolver(root.id() or ""))]
    while pending:
        resource, resolver = pending.pop()
        for reference in _references(resource.contents):
            try:
                resolver.lookup(reference)
            except (Unresolvable, ValueError):
                yield (), f"the schema does not contain {reference!r}; references are not fetched"
        pending += [(each, resolver.in_subresource(each)) for each in resource.subresources()]


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        found = (schema.get(keyword) for keyword in ("$ref", "$dynamicRef"))
        yield from (reference for reference in found if isinstance(reference, str))


def _shortened(message: str) -> str:
    return message if len(message) <= 300 else f"{message[:200]} ... {message[-97:]}"


def _is_pattern(value: object) -> bool:
    return not isinstance(value, str) or compile_pattern(value) is not None


_PUBLISHED = EMPTY_REGISTRY.with_resources(
    (uri, specification_with(uri).create_resource(original.META_SCHEMA))
    for uri, original in DIALECTS.items()
)
_FORMATS = FormatChecker(formats=())
_FORMATS.checks("regex", raises=PatternError)(_is_pattern)
