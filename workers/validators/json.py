"""The validators of JSON documents: strict RFC 8259, with long values shortened in messages."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from jsonschema import ValidationError
from jsonschema.exceptions import best_match
from referencing.exceptions import Unresolvable

from app.contract.json_schemas import validator_for
from app.contract.regexes import PatternError
from app.contract.validators.json import JsonSchemaValidator, JsonValidator
from workers.text.edits import Edit
from workers.text.json_documents import looks_like_json, repaired
from workers.validators.violation import (
    HIDES_OTHERS,
    MAX_DEPTH,
    Body,
    Violation,
    abbreviated,
)

TOKEN = re.compile(r'(?P<string>"(?:[^"\\]++|\\.)*+")(?P<is_name>\s*+:)?|[{}\[\]]')


class NotJson(ValueError):
    """The text is not a JSON document that can be checked; `position` is where, if known."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason)
        self.position = position


class _Short:
    __slots__ = ()

    def __repr__(self) -> str:
        """Return the value's JSON, at most 80 characters of it.

        jsonschema quotes the whole instance in every message, which would be quadratic.
        """
        return abbreviated(_outline(self, 12))


class Text(_Short, str):
    """A string of a document."""

    __slots__ = ()


class Array(_Short, list[Any]):
    """An array of a document."""

    __slots__ = ()


class Object(_Short, dict[str, Any]):
    """An object of a document."""

    __slots__ = ()


def parsed_json(text: str) -> Any:
    """Return the document. Raises `NotJson`, also for NaN and numbers too large for a double."""
    try:
        return short(json.loads(text, parse_constant=_refuse, parse_float=_number))
    except json.JSONDecodeError as error:
        raise NotJson(error.msg.removesuffix(" at"), error.pos) from None
    except RecursionError:
        raise NotJson(f"nested more than {MAX_DEPTH} levels deep") from None
    except UnicodeEncodeError:
        raise NotJson("a string contains a lone surrogate") from None
    except NotJson:
        raise
    except ValueError:
        raise NotJson("an integer has more than 4,300 digits") from None


def short(value: Any, depth: int = 0) -> Any:
    """Return the same document with strings, arrays and objects that have a short `repr`."""
    if depth >= MAX_DEPTH and isinstance(value, list | tuple | dict):
        raise NotJson(f"nested more than {MAX_DEPTH} levels deep")
    match value:
        case str():
            value.encode()
            return Text(value)
        case list() | tuple():
            return Array(short(each, depth + 1) for each in value)
        case dict():
            return Object((short(name), short(held, depth + 1)) for name, held in value.items())
        case _:
            return value


def _outline(value: Any, room: int) -> str:
    match value:
        case str():
            return json.dumps(value[:100], ensure_ascii=False)
        case list():
            held = [_outline(each, room // 2) for each in value[:room]]
            return f"[{', '.join(held)}{', …' if len(value) > room else ''}]"
        case dict():
            names = list(value)[:room] if room else []
            held = [f"{_outline(name, 0)}: {_outline(value[name], room // 2)}" for name in names]
            return f"{{{', '.join(held)}{', …' if len(value) > room else ''}}}"
        case _:
            return json.dumps(value)


def _refuse(constant: str) -> NoReturn:
    raise NotJson(f"{constant} is not a JSON number")


def _number(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise NotJson(f"{abbreviated(digits, 20)} is too large for a double")
    return number


def check_json(validator: JsonValidator, draft: str) -> Iterator[Violation]:
    """Yield why the draft is not one JSON document (RFC 8259), or every duplicate name in it.

    The document may stand in one code fence.
    """
    body = Body(draft)
    try:
        parsed_json(body.text)
    except NotJson as reason:
        yield not_json(reason, body)
    else:
        yield from _repeated(body)


def fix_json(validator: JsonValidator, draft: str) -> Iterator[Edit]:
    """Yield the document repaired, if that loses no value."""
    yield from _rewritten(draft, ())


def _rewritten(draft: str, schemas: Sequence[Any]) -> Iterator[Edit]:
    body = Body(draft)
    fixed = repaired(body.text, schemas) if looks_like_json(body.text) else None
    if fixed is not None:
        if "\r\n" in body.text:
            fixed = re.sub(r"\r?\n", "\r\n", fixed)
        yield Edit(body.start, body.start + len(body.text), fixed)


def not_json(error: NotJson, body: Body) -> Violation:
    """Return the violation of a draft whose document is not JSON."""
    message, fix = f"the draft is not JSON: {error}", "answer with one JSON document"
    if error.position is None:
        return Violation(message, fix, weight=HIDES_OTHERS)
    fix += " and nothing else"
    return body.violation(error.position, message, fix, weight=HIDES_OTHERS)


def _repeated(body: Body) -> Iterator[Violation]:
    """Yield every duplicate name in an object: readers disagree on which value counts."""
    objects: list[set[str]] = []
    for token in TOKEN.finditer(body.text):
        if token["is_name"]:
            name = parsed_json(token["string"])
            if name in objects[-1]:
                yield body.violation(
                    token.start(),
                    f"the object has the name {abbreviated(token['string'])} twice, again",
                    "keep one of the two, or rename one",
                    len(token["string"]),
                )
            objects[-1].add(name)
        elif token[0] in "{[":
            objects.append(set())
        elif token[0] in "}]":
            objects.pop()


def check_json_schema(validator: JsonSchemaValidator, draft: str) -> Iterator[Violation]:
    """Yield the violations, each with the JSON Pointer of the value that violates the schema.

    The document may stand in one code fence. A draft that is not JSON is one violation.
    """
    body = Body(draft)
    try:
        document = parsed_json(body.text)
    except NotJson as reason:
        yield not_json(reason, body)
        return
    try:
        for error in validator_for(short(validator.schema_)).iter_errors(document):
            yield _violation(error, draft)
    except RecursionError:
        yield _unusable("its references are infinitely recursive")
    except (Unresolvable, PatternError, ArithmeticError, NotJson) as failure:
        yield _unusable(abbreviated(str(failure), 300))


def fix_json_schema(validator: JsonSchemaValidator, draft: str) -> Iterator[Edit]:
    """Yield the document repaired, its values converted to the types that the schema demands."""
    yield from _rewritten(draft, (validator.schema_,))


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
    rule = f"`{closest.validator}: {closest.validator_value!r}`" if closest.validator else "`false`"
    return Violation(
        f"at {where}: {abbreviated(in_json(closest.message), 500)}",
        f"change {where} so that it satisfies {abbreviated(in_json(rule), 200)}",
        span=(at, at + len(written)) if at >= 0 else None,
        quote=written if written and written in draft else None,
    )


OF_PYTHON = {"None": "null", "True": "true", "False": "false"}
WORDS = re.compile(r'"(?:[^"\\]|\\.)*+"|\b(?:None|True|False)\b')


def in_json(message: str) -> str:
    """Return a message of jsonschema with the literals of JSON, strings left as they are."""
    return WORDS.sub(lambda found: OF_PYTHON.get(found[0], found[0]), message)


def pointer(path: Sequence[str | int]) -> str:
    """Return the JSON Pointer (RFC 6901) of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _as_written(instance: Any, draft: str) -> str:
    if not isinstance(instance, str) or not 0 < len(instance) <= 200:
        return ""
    return json.dumps(instance, ensure_ascii=False)
