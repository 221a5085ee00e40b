"""The `json_schema` validator: a draft that is one JSON document of a certain shape."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from jsonschema import ValidationError
from jsonschema.exceptions import best_match
from referencing.exceptions import Unresolvable

from app.contract.json_schemas import validator_for
from app.contract.regexes import PatternError
from app.contract.validators import JsonSchemaValidator
from workers.validators.documents import NotJson, read, short
from workers.validators.json import not_json
from workers.validators.violation import Violation, body_of, shortened

MAX_VIOLATIONS = 20


def check_json_schema(validator: JsonSchemaValidator, draft: str) -> Iterator[Violation]:
    """Yield the first violations, each with the JSON Pointer of what breaks the schema.

    The document may stand in one code fence. A draft that is no JSON is one violation.
    """
    body, offset = body_of(draft)
    try:
        document = read(body)
    except NotJson as reason:
        yield not_json(reason, draft, offset)
        return
    try:
        errors = validator_for(short(validator.schema_)).iter_errors(document)
        for error in islice(errors, MAX_VIOLATIONS):
            yield _violation(error, draft)
    except RecursionError:
        yield _unusable("it refers to itself without end")
    except (Unresolvable, PatternError, ArithmeticError, NotJson) as failure:
        yield _unusable(shortened(str(failure), 300))


def _unusable(reason: str) -> Violation:
    return Violation(
        f"the schema cannot be applied to this draft: {reason}",
        "correct the schema of the validator",
    )


def _violation(error: ValidationError, draft: str) -> Violation:
    closest = best_match(iter([error])) or error
    where = pointer(closest.absolute_path) or "the document"
    written = _as_written(closest.instance, draft)
    at = draft.find(written) if written and draft.count(written) == 1 else -1
    return Violation(
        f"at {where}: {shortened(closest.message, 500)}",
        f"change {where} so that it satisfies {shortened(_rule(closest), 200)}",
        span=(at, at + len(written)) if at >= 0 else None,
        quote=written if written and written in draft else None,
    )


def pointer(path: Sequence[str | int]) -> str:
    """Return the JSON Pointer (RFC 6901) of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _rule(error: ValidationError) -> str:
    return f"`{error.validator}: {error.validator_value!r}`" if error.validator else "`false`"


def _as_written(instance: Any, draft: str) -> str:
    if not isinstance(instance, str) or not 0 < len(instance) <= 200:
        return ""
    return json.dumps(instance, ensure_ascii=False)
