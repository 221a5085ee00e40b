"""JSON documents: what tells one from prose, what is wrong with one, and its repair.

The `json_repair` package repairs. What it drops or adds is a guess, and is refused.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn, SupportsIndex

from json_repair import repair_json

LOOKS = 100_000
"""How often the repairer may read from a short text; every character allows `LOOKS_EACH` more."""

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
_LINE_COMMENT = r"(?<![:\w\"'])//[^\n]*|^[^\S\n]*#[^\n]*"
_COMMENT_IN_LINE = re.compile(_LINE_COMMENT, re.MULTILINE)
_COMMENT = re.compile(rf"{_LINE_COMMENT}|/\*.*?\*/", re.DOTALL | re.MULTILINE)
_LEADING_COMMENTS = re.compile(r"\A(?:\s*(?://[^\n]*\n|/\*.*?\*/))+", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_VALUE = re.compile(
    r"(?<![\w.])[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])|[^\W_]+", re.UNICODE
)
_NO_TEXT = re.compile(r"[+-]?(?:[\d.,_]*\d[\d.,_]*|nan|infinity|undefined)", re.IGNORECASE)
"""What stands without quotation marks for something else than itself."""
_QUOTED = re.compile(r"[\"'“”\u2018\u2019`]\s*([^\"'“”\u2018\u2019`\s]+)")
_SPELLED = {"none": "null", "undefined": "undefined"}
_FAILURES = (ValueError, RecursionError, LookupError, TypeError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class JsonFlaw:
    """Where and why a text is not JSON; `read` is the share of it that was read before that."""

    position: int
    message: str
    read: float


class _TooExpensive(ValueError):
    """The repairer has read from the text too often: it goes back and forth in it."""


class _Metered(str):
    """A text that limits how often it is read, for a parser whose worst case is quadratic."""

    __slots__ = ("left",)
    left: int

    def __getitem__(self, at: SupportsIndex | slice) -> str:
        self.left -= 1
        if self.left < 0:
            raise _TooExpensive
        return super().__getitem__(at)


def looks_like_json(text: str) -> bool:
    """Return whether a draft is meant to be JSON: it starts like an object or an array.

    A Markdown link, a footnote and a placeholder such as `[Name]` or `{{name}}` start prose.
    """
    body = _LEADING_COMMENTS.sub("", unfenced(text)).strip()
    return bool(_OBJECT.match(body) or _ARRAY.match(body))


def unfenced(text: str) -> str:
    """Return the text inside a code fence that encloses the whole draft, or else the draft."""
    fenced = _FENCE.match(text)
    return fenced["body"] if fenced else text


def json_flaw(text: str) -> JsonFlaw | None:
    """Return what is wrong with a JSON document (RFC 8259), or None when it parses."""
    body = unfenced(text)
    flaw = _flaw(body)
    if flaw is None and body is not text:
        return JsonFlaw(0, "A code fence encloses it.", 1.0)
    if flaw is not None and body is not text:
        return JsonFlaw(text.index(body) + flaw.position, flaw.message, flaw.read)
    return flaw


def repaired(text: str, schemas: Sequence[Any] = ()) -> str | None:
    """Return the document repaired, or None when that would lose a value or is beyond repair.

    Values whose type a schema does not allow are converted where that changes nothing else.
    """
    body = unfenced(text).strip()
    mended = body if _flaw(body) is None else _repaired(body)
    for schema in schemas:
        if mended is not None:
            mended = _repaired(mended, _of_types(schema)) or mended
    return mended


def enclosed(text: str, schemas: Sequence[Any] = ()) -> str | None:
    """Return the JSON document inside prose, repaired if necessary, or None."""
    # Nothing after the last closing fence is searched for one: that would take quadratic time.
    closed = max(
        (fence.end() for fence in re.finditer(r"^```[ \t]*$", text, re.MULTILINE)), default=0
    )
    fenced = re.compile(r"^```[^\n]*\n(.*?)\n```[ \t]*$", re.DOTALL | re.MULTILINE)
    fences = fenced.findall(text[:closed])
    opening = re.search(r"[\[{]", text)
    closing = max(text.rfind("]"), text.rfind("}"))
    candidates = [*fences, *([text[opening.start() : closing + 1]] if opening else [])]
    found = [candidate for candidate in candidates if looks_like_json(candidate)]
    return repaired(max(found, key=len), schemas) if found else None


def _repaired(body: str, schema: Any = None) -> str | None:
    metered = _Metered(body)
    metered.left = LOOKS + LOOKS_EACH * len(body)
    try:
        value = repair_json(metered, True, schema is None, schema=schema)
        kept = _keeps_values(body, value) and (schema is not None or not _makes_up(body, value))
        indent = 2 if "\n" in body else None
        written = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        written.encode()
        is_new = schema is None or written != json.dumps(
            json.loads(body), ensure_ascii=False, indent=indent
        )
    except _FAILURES:
        return None
    return written if kept and is_new and isinstance(value, dict | list) else None


TYPED = frozenset({"type", "enum", "const", "required", "anyOf", "oneOf", "allOf", "items"})
NAMED = ("properties", "$defs", "definitions")


def _of_types(schema: Any) -> Any:
    """Return what a schema says of types: no pattern, which may take for ever, and no address."""
    if isinstance(schema, list):
        return [*map(_of_types, schema)]
    if not isinstance(schema, Mapping):
        return schema
    kept = {name: _of_types(member) for name, member in schema.items() if name in TYPED}
    for name in NAMED:
        if isinstance(schema.get(name), Mapping):
            kept[name] = {key: _of_types(member) for key, member in schema[name].items()}
    if str(schema.get("$ref", "")).startswith("#"):
        kept["$ref"] = schema["$ref"]
    return kept


def _flaw(body: str) -> JsonFlaw | None:
    try:
        json.loads(body, parse_int=str, parse_float=str, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        return JsonFlaw(error.pos, f"{error.msg}.", error.pos / max(1, len(body)))
    except RecursionError:
        return JsonFlaw(0, "It is nested too deeply.", 0.0)
    except ValueError as error:
        at = max(0, body.find(str(error)))
        return JsonFlaw(at, f"{error} is not JSON.", at / max(1, len(body)))
    return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _keeps_values(source: str, value: Any) -> bool:
    """Return whether a repair keeps the names and values of its source; comments may go."""
    kept = Counter(token for text in _texts(value) for token in _tokens(text))
    full = Counter(_tokens(_unescaped(source)))
    needed = Counter(_tokens(_unescaped(_without_comments(source))))
    return needed <= kept <= full and not any('"' in name for name in _names(value))


def _makes_up(source: str, value: Any) -> bool:
    """Return whether a repair has put a value where none was, or a text for something else."""
    return source.endswith(":") or not {*_odd_texts(value)} <= {*_QUOTED.findall(source)}


def _odd_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from [value] if _NO_TEXT.fullmatch(value) else []
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _odd_texts(item)


def _names(value: Any) -> Iterator[str]:
    """Yield the names of objects: one with a quotation mark was two values before the repair."""
    if isinstance(value, dict):
        yield from value
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from _names(item)


def _without_comments(source: str) -> str:
    """Return the text without comments; one that is never closed is none."""
    end = source.rfind("*/") + 2 if "*/" in source else 0
    return _COMMENT.sub(" ", source[:end]) + _COMMENT_IN_LINE.sub(" ", source[end:])


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
            is_code = re.match(r"0\d", match[0])
            yield match[0] if is_code else str(Decimal(match[0]).normalize() + 0)
        except ArithmeticError:
            lower = match[0].lower()
            yield _SPELLED.get(lower, lower)


def _unescaped(source: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return " " if match[2] in "nrtbf" else match[2]

    return _ESCAPE.sub(character, source)
