"""JSON documents: read by the letter of RFC 8259, and short when they are quoted."""

import json
import math
from typing import Any, NoReturn

from workers.validators.violation import shortened

MAX_DEPTH = 100


class NotJson(ValueError):
    """The text is no JSON document that can be checked; `position` is where, if that is known."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason)
        self.position = position


class _Short:
    __slots__ = ()

    def __repr__(self) -> str:
        """Return the value's JSON, at most 80 characters of it.

        jsonschema quotes the whole instance in every message, which would be quadratic.
        """
        return shortened(_outline(self, 12))


class Text(_Short, str):
    """A string of a document."""

    __slots__ = ()


class Array(_Short, list[Any]):
    """An array of a document."""

    __slots__ = ()


class Object(_Short, dict[str, Any]):
    """An object of a document."""

    __slots__ = ()


def read(text: str) -> Any:
    """Return the document. Raises `NotJson`: for NaN too, and numbers that no double can hold."""
    try:
        return short(json.loads(text, parse_constant=_refuse, parse_float=_number))
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, error.pos) from None
    except RecursionError:
        raise NotJson(f"nested more than {MAX_DEPTH} levels deep") from None
    except UnicodeEncodeError:
        raise NotJson("a string holds a lone surrogate") from None
    except NotJson:
        raise
    except ValueError:
        raise NotJson("an integer has more than 4,300 digits") from None


def short(value: Any, depth: int = 0) -> Any:
    """Return the same document with strings, arrays and objects that are short when quoted."""
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
    raise NotJson(f"{constant} is no JSON number")


def _number(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise NotJson(f"{shortened(digits, 20)} is larger than any double")
    return number
