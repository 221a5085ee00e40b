"""What no edit may touch: code, links, quotations and the structure of the page.

A span is found by the rules of Markdown and of plain e-mail; in doubt more is protected, not less.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

MASK = "\ufffc"
"""Stands for every protected character, so that positions stay what they are."""


class Protection(StrEnum):
    """Why a span is protected. The words of quotations and titles are read, all others are not."""

    CODE = "code"
    LINK = "link"
    QUOTE = "quote"
    STRUCTURE = "structure"


@dataclass(frozen=True, slots=True, order=True)
class Protected:
    """Characters `start` to `end` (exclusive) that stay as they are."""

    start: int
    end: int
    why: Protection


_FENCE = re.compile(r"^[ \t]{0,3}(?P<fence>`{3,}|~{3,})[^\n]*(?:\n|\Z)", re.MULTILINE)
_TRIPLE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_LINES = (
    r"[ \t]{0,3}\#{1,6}(?:[ \t][^\n]*)?$",  # heading
    r"(?=[^\n]*\S)[^\n]+\n[ \t]{0,3}(?:={2,}|-{2,})[ \t]*$",  # heading underlined
    r"[ \t]{0,3}(?:[-*_][ \t]*){3,}$",  # rule
    r"[ \t]*>[^\n]*$",  # block quotation
    r"[ \t]*\|[^\n]*$",  # table
    r"(?=[^\n|]*\S)[^\n|]+ \| [^\n]*$",  # table without outer bars
    r"(?:From|To|Cc|Bcc|Subject|Date|Sent|Re|Fwd|Reply-To):[^\n]*$",  # head of an e-mail
    r"\[[^\]\n]+\]:[^\n]*$",  # definition of a link or footnote
    r"(?: {4,}|\t+)[^\s*+\d•-][^\n]*$",  # indented code
    r"(?=[^\n]*\S {3,}\S)[^\n]+$",  # columns
)
_LINE = re.compile("|".join(rf"^(?:{line})" for line in _LINES), re.MULTILINE | re.IGNORECASE)
_MARKER = re.compile(
    r"^[ \t]*(?:[-*+•\u2013]|\(?(?:\d{1,3}|[a-zA-Z])[.)])[ \t]+(?:\[[ xX]\][ \t]+)?", re.MULTILINE
)
# Every pattern below ends at the next sign that could open the same thing, or starts only at the
# beginning of a run: otherwise a hostile text costs quadratic time.
_CODE = (
    r"(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n\s*\n).){1,2000}?(?<!`)(?P=ticks)(?!`)",
    r"\{\{[^{}]*\}\}|\$?\{[^{}\n]*\}|%\(\w+\)[sd]|%[sd]\b|<%[^%]*%>",
    r"</?[A-Za-z!][^<>\n]*>",
    r"(?<![\w/.])(?:~|\.{0,2})/[\w.~/-]*\w",
    r"\b\w+(?:[\\/]\w[\w.-]*)+",
    r"\b\w*[a-zA-Z]_\w+|\b_\w+",
    r"(?<![\w.])\w+(?:\.\w+)*\(\)",
    r"(?<![\w-])--?[a-zA-Z][\w-]*(?:=\S+)?",
    r"\b[a-z]+[A-Z]\w*|\b[A-Z][a-z]+[A-Z]\w*",
    r"(?<![\w-])[\w-]+\.(?:[a-z]{2,5}\d?|[A-Z]{2,4})\b(?!\.\w)",
    r"\$[A-Z][A-Z_]+\b",
)
_LINK = (
    r"!?\[[^\[\]\n]*\]\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)",
    r"!?\[[^\[\]\n]+\]\[[^\[\]\n]*\]|\[\^[^\[\]\n]+\]",
    r"(?:https?|ftp|file)://[^\s<>\"“”]*[^\s<>\"“”.,;:!?)\]'\u2019*_]|mailto:\S+\w|\bwww\.[^\s<>\"]*\w",
    r"(?<![\w.+-])[\w.+-]+@\w[\w-]*(?:\.\w[\w-]*)*",
    r"(?<![\w@])[@#]\w[\w./-]*\w",
    r"(?<![\w.-])(?:[\w-]+\.)+(?:com|org|net|io|dev|gov|edu|info|example|de|eu|uk|test)\b(?:/[^\s<>\"]*\w)?",
)
_BLANK = r"(?!\n[ \t]*\n)"
_QUOTE = (
    rf'(?<![\w"])"(?=\S)(?:{_BLANK}.)*?(?<=[^\s"])"(?!\w)',
    rf'(?<![\w"])"(?=\S)(?:{_BLANK}.)*',  # never closed: the rest of the paragraph
    rf"“(?:{_BLANK}[^”])*”?",
    rf"«(?:{_BLANK}[^«»])*»|„(?:{_BLANK}[^„“”])*[“”]",
    rf"(?<!\w)\u2018(?=\S)(?:{_BLANK}[^\u2018])*?(?<=\S)\u2019(?!\w)",
    rf"(?<!\w)'(?=\S)(?:{_BLANK}[^'])+(?:'(?=\w)(?:{_BLANK}[^'])+){{0,4}}(?<=\S)'(?!\w)",
)


def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.DOTALL)


_INLINE = tuple(
    (why, _any(patterns))
    for why, patterns in (
        (Protection.CODE, _CODE[:1]),
        (Protection.LINK, _LINK),
        (Protection.QUOTE, _QUOTE),
        (Protection.CODE, _CODE[1:]),
    )
)


def protected(text: str) -> tuple[Protected, ...]:
    """Return the protected spans of a text in order; none overlaps another."""
    found = list(_apart(_fenced(text)))
    masked = mask(text, found)
    for why, pattern in (
        (Protection.STRUCTURE, _LINE),
        (Protection.STRUCTURE, _MARKER),
        *_INLINE,
    ):
        new = [Protected(*match.span(), why) for match in pattern.finditer(masked) if match[0]]
        masked = mask(masked, new)
        found += new
    return tuple(_apart(found))


def mask(text: str, spans: Iterable[Protected]) -> str:
    """Return the text with the characters of the spans masked, line breaks excepted."""
    parts, at = [], 0
    for span in sorted(spans):
        parts += [text[at : span.start], re.sub(r"[^\n]", MASK, text[span.start : span.end])]
        at = span.end
    return "".join([*parts, text[at:]])


def _apart(spans: Iterable[Protected]) -> Iterator[Protected]:
    """Give the spans in order; those that overlap become one, with the reason of the first."""
    last: Protected | None = None
    for span in sorted(spans):
        if last is None or span.start >= last.end:
            if last is not None:
                yield last
            last = span
        else:
            last = Protected(last.start, max(last.end, span.end), last.why)
    if last is not None:
        yield last


def _fenced(text: str) -> Iterator[Protected]:
    """Give the front matter and the fenced blocks of code, by Markdown's rules and by sight.

    A fence that words follow closes nothing in Markdown, but its writer may have thought so.
    """
    for fenced in _TRIPLE.finditer(text):
        yield Protected(*fenced.span(), Protection.CODE)
    at = 0
    if front := _FRONT_MATTER.match(text):
        at = front.end()
        yield Protected(0, at, Protection.STRUCTURE)
    while opening := _FENCE.search(text, at):
        closing = re.compile(
            rf"^[ \t]{{0,3}}{opening['fence']}[`~]*[ \t]*(?:\n|\Z)", re.MULTILINE
        ).search(text, opening.end())
        at = closing.end() if closing else len(text)
        yield Protected(opening.start(), at, Protection.CODE)
