"""Finds JSON objects and arrays in a text, written as models write them.

Besides JSON it reads what has one meaning only: trailing commas, comments, single, typographic,
triple and back quotes, names without quotes, Python's `True`, `False` and `None`, unescaped line
ends and quotes in strings, and full-width digits and punctuation. A name that stands twice in one
object with different values is refused, and nothing is added to a text that ends too early.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

MOST_DEPTH = 64
MOST_STARTS = 500
"""Brackets of a text that are tried; a text with more contains something else than one answer."""

MOST_DIGITS = 300
"""Digits of a whole number; a longer one is infinite, and nothing asks for infinity."""

WORDS: Mapping[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "none": None,
    "undefined": None,
    "nan": float("nan"),
    "infinity": float("inf"),
    "+infinity": float("inf"),
    "-infinity": float("-inf"),
}
CLOSING: Mapping[str, str] = {
    '"': '"',
    "'": "'",
    "`": "`",
    "\u201c": "\u201c\u201d\u201e",
    "\u201e": "\u201c\u201d",
    "\u201d": "\u201d",
    "\u2018": "\u2018\u2019",
    "\u300c": "\u300d",
}
"""The quotation marks that may open a string, with those that close it."""

FENCES = ('"""', "'''", "```")
ESCAPES: Mapping[str, str] = {
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    **{sign: sign for sign in "\"'`/\\"},
    "\n": "",
}
BLANK = re.compile(r"(?:[\s\u200b-\u200d\u2060\ufeff]+|//[^\n]*|/\*.*?\*/|#[^\n]*)+", re.DOTALL)
NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
CUT_NUMBER = re.compile(r"[-+]?\d+[.,]")
SMALL_DIGIT = re.compile(r"[\u00b2\u00b3\u00b9\u2070-\u209f\u2460-\u24ff]")
"""Raised, lowered and circled digits: the number of a note, not a digit of the number before."""
BARE = re.compile(r"[^\s,\uff0c{}\[\]\"'`:\uff1a]+")
NAME = re.compile(r"[^\W\d][\w.$ -]*?(?=\s*[:\uff1a])")
COMMAS = ",\uff0c"
COLONS = ":\uff1a"

MEMBER = r"(?:[\"'`\u201c\u2018\u201e\u300c][^\n]{0,200}?[\"'`\u201d\u2019\u201c\u300d]|[^\W\d]\w*)"
AFTER_MEMBER = re.compile(rf"\s*(?:\}}|[,\uff0c]\s*(?:\}}|{MEMBER}\s*[:\uff1a]|//|/\*|#)|\Z)")
NEXT_MEMBER = re.compile(rf"(?=[^\S\n]*\n)\s*+{MEMBER}\s*+[:\uff1a]")
AFTER_ITEM = re.compile(
    r"\s*(?:\]|[,\uff0c]\s*(?:[\]\"'`\u201c\u2018\u201e\u300c{\[\d-]|true|false|null|//|/\*|#)|\Z)"
)


class Unparsable(ValueError):
    """There is no JSON value here; the message says why."""


class Unusable(Unparsable):
    """A value that ends too early, can be read in two ways, or has a text that is not Unicode."""


def json_values_in(text: str) -> Iterator[dict[str, Any] | list[Any] | Unparsable]:
    """Yield the outermost objects and arrays of a text, in order, and why others cannot be read.

    The first `Unusable` value is the last: what stands inside or after it proves nothing.
    """
    return (value for value, _ in json_passages_in(text))


def json_passages_in(text: str) -> Iterator[tuple[dict[str, Any] | list[Any] | Unparsable, str]]:
    """Yield what `json_values_in` yields, each with the words that it was read from."""
    at = tried = 0
    while (start := _opening(text, at)) >= 0 and tried < MOST_STARTS:
        tried += 1
        try:
            value, at = _value(text, start)
            yield value, text[start:at]
        except Unparsable as error:
            yield error, ""
            if isinstance(error, Unusable):
                return
            at = start + 1


def only_value(text: str) -> Any:
    """Return the value at the start of a text. Raises `Unparsable` if objects or arrays follow."""
    value, end = _value(text, 0)
    if _opening(text, end) >= 0:
        raise Unparsable("it contains more than one JSON value")
    return value


def decoded_json(text: str) -> Any:
    """Return the value of a JSON text, in which strings may have line ends.

    Raises ValueError or RecursionError, also for a string that is not Unicode.
    """
    value = json.loads(text, strict=False)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _opening(text: str, at: int) -> int:
    found = [place for mark in "{[" if (place := text.find(mark, at)) >= 0]
    return min(found, default=-1)


def _value(text: str, start: int) -> tuple[Any, int]:
    try:
        value, end = DECODER.raw_decode(text, start)
    except Unusable:
        raise
    except (ValueError, RecursionError):
        reader = _Lenient(text, start)
        value, end = reader.value(0, in_object=False), reader.at
    if text.isascii() and "\\u" not in text and text.count("{") + text.count("[") < MOST_DEPTH:
        return value, end
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise Unusable("it contains half a surrogate pair, or nests too deeply") from None
    return value, end


def json_flaw_in(text: str) -> str | None:
    """Return why a text is no JSON value (RFC 8259), or why readers may differ on it."""
    try:
        json.loads(text, object_pairs_hook=_with_each_name_once, parse_constant=_refuse)
    except ValueError as error:
        return str(error)
    except RecursionError:
        return "it nests too deeply"
    return None


def _refuse(constant: str) -> NoReturn:
    raise Unparsable(f"{constant} is not a JSON number")


def _with_each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found and found[name] != value:
            shown = name[:100]
            raise Unusable(f"the name {shown!r} stands twice in one object, with different values")
        found[name] = value
    return found


DECODER = json.JSONDecoder(object_pairs_hook=_with_each_name_once)


class _Lenient:
    """A recursive descent over one value; `at` is the position after what was read."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at

    def value(self, depth: int, *, in_object: bool) -> Any:
        if depth > MOST_DEPTH:
            raise Unparsable("it nests too deeply")
        char = self._next()
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._array(depth)
        if char in CLOSING:
            return self._string(AFTER_MEMBER if in_object else AFTER_ITEM, in_object=in_object)
        return self._word()

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        pairs: list[tuple[str, Any]] = []
        while self._skipping_commas() != "}":
            name = self._name()
            if self._next() not in COLONS:
                raise Unparsable(f"no colon after the name {name[:100]!r}")
            self.at += 1
            pairs.append((name, self.value(depth + 1, in_object=True)))
        self.at += 1
        return _with_each_name_once(pairs)

    def _array(self, depth: int) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        while self._skipping_commas() != "]":
            items.append(self.value(depth + 1, in_object=False))
        self.at += 1
        return items

    def _next(self) -> str:
        """Return the next character that is neither blank nor in a comment."""
        if blank := BLANK.match(self._text, self.at):
            self.at = blank.end()
        if self.at >= len(self._text):
            raise Unusable("it ends within a JSON value: it is cut off")
        return self._text[self.at]

    def _skipping_commas(self) -> str:
        while (char := self._next()) in COMMAS:
            self.at += 1
        return char

    def _name(self) -> str:
        if self._next() in CLOSING:
            return str(self._string(re.compile(r"\s*[:\uff1a]"), in_object=True)).strip()
        if found := NAME.match(self._text, self.at):
            self.at = found.end()
            return found[0]
        raise Unparsable(f"no name of a member at {self._text[self.at : self.at + 20]!r}")

    def _word(self) -> Any:
        found = BARE.match(self._text, self.at)
        if not found:
            raise Unparsable(f"no value at {self._text[self.at : self.at + 20]!r}")
        if found.end() == len(self._text):
            raise Unusable("it ends within a JSON value: it is cut off")
        self.at = found.end()
        word = unicodedata.normalize("NFKC", found[0])
        if CUT_NUMBER.fullmatch(word) or (SMALL_DIGIT.search(found[0]) and NUMBER.fullmatch(word)):
            raise Unparsable(f"{found[0][:20]} is no number")
        if word.casefold() in WORDS:
            return WORDS[word.casefold()]
        if NUMBER.fullmatch(word):
            is_whole = not set(word) & set(".eE") and len(word) <= MOST_DIGITS
            return int(word) if is_whole else float(word)
        return word

    def _string(self, after: re.Pattern[str], *, in_object: bool) -> str:
        for fence in FENCES:
            if self._text.startswith(fence, self.at):
                return self._fenced(fence)
        closing = CLOSING[self._text[self.at]]
        text, at, said = self._text, self.at + 1, list[str]()
        while at < len(text):
            char = text[at]
            if char == "\\":
                escaped, at = _escape(text, at)
                said.append(escaped)
                continue
            if char in closing and self._closes(at + 1, after, in_object=in_object):
                self.at = at + 1
                return "".join(said)
            said.append(char)
            at += 1
        raise Unusable("it ends within a string: it is cut off")

    def _closes(self, at: int, after: re.Pattern[str], *, in_object: bool) -> bool:
        """Return whether a quotation mark ends its string, by what comes after it."""
        if after.match(self._text, at):
            return True
        return in_object and NEXT_MEMBER.match(self._text, at) is not None

    def _fenced(self, fence: str) -> str:
        end = self._text.find(fence, self.at + 3)
        if end < 0:
            raise Unusable("it ends within a string: it is cut off")
        inside = self._text[self.at + 3 : end]
        self.at = end + 3
        first, line_end, rest = inside.partition("\n")
        if fence == "```" and line_end:
            return rest.removesuffix("\n")
        return inside if first.strip() or not line_end else rest.removesuffix("\n")


def _escape(text: str, at: int) -> tuple[str, int]:
    """Return the character of an escape and the position after it; an unknown one stays."""
    follows = text[at + 1 : at + 2]
    if follows == "u" and (digits := re.match(r"[0-9a-fA-F]{4}", text[at + 2 : at + 6])):
        first = int(digits[0], 16)
        second = re.match(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})", text[at + 6 : at + 12])
        if 0xD800 <= first < 0xDC00 and second:
            low = int(second[1], 16)
            return chr(0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00)), at + 12
        return chr(first), at + 6
    return ESCAPES.get(follows, "\\" + follows), at + 2
