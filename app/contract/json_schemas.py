"""JSON Schemas from clients: the dialects, made safe to run, and what is wrong with a schema.

jsonschema is the reference implementation. Here its patterns run on RE2, `uniqueItems` takes linear
time, a nested `$schema` cannot bring the original keywords back, and no `$ref` is ever fetched: the
registry holds the published meta-schemas and nothing else. `format` is an annotation, which is the
default of Draft 2020-12. How long a schema may run is for its runner to bound.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema import FormatChecker, validators
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY, UnknownDialect, specification_with

from app.contract.regexes import PatternError, compile_pattern
from app.contract.schema_keywords import REPLACED

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

Schema = dict[str, Any] | bool
Error = tuple[tuple[str | int, ...], str]
"""Where in the schema, as a path, and what is wrong there."""


class SchemaError(ValueError):
    """The schema cannot be used at all; the text says why."""


def errors_in(schema: Schema, max_values: int = MAX_VALUES) -> tuple[tuple[Error, ...], int]:
    """Return what is wrong with a schema, at most `MAX_ERRORS`, and how many values it has.

    A schema that can be used has at most `max_values` values, `MAX_DEPTH` levels and no infinity,
    names a known dialect, satisfies its meta-schema, has patterns in RE2 syntax, and holds what it
    refers to.
    """
    try:
        size = _measured(schema, max_values)
    except SchemaError as error:
        return (((), str(error)),), 0
    try:
        errors = tuple(islice(_against_meta_schema(schema), MAX_ERRORS))
        return errors or tuple(islice(_dead_references(schema), 1)), size
    except (ValueError, UnknownDialect) as error:
        return (((), f"the schema cannot be read: {error}"),), size
    except RecursionError:
        return (((), "the schema is nested too deeply"),), size


def validator_for(schema: Schema) -> Any:
    """Return a jsonschema validator of the schema's dialect. Raises `SchemaError`."""
    return _dialect(_dialect_of(schema))(schema, registry=EMPTY_REGISTRY)


def _dialect_of(schema: Schema) -> str:
    named = LATEST if isinstance(schema, bool) else schema.get("$schema", LATEST)
    uri = named.removesuffix("#") if isinstance(named, str) else ""
    if uri not in DIALECTS:
        raise SchemaError(f"$schema names no dialect that is known here: {', '.join(DIALECTS)}")
    return uri


@lru_cache
def _dialect(uri: str) -> Any:
    dialect = validators.extend(DIALECTS[uri], REPLACED)  # type: ignore[no-untyped-call]
    dialect.evolve = _evolve
    return dialect


def _evolve(validator: Any, **changes: Any) -> Any:
    """Stay in the class: jsonschema's own `evolve` goes where a nested `$schema` points."""
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
            raise SchemaError(f"the schemas of a request have at most {MAX_VALUES} values together")
        if any(isinstance(each, float) and not math.isfinite(each) for each in level):
            raise SchemaError("the schema holds a number that is not finite")
        level = [child for each in level for child in _children(each)]
        if not level:
            return values
    raise SchemaError(f"the schema is nested more than {MAX_DEPTH} levels deep")


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


def _against_meta_schema(schema: Schema) -> Iterator[Error]:
    dialect = _dialect(_dialect_of(schema))
    meta = dialect(dialect.META_SCHEMA, registry=EMPTY_REGISTRY, format_checker=_FORMATS)
    for error in meta.iter_errors(schema):
        reason = str(error.cause) if error.cause else _shortened(error.message)
        yield tuple(error.absolute_path), reason


def _dead_references(schema: Schema) -> Iterator[Error]:
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
                yield (), f"the schema holds no {reference!r}, and references are never fetched"
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
