"""JSON drafts: telling them from prose, judging whether they parse, and repairing them.

A repair keeps every value or is not made.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn, SupportsIndex

from json_repair import repair_json

from workers.models.editor.json_names import with_colons

LOOKS = 100_000
"""How often the repairer may look at a short text; every character allows `LOOKS_EACH` more."""

LOOKS_EACH = 20

_FENCE = re.compile(
    r"\A\s*(?:```|~~~)[^\n]*\n(?P<body>.*?)(?:\n[ \t]*(?:```|~~~)\s*)?\Z", re.DOTALL
)
_OBJECT = re.compile(
    r"""\{\s*(?:["'“”][^"'“”\n]{0,200}["'“”]?\s*[:=]|[A-Za-z_][\w-]{0,60}\s*[:=]|\}\s*\Z|//|/\*|\#|\{\s*["']"""
    r"""|"[^"\n]{1,200}"\s*(?:["\[{\d-]|(?:true|false|null)\b))"""
)
_ARRAY = re.compile(
    r"""\[\s*(?:\]\s*\Z|[\[{]\s*["'\[{\d-]|(?:"[^"\n]{0,2000}"|'[^'\n]{0,2000}'|-?\d[\d.eE+-]*|true|false|null)"""
    r"""\s*(?:,|\n|\]\s*\Z|\Z|["'\[{]))""",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"(?<![:\w\"'])//[^\n]*|/\*.*?\*/|^\s*#[^\n]*", re.DOTALL | re.MULTILINE)
_LEADING_COMMENTS = re.compile(r"\A(?:\s*(?://[^\n]*\n|/\*.*?\*/))+", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_VALUE = re.compile(
    r"(?<![\w.])[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])|[^\W_]+", re.UNICODE
)
_SPELLED = {"none": "null", "undefined": "undefined"}
_FAILURES = (ValueError, RecursionError, LookupError, TypeError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Flaw:
    """Where and why a text is not JSON; `read` is the share of it that was read before that."""

    position: int
    message: str
    read: float


class _TooExpensive(ValueError):
    """The repairer has looked at the text too often: it goes to and fro in it."""


class _Metered(str):
    """A text that counts how often it is looked at, for a parser whose worst case is quadratic."""

    __slots__ = ("left",)
    left: int

    def __getitem__(self, at: SupportsIndex | slice) -> str:
        self.left -= 1
        if self.left < 0:
            raise _TooExpensive
        return super().__getitem__(at)


def looks_like_json(text: str) -> bool:
    """Tell whether a draft is meant to be JSON: it starts like an object or an array.

    A Markdown link, a footnote and a placeholder such as `[Name]` or `{{name}}` start prose.
    """
    body = _LEADING_COMMENTS.sub("", unfenced(text)).strip()
    return bool(_OBJECT.match(body) or _ARRAY.match(body))


def unfenced(text: str) -> str:
    """Return the text inside the one code fence that encloses a draft, or the draft."""
    fenced = _FENCE.match(text)
    return fenced["body"] if fenced else text


def flaw_of(text: str) -> Flaw | None:
    """Return what is wrong with a JSON document (RFC 8259), or None when it parses."""
    body = unfenced(text)
    flaw = _flaw(body)
    if flaw is None and body is not text:
        return Flaw(0, "A code fence encloses it.", 1.0)
    if flaw is not None and body is not text:
        return Flaw(text.index(body) + flaw.position, flaw.message, flaw.read)
    return flaw


def repaired(text: str) -> str | None:
    """Return the document repaired, or None when that would lose a value or is beyond repair."""
    body = unfenced(text).strip()
    if _flaw(body) is None:
        return body
    named = with_colons(body)
    return (_repaired(named) if named != body else None) or _repaired(body)


def enclosed(text: str) -> str | None:
    """Return the JSON document that prose encloses, repaired if need be, or None."""
    fences = re.findall(r"^```[^\n]*\n(.*?)\n```[ \t]*$", text, re.DOTALL | re.MULTILINE)
    opening = re.search(r"[\[{]", text)
    closing = max(text.rfind("]"), text.rfind("}"))
    candidates = [*fences, *([text[opening.start() : closing + 1]] if opening else [])]
    found = [it for it in candidates if looks_like_json(it)]
    return repaired(max(found, key=len)) if found else None


def _repaired(body: str) -> str | None:
    metered = _Metered(body)
    metered.left = LOOKS + LOOKS_EACH * len(body)
    try:
        value = repair_json(metered, return_objects=True, skip_json_loads=True)
        kept = _keeps_values(body, value)
        indent = 2 if "\n" in body else None
        written = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        written.encode()
    except _FAILURES:
        return None
    return written if kept and isinstance(value, dict | list) else None


def _flaw(body: str) -> Flaw | None:
    try:
        json.loads(body, parse_int=str, parse_float=str, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        return Flaw(error.pos, f"{error.msg}.", error.pos / max(1, len(body)))
    except RecursionError:
        return Flaw(0, "It is nested too deeply.", 0.0)
    except ValueError as error:
        at = max(0, body.find(str(error)))
        return Flaw(at, f"{error} is not JSON.", at / max(1, len(body)))
    return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _keeps_values(source: str, value: Any) -> bool:
    """Tell whether a repair holds the names and values of its source; comments may go."""
    kept = Counter(token for text in _texts(value) for token in _tokens(text))
    full = Counter(_tokens(_unescaped(source)))
    needed = Counter(_tokens(_unescaped(_COMMENT.sub(" ", source))))
    return needed <= kept <= full


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def _tokens(text: str) -> Iterator[str]:
    for match in _VALUE.finditer(text):
        try:
            yield str(Decimal(match[0]).normalize() + 0)
        except InvalidOperation:
            lower = match[0].lower()
            yield _SPELLED.get(lower, lower)


def _unescaped(source: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return " " if match[2] in "nrtbf" else match[2]

    return _ESCAPE.sub(character, source)
