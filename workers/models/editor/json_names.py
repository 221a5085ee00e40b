"""Names in a broken JSON document: each gets its quotes and its colon back.

The repairer that reads the document afterwards mends nearly everything else, but takes a name
without a colon, or with an equals sign for it, for something else.
"""

import re
from collections.abc import Callable, Iterator
from enum import Enum, auto

_SKIPPED = re.compile(r"\s+|//[^\n]*|/\*.*?\*/|#[^\n]*", re.DOTALL)
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
    """Anything: inside of a list, or outside of everything."""


def with_colons(text: str) -> str:
    """Return the text with every name of an object quoted and followed by a colon.

    Valid JSON comes back as it is. Runs in time linear in the text, names and strings included
    once each.
    """
    return "".join(_Scan(text).pieces())


class _Scan:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[_Expected] = [_Expected.ITEM]

    def pieces(self) -> Iterator[str]:
        while self._at < len(self._text):
            yield from self._piece()

    def _piece(self) -> Iterator[str]:
        if skipped := _SKIPPED.match(self._text, self._at):
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
