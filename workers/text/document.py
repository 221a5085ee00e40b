"""A text as words and sentences, with the spans that no edit may touch.

Those are code, links, quotations and the structure of the page, found by the rules of Markdown,
reStructuredText and plain e-mail, and legal texts, whose wording is theirs. In doubt, more is
protected.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise

from workers.text.tables import patterns, word_list

MASK = "\ufffc"
"""Replaces every protected character, so that positions stay the same."""


class Protection(StrEnum):
    """Why a span is protected. Words in quotations and verbatim prose are read, others are not."""

    CODE = "code"
    LINK = "link"
    QUOTE = "quote"
    STRUCTURE = "structure"
    VERBATIM = "verbatim"


_READ = frozenset({Protection.QUOTE, Protection.VERBATIM})


@dataclass(frozen=True, slots=True, order=True)
class Protected:
    """Characters `start` to `end` (exclusive) that no edit may change."""

    start: int
    end: int
    why: Protection


_PATTERNS: Mapping[str, Sequence[str]] = patterns("protected.toml")
_FENCE = re.compile(r"^[ \t]{0,3}(?P<fence>`{3,}|~{3,})[^\n]*(?:\n|\Z)", re.MULTILINE)
_TRIPLE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_FRONT_MATTER = re.compile(r"\A ?---[ \t]*\n.*?\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_LINE = re.compile(
    "|".join(rf"^(?:{line})" for line in _PATTERNS["lines"]), re.MULTILINE | re.IGNORECASE
)
_LEVEL = re.compile(
    r"^[^\na-z]{0,40}\b(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SEVERE|PANIC)\b"
    r"[^\n]*[a-z][^\n]*$",
    re.MULTILINE,
)
"""A line of a log, by its level."""
_MARKER = re.compile(
    r"^[ \t]*(?:[-*+•\u2013]|\(?(?:\d{1,3}|[a-zA-Z])[.)])[ \t]+(?:\[[ xX]\][ \t]+)?", re.MULTILINE
)
_BLANK = r"(?!\n[ \t]*\n)"


def _any(alternatives: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(alternatives).replace("{BLANK}", _BLANK), re.DOTALL)


_INLINE = tuple(
    (why, _any(alternatives))
    for why, alternatives in (
        (Protection.CODE, _PATTERNS["code"][:1]),
        (Protection.LINK, _PATTERNS["link"]),
        (Protection.QUOTE, _PATTERNS["quote"]),
        (Protection.CODE, _PATTERNS["code"][1:]),
    )
)


def protected(text: str) -> tuple[Protected, ...]:
    """Return the protected spans of a text in order; none overlaps another."""
    found = list(_apart(_fenced(text)))
    masked = mask(text, found)
    for why, pattern in (
        (Protection.STRUCTURE, _LEVEL),
        (Protection.STRUCTURE, _LINE),
        (Protection.STRUCTURE, _MARKER),
        *_INLINE,
    ):
        new = [Protected(*match.span(), why) for match in pattern.finditer(masked) if match[0]]
        masked = mask(masked, new)
        found += new
    return tuple(_apart([*found, *_verbatim(text, masked)]))


def mask(text: str, spans: Iterable[Protected]) -> str:
    """Return the text with the characters of the spans masked, line breaks excepted."""
    parts, at = [], 0
    for span in sorted(spans):
        parts += [text[at : span.start], re.sub(r"[^\n]", MASK, text[span.start : span.end])]
        at = span.end
    return "".join([*parts, text[at:]])


def _apart(spans: Iterable[Protected]) -> Iterator[Protected]:
    """Yield the spans in order; those that overlap are merged, with the reason of the first."""
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
    """Yield the front matter and the fenced code blocks, by Markdown's rules and by appearance.

    A fence followed by words does not close a block in Markdown, but its writer may have meant it.
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


_PARAGRAPH = re.compile(r"(?:^[^\n]*[^\W_][^\n]*(?:\n|\Z))+", re.MULTILINE)
_LEGAL = re.compile("|".join(_PATTERNS["legal"]), re.IGNORECASE)
"""Words of licences, contracts and courts."""

_DECLARATION = re.compile("|".join(_PATTERNS["declaration"]), re.IGNORECASE)
_MAYBE_LEGAL = re.compile("|".join(_PATTERNS["maybe_legal"]), re.IGNORECASE)
"""Words of theirs that stand in other texts too."""

_WORD_OF_NAME = r"(?:[A-Z][\w.'\u2019-]*|de|der|den|du|la|le|van|von)"
_PLACE = r"(?:,[ \t]+[A-Z][^()\n]{0,40})?"
_NAME = rf"[A-Z][\w.'\u2019-]*(?:[ \t]+{_WORD_OF_NAME}){{0,4}}{_PLACE}"
_FULL_NAME = rf"[A-Z][\w.'\u2019-]*(?:[ \t]+{_WORD_OF_NAME}){{1,4}}{_PLACE}"
_SIGNATURE = rf"[ \t]*(?:\({_NAME}\)|(?:--|[\u2014\u2015])[ \t]+[^\W\d_a-z][^\n]*)"
"""A line with the name of the person whose words stand before it."""

_SIGNED_LINE = re.compile(rf"{_SIGNATURE}\s*")
_SIGNED = re.compile(
    rf"(?:[.!?][)\"'\u201d\u2019]*\s+\({_FULL_NAME}\)\s*|\n{_SIGNATURE}(?:\n[ \t]+[^\n]*)*\s*)\Z"
)
"""The end of a paragraph with that name in its last line, or in one that goes on below it."""

MOST_SIGNED = 2
"""Signed paragraphs in a text; one with more is a collection of what others said.

So is one with more lines of "%", which stand between the sayings of the program `fortune`.
"""

_BETWEEN_SAYINGS = re.compile(r"^%[ \t]*$", re.MULTILINE)

_SPOKEN = re.compile(r"[ \t]*(?:<[^<>\n]{1,20}>|[A-Z][\w.]*(?: [A-Z][\w.]*)?:)[ \t]+\S")
"""The beginning of what somebody says in a chat or a dialogue."""

LONGEST_VERSE = 60
"""Characters of the longest line of a poem."""

FEWEST_VERSES = 3

_LISTED = re.compile(r"[ \t]*(?:[-*+\u2022\u2013]|\(?(?:\d{1,3}|[a-zA-Z])[.)])[ \t]")

_LEGAL_TITLE = re.compile(
    r"(?:\A|<title>)\W*[^\n]{0,60}\b(?:licen[sc]es?|copying|copyrights?|agreement"
    r"|terms of (?:use|service)|terms (?:and conditions|for)|acceptable use|privacy"
    r"|disclaimer|certificate of origin"
    r"|(?P<alone>constitution|by-?laws|code of conduct))\b[^\n]{0,60}(?:\n|\Z)",
    re.IGNORECASE,
)
_LIKE_CODE = re.compile("|".join(_PATTERNS["like_code"]), re.MULTILINE)
_NORM = re.compile(r"[a-z,] (?:MUST|SHALL|SHOULD|MAY|REQUIRED|RECOMMENDED)(?: NOT)? (?=[a-z])")
"""A word of a specification (RFC 2119)."""

_INDENTED = re.compile(
    r"^(?P<indent>[ \t]*+)[^\n]*:[ \t]*\n(?:[ \t]*\n)+"
    r"(?P<block>(?:(?P=indent)[ \t]+\S[^\n]*(?:\n|\Z)|[ \t]*\n)+)",
    re.MULTILINE,
)
"""Lines that are further to the right than the one with a colon before them: an example."""

_UNPROTECTED = re.compile(rf"[^{MASK}\s](?:[^{MASK}\n]*[^{MASK}\s])?")
FEWEST_LEGAL = 0.3
"""Share of the long paragraphs of a text that are legal from which all of it is."""

LONG_PARAGRAPH = 80
"""Characters of a paragraph that counts for that share: headings do not."""

AROUND_LEGAL = 2
"""Paragraphs before and after a legal one that are legal too."""

FEWEST_WORDS = 12
"""Words of a paragraph from which it can be told to be in another language."""

LEAST_ENGLISH = 0.12
"""Share of the commonest English words below which a paragraph is no English prose."""


def _verbatim(text: str, masked: str) -> Iterator[Protected]:
    """Yield what is left alone though it is prose: legal, a norm, with code in it, or not English.

    Only the stretches are yielded that nothing else protects.
    """
    paragraphs = [match.span() for match in _PARAGRAPH.finditer(masked)]
    legal = {at for at, (start, end) in enumerate(paragraphs) if _is_legal(masked[start:end])}
    long = [at for at, (start, end) in enumerate(paragraphs) if end - start >= LONG_PARAGRAPH]
    title = _LEGAL_TITLE.search(text)
    signed = {*_signed(text, paragraphs)}
    is_whole = (
        max(len(signed), len(_BETWEEN_SAYINGS.findall(text))) > MOST_SIGNED
        or sum(at in legal for at in long) > FEWEST_LEGAL * len(long)
        or (title is not None and (len(legal) > 1 or title["alone"] is not None))
    )
    quoted = {*signed, *_declared(text, paragraphs), *_said(text, paragraphs)}
    spans = [
        (start, end)
        for at, (start, end) in enumerate(paragraphs)
        if is_whole
        or at in quoted
        or not legal.isdisjoint(range(at - AROUND_LEGAL, at + AROUND_LEGAL + 1))
        or not _is_prose(masked[start:end])
    ]
    spans += [match.span("block") for match in _INDENTED.finditer(masked)]
    for start, end in spans:
        for free in _UNPROTECTED.finditer(masked, start, end):
            yield Protected(*free.span(), Protection.VERBATIM)


def _signed(text: str, paragraphs: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield which paragraphs are the words of the person whose name stands below them."""
    for at, (start, end) in enumerate(paragraphs):
        following = slice(*paragraphs[at + 1]) if at + 1 < len(paragraphs) else slice(0, 0)
        if _SIGNED.search(text[start:end]) or _SIGNED_LINE.fullmatch(text[following]):
            yield at


def _said(text: str, paragraphs: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield which paragraphs are a dialogue, a chat or a poem."""
    for at, (start, end) in enumerate(paragraphs):
        block = text[start:end].rstrip().splitlines()
        is_spoken = sum(_SPOKEN.match(line) is not None for line in block) > 1
        verses = [line.strip() for line in block]
        is_poem = len(verses) >= FEWEST_VERSES and all(
            line[:1].isupper() and len(line) <= LONGEST_VERSE for line in verses
        )
        if is_spoken or is_poem:
            yield at


def _declared(text: str, paragraphs: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield which paragraphs hold a declaration, or an item of a list with or after one."""
    is_within = False
    items: list[int] = []
    for at, (start, end) in enumerate(paragraphs):
        is_item = _LISTED.match(text, start) is not None
        is_declaration = _DECLARATION.search(text, start, end) is not None
        is_within = is_declaration or (is_within and is_item)
        items = [*items, at] if is_item else []
        if is_within:
            yield from (*items, at)


def _is_legal(paragraph: str) -> bool:
    """Return whether a paragraph has a word of licences and contracts, and another one."""
    strong = {match[0].lower() for match in _LEGAL.finditer(paragraph)}
    return len(strong) > 1 or (
        bool(strong)
        and any(match[0].lower() not in strong for match in _MAYBE_LEGAL.finditer(paragraph))
    )


def _is_prose(paragraph: str) -> bool:
    """Return whether a paragraph is no code, no norm and, if it is long enough, English."""
    if _LIKE_CODE.search(paragraph) or _NORM.search(paragraph):
        return False
    read = [match[0].lower() for match in WORD.finditer(paragraph)]
    common = sum(word in word_list("common") for word in read)
    return len(read) < FEWEST_WORDS or common >= LEAST_ENGLISH * len(read)


WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
ABBREVIATIONS = word_list("abbreviations")
_END = re.compile(
    rf"(?<![\w\u2019'.!?…)\]{MASK}%])(?P<before>(?:[\w\u2019')\]{MASK}%]|\.(?=\w))*)[.!?…]+"
    r"[\"”\u2019'»)\]*_]*(?=\s+[\"“\u2018'«(\[*_]*(?P<next>\S))"
)
_GAP = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*\ufffc)")
_STANDS_ALONE = re.compile(r"^[^\n]{0,40}\b(?P<last>\w+)[:)]?[ \t]*$(?=\n[A-Z])", re.MULTILINE)
_OPENERS = word_list("openers")
_CAPITAL_PLACE = re.compile(
    r"(?<=[a-z]{3}[.?!]\s)[a-zA-Z]|(?<=[a-z]{3}[.?!]\s\s)[a-zA-Z]|(?<=\n\n)[a-zA-Z]|\A[a-zA-Z]"
    r"|(?<![\w'\u2019.(-])[iI](?=['\u2019](?:m|ve|ll|d)\b|[ \t\n])"
)
"""Letters that are capitals in common English: at the start of a sentence, and "I"."""

FEWEST_SMALL = 3
"""Small letters in such places from which they may be the writer's style."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word; `is_free` when it is outside every protected span."""

    text: str
    start: int
    end: int
    is_free: bool

    @property
    def lower(self) -> str:
        """Return the word in lower case with straight apostrophes."""
        return self.text.lower().replace("\u2019", "'")


@dataclass(frozen=True, slots=True)
class Sentence:
    """Characters `start` to `end` of a text, and the words between them."""

    start: int
    end: int
    words: tuple[Word, ...]


_CARRIAGE_RETURN = re.compile(r"\r(?P<pair>(?=\n))?")


def _with_plain_lines(text: str) -> str:
    """Return a text of the same length whose lines end with a line feed, and without a mark."""
    if "\r" in text:
        text = _CARRIAGE_RETURN.sub(lambda end: "\n" if end["pair"] is None else " ", text)
    return text if text[:1] != "\ufeff" else f" {text[1:]}"


class Document:
    """Everything about one text that the rules share; each part is computed once."""

    def __init__(self, text: str) -> None:
        self.text = text
        plain = _with_plain_lines(text)
        self.protected = protected(plain)
        self._starts = [span.start for span in self.protected]
        self.masked = mask(plain, self.protected)
        self._readable = mask(plain, [span for span in self.protected if span.why not in _READ])
        self._divided = mask(
            plain, [span for span in self.protected if span.why is not Protection.VERBATIM]
        )

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Return the words of the prose in order, those in quotations included."""
        return tuple(
            Word(match[0], *match.span(), self.is_free(*match.span()))
            for match in WORD.finditer(self._readable)
        )

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        """Return the sentences that hold at least one word, in order."""
        return tuple(self._sentences())

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the words that are names: capitals inside a sentence, or beside another one."""
        names: set[str] = set()
        for sentence in self.sentences:
            for at, word in enumerate(sentence.words):
                if word.text[0].isupper() and word.text.replace("\u2019", "'")[:2] not in {
                    "I",
                    "I'",
                }:
                    opens = at == 0 or self._opens_quote(word)
                    if not opens or self._is_name_in_front(sentence.words[at : at + 2]):
                        names.add(word.text)
        return frozenset(names)

    @cached_property
    def is_lower_case(self) -> bool:
        """Return whether the writer uses no capitals: small letters begin most sentences."""
        small = sum(match[0].islower() for match in _CAPITAL_PLACE.finditer(self.masked))
        large = sum(match[0].isupper() for match in _CAPITAL_PLACE.finditer(self.masked))
        return small >= FEWEST_SMALL and small > large

    def is_free(self, start: int, end: int) -> bool:
        """Return whether nothing between two positions is protected."""
        after = bisect_left(self._starts, end)
        return after == 0 or self.protected[after - 1].end <= start

    def word_before(self, position: int) -> Word | None:
        """Return the last word that ends at or before a position."""
        at = bisect_right(self.words, position, key=lambda word: word.end)
        return self.words[at - 1] if at else None

    def words_before(self, position: int, count: int) -> tuple[Word, ...]:
        """Return the last words of a sentence that end at or before a position, at most `count`."""
        at = bisect_right(self.words, position, key=lambda word: word.end)
        sentence = self.sentence_at(position)
        start = sentence.start if sentence else position
        return tuple(word for word in self.words[max(0, at - count) : at] if word.start >= start)

    def word_after(self, position: int) -> Word | None:
        """Return the first word that starts at or after a position."""
        at = bisect_left(self.words, position, key=lambda word: word.start)
        return self.words[at] if at < len(self.words) else None

    def sentence_at(self, position: int) -> Sentence | None:
        """Return the sentence that holds a position."""
        at = bisect_right(self.sentences, position, key=lambda sentence: sentence.start)
        found = self.sentences[at - 1] if at else None
        return found if found and position <= found.end else None

    def _opens_quote(self, word: Word) -> bool:
        return (
            not word.is_free
            and not self.is_free(word.start - 1, word.start)
            and (self.text[word.start - 1] in "\"“\u2018'«")
        )

    @staticmethod
    def _is_name_in_front(pair: tuple[Word, ...]) -> bool:
        """Return whether a sentence's first word is a name, by capitals in it or the next word."""
        first = pair[0].text
        if len(first) > 1 and not first[1:].islower():
            return True
        return (
            len(pair) == 2
            and pair[1].text[0].isupper()
            and pair[0].lower not in _OPENERS
            and (pair[1].text[0:2] not in {"I", "I'", "I\u2019"})
        )

    def _sentences(self) -> Iterator[Sentence]:
        words = iter(self.words)
        word = next(words, None)
        for start, end in self._stretches():
            inside = []
            while word is not None and word.start < end:
                inside.append(word)
                word = next(words, None)
            if inside:
                first = max(start, min(inside[0].start, self._first_visible(start, end)))
                yield Sentence(first, end, tuple(inside))

    def _first_visible(self, start: int, end: int) -> int:
        visible = re.compile(r"\S").search(self._divided, start, end)
        return visible.start() if visible else end

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """Yield where sentences begin and end; protected lines belong to none."""
        edges = {0, len(self.text)}
        edges.update(match.end() for match in _END.finditer(self._ends()) if _ends_here(match))
        edges.update(match.start() for match in _GAP.finditer(self._divided))
        edges.update(
            match.end()
            for match in _STANDS_ALONE.finditer(self._divided)
            if match["last"].lower() not in _OPENERS
        )
        for span in self.protected:
            is_code = span.why is Protection.CODE and "\n" in self.text[span.start : span.end]
            if is_code or span.why is Protection.STRUCTURE:
                edges.update((span.start, span.end))
        ordered = sorted(edges)
        yield from pairwise(ordered)

    def _ends(self) -> str:
        """Return the masked text with the last two characters of quotations unmasked."""
        return _unmasked(self._divided, self.text, self.protected)


def _unmasked(masked: str, text: str, spans: tuple[Protected, ...]) -> str:
    parts, at = [], 0
    for span in spans:
        if span.why is Protection.QUOTE and span.end - span.start > 2:
            parts += [masked[at : span.end - 2], text[span.end - 2 : span.end]]
            at = span.end
    return "".join([*parts, masked[at:]])


def _ends_here(match: re.Match[str]) -> bool:
    before = match["before"].lstrip("('\u2019[").lower()
    if match["next"].islower():
        return False
    if "?" in match[0] or "!" in match[0]:
        return True
    is_initial = len(before) == 1 and before.isalpha() and before != "i"
    return not (is_initial or before in ABBREVIATIONS or re.fullmatch(r"(?:\w\.)+\w", before))
