"""Repairs a broken JSON document, and converts its values to fit a JSON Schema.

First every name gets its quotes and its colon. The `json_repair` package, which reads the document
afterwards, fixes nearly everything else, but misreads a name without a colon or with an equals sign
in its place.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, auto
from typing import Any, NoReturn, SupportsIndex

from json_repair import repair_json

_SKIPPED = re.compile(r"\s+|//[^\n]*|/\*.*?\*/|#[^\n]*", re.DOTALL)
_SKIPPED_IN_LINE = re.compile(r"\s+|//[^\n]*|#[^\n]*")
_QUOTES = {'"': '"', "'": "'", "“": "”", "\u2018": "\u2019"}
_COLON = re.compile(r":=|=>|=|:")
_BARE_NAME = re.compile(
    r"[^\W\d][\w-]{0,99}(?: [\w-]{1,100}){0,5}?"
    r"(?=\s*[:=\"'“\u2018\[{]|\s+(?:[\d-]|true\b|false\b|null\b|none\b))",
    re.IGNORECASE,
)
_BARE_VALUE = re.compile(r"[^\s,\[\]{}\"'“\u2018/#]+")
_AFTER_VALUE = re.compile(r"\s*(?:[,}\]]|\Z|//|/\*|#|\n|[\"'“][^\"'“”\n]*[\"'”]\s*[:=])")


class _Expected(Enum):
    NAME = auto()
    COLON = auto()
    VALUE = auto()
    COMMA = auto()
    ITEM = auto()
    """Anything: inside a list, or at the top level."""


def with_colons(text: str) -> str:
    """Return the text with every name of an object quoted and followed by a colon.

    Valid JSON is returned unchanged. Takes quadratic time if many strings have no plausible end.
    """
    return "".join(_Scan(text).pieces())


class _Scan:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[_Expected] = [_Expected.ITEM]
        self._last_comment = text.rfind("*/")

    def pieces(self) -> Iterator[str]:
        while self._at < len(self._text):
            yield from self._piece()

    def _piece(self) -> Iterator[str]:
        pattern = _SKIPPED if self._at < self._last_comment else _SKIPPED_IN_LINE
        if skipped := pattern.match(self._text, self._at):
            yield self._taken(skipped.end())
        elif self._text[self._at] in "}]":
            if len(self._open) > 1:
                self._open.pop()
                self._passed_value()
            yield self._taken(self._at + 1)
        elif self._text[self._at] == ",":
            if self._open[-1] is not _Expected.ITEM:
                self._open[-1] = _Expected.NAME
            yield self._taken(self._at + 1)
        elif self._open[-1] is _Expected.COLON:
            yield from self._colon()
        elif self._open[-1] in (_Expected.NAME, _Expected.COMMA):
            yield from self._name()
        else:
            yield from self._value()

    def _colon(self) -> Iterator[str]:
        self._open[-1] = _Expected.VALUE
        found = _COLON.match(self._text, self._at)
        if found:
            self._at = found.end()
        yield ":" if found else ": "

    def _name(self) -> Iterator[str]:
        quote = self._text[self._at]
        bare = _BARE_NAME.match(self._text, self._at)
        if quote in _QUOTES:
            name = self._string(lambda _: True)
            self._open[-1] = _Expected.COLON
            yield f'"{name[1:-1]}"' if quote in "“\u2018" and '"' not in name else name
        elif bare:
            self._at = bare.end()
            self._open[-1] = _Expected.COLON
            yield f'"{bare[0]}"'
        else:
            yield from self._value()

    def _value(self) -> Iterator[str]:
        opened = self._text[self._at]
        if opened in "{[":
            self._open.append(_Expected.NAME if opened == "{" else _Expected.ITEM)
            yield self._taken(self._at + 1)
            return
        if opened in _QUOTES:
            yield self._string(lambda end: bool(_AFTER_VALUE.match(self._text, end)))
        else:
            bare = _BARE_VALUE.match(self._text, self._at)
            yield self._taken(bare.end() if bare else self._at + 1)
        self._passed_value()

    def _passed_value(self) -> None:
        if self._open[-1] is not _Expected.ITEM:
            self._open[-1] = _Expected.COMMA

    def _string(self, ends: Callable[[int], bool]) -> str:
        """Take a string up to the first closing quote that `ends` accepts, else to the first."""
        closing = _QUOTES[self._text[self._at]]
        first, at = None, self._at + 1
        while at < len(self._text):
            if self._text[at] == "\\":
                at += 1
            elif self._text[at] == closing:
                first = first or at + 1
                if ends(at + 1):
                    return self._taken(at + 1)
            at += 1
        return self._taken(first or len(self._text))

    def _taken(self, end: int) -> str:
        start, self._at = self._at, end
        return self._text[start:end]


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


def flaw_of(text: str) -> JsonFlaw | None:
    """Return what is wrong with a JSON document (RFC 8259), or None when it parses."""
    body = unfenced(text)
    flaw = _flaw(body)
    if flaw is None and body is not text:
        return JsonFlaw(0, "A code fence encloses it.", 1.0)
    if flaw is not None and body is not text:
        return JsonFlaw(text.index(body) + flaw.position, flaw.message, flaw.read)
    return flaw


def repaired(text: str) -> str | None:
    """Return the document repaired, or None when that would lose a value or is beyond repair."""
    body = unfenced(text).strip()
    if _flaw(body) is None:
        return body
    named = with_colons(body)
    return (_repaired(named) if named != body else None) or _repaired(body)


def enclosed(text: str) -> str | None:
    """Return the JSON document inside prose, repaired if necessary, or None."""
    # Nothing after the last closing fence is searched for one: that would take quadratic time.
    closed = max((it.end() for it in re.finditer(r"^```[ \t]*$", text, re.MULTILINE)), default=0)
    fenced = re.compile(r"^```[^\n]*\n(.*?)\n```[ \t]*$", re.DOTALL | re.MULTILINE)
    fences = fenced.findall(text[:closed])
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
    return needed <= kept <= full


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
            yield str(Decimal(match[0]).normalize() + 0)
        except ArithmeticError:
            lower = match[0].lower()
            yield _SPELLED.get(lower, lower)


def _unescaped(source: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return " " if match[2] in "nrtbf" else match[2]

    return _ESCAPE.sub(character, source)


SchemaNode = Any
"""A JSON Schema: an object, or a boolean."""

NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?")
DEEPEST = 64
TYPES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
WORDS = {"true": True, "false": False, "yes": True, "no": False, "null": None, "none": None}


def shaped(text: str, schemas: Sequence[SchemaNode]) -> str:
    """Return a JSON document with its values converted to fit the schemas, or unchanged.

    A document that Python cannot hold without a loss, such as a duplicate name, is left unchanged.
    """
    try:
        given = value = json.loads(text, object_pairs_hook=_object)
        for schema in schemas:
            value = _Shape(schema).of(value, schema)
        indent = 2 if "\n" in text else None
        written = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        is_new = json.dumps(value) != json.dumps(given)
    except (ValueError, RecursionError):
        return text
    return written if is_new else text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(made := dict(pairs)) < len(pairs):
        raise ValueError("a name is given twice")
    return made


class _Shape:
    """Applies one schema document; its local references are followed `DEEPEST` levels deep."""

    def __init__(self, root: SchemaNode) -> None:
        self._root = root

    def of(self, value: Any, schema: SchemaNode, depth: int = 0) -> Any:
        """Return the value converted to fit a schema, or unchanged."""
        schema = self._resolved(schema)
        if schema is None or depth > DEEPEST:
            return value
        value = _of_type(_optional(value, schema), _types(schema))
        if isinstance(value, dict):
            return self._object(value, schema, depth)
        if isinstance(value, list):
            return [self.of(it, schema.get("items"), depth + 1) for it in value]
        return value

    def _object(self, value: dict[str, Any], schema: Mapping[str, Any], depth: int) -> Any:
        known = _mapping(schema.get("properties"))
        others = schema.get("additionalProperties")
        named = {_name(name, value, known): held for name, held in value.items()}
        shaped = {
            name: self.of(held, known.get(name, others), depth + 1) for name, held in named.items()
        }
        for name in schema.get("required") or ():
            rule = self._resolved(known.get(name)) or {}
            if name not in shaped and rule.keys() & {"const", "default"}:
                shaped[name] = rule.get("const", rule.get("default"))
        return shaped

    def _resolved(self, schema: SchemaNode) -> Mapping[str, Any] | None:
        """Follow local references; None when they lead to no schema object."""
        for _ in range(DEEPEST):
            if not isinstance(schema, Mapping):
                return None
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            schema = self._at(reference) if reference.startswith("#") else None
        return None

    def _at(self, reference: str) -> SchemaNode:
        found = self._root
        for part in reference.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


def _name(name: str, value: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return the one property of the schema that a name misspells and no other name has."""
    if name in known:
        return name
    meant = [it for it in known if _key(it) == _key(name) and it not in value]
    rivals = [it for it in value if it not in known and _key(it) == _key(name)]
    return meant[0] if len(meant) == len(rivals) == 1 else name


def _optional(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the one option of an `enum` or `const` that a text misspells."""
    options = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(value, str) or not isinstance(options, list) or value in options:
        return value
    meant = [it for it in options if isinstance(it, str) and _key(it) == _key(value)]
    return meant[0] if len(meant) == 1 else value


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)


def _of_type(value: Any, types: tuple[str, ...]) -> Any:
    """Return the value as one of the types when exactly one reading of it has one."""
    if not types or _type(value) in types or (_type(value) == "integer" and "number" in types):
        return value
    if isinstance(value, list) and len(value) == 1 and "array" not in types:
        inner = _of_type(value[0], types)
        return inner if _type(inner) in types or _type(inner) == "integer" else value
    if isinstance(value, str) and (read := _read(value, types)) is not value:
        return read
    if "array" in types and value is not None:
        return [value]
    if types == ("string",) and isinstance(value, bool | int | float):
        return json.dumps(value)
    return value


def _read(text: str, types: tuple[str, ...]) -> Any:
    """Return the number, boolean or null that a text spells, if it has one of the types."""
    bare = text.strip()
    word = WORDS.get(bare.lower(), text)
    if word is not text and _type(word) in types:
        return word
    if not NUMBER.fullmatch(bare):
        return text
    number = json.loads(re.sub(r"^\+|,", "", bare)) if _is_plain(bare) else text
    fits = _type(number) in types or (_type(number) == "integer" and "number" in types)
    return number if fits else text


def _is_plain(digits: str) -> bool:
    """Return whether digits are a number, not a code such as 007 with leading zeros."""
    return not re.match(r"[+-]?0\d", digits)


def _type(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return TYPES[type(value)]


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
