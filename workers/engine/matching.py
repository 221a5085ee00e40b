"""Where a quotation stands in a text, and how similar two texts are."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, takewhile
from operator import eq
from typing import Any

from app.contract.judgement import Quotation, Span

AROUND = 100
"""Words before and after a change that are compared with it."""

NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Scripts that put no spaces between words: Thai and its neighbours, Chinese, Japanese."""
WORDS = re.compile(f"[{NO_SPACES}]|[^\\s{NO_SPACES}]+")


def likeness(one: str, other: str) -> float:
    """Return the Jaccard similarity of word 3-grams (Broder 1997) around all changes, in [0, 1].

    Only 3-grams within `AROUND` words of a change count, so that it says the same of one change in
    a short and in a long text. White space does not count. A character of a script without spaces
    is a word. If a text has fewer than three words, it is 1 for equal words, else 0.
    """
    first, second = WORDS.findall(one), WORDS.findall(other)
    if first == second or min(len(first), len(second)) < 3:
        return float(first == second)
    start, end = _alike(first, second)
    start, end = max(0, start - AROUND - 2), max(0, end - AROUND - 2)
    grams = [_hashed_grams(words[start : len(words) - end]) for words in (first, second)]
    changed = [_lacking(grams[0], grams[1]), _lacking(grams[1], grams[0])]
    shared = max(map(_unchanged_near, changed, map(len, grams)))
    lacking = sum(map(len, changed))
    return shared / (shared + lacking) if lacking else 1.0


def is_same_text(one: str, other: str) -> bool:
    """Return whether two texts are equal but for line ends and the white space before them."""
    return one == other or _lines(one) == _lines(other)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _alike(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """Return how many words at the start of both texts are equal, and how many others at the end.

    A revision mostly begins and ends as its base does.
    """
    start = sum(takewhile(bool, map(eq, one, other)))
    end = sum(takewhile(bool, map(eq, reversed(one), reversed(other))))
    return start, min(end, min(len(one), len(other)) - start)


def _lacking(grams: Sequence[int], others: Sequence[int]) -> list[int]:
    """Return the positions of the 3-grams that the other text does not have as often."""
    left, positions = Counter(others), []
    for position, gram in enumerate(grams):
        if left[gram] > 0:
            left[gram] -= 1
        else:
            positions.append(position)
    return positions


def _unchanged_near(changed: Sequence[int], count: int) -> int:
    """Return how many of `count` 3-grams are unchanged and within `AROUND` of a changed one."""
    near = end = 0
    for position in changed:
        start, end = max(end, position - AROUND), min(count, position + AROUND + 1)
        near += end - start
    return near - len(changed)


def jaccard(one: frozenset[Any], other: frozenset[Any]) -> float:
    """Return the size of the intersection over that of the union; 1 for two empty sets."""
    shared = len(one & other)
    held = len(one) + len(other) - shared
    return shared / held if held else 1.0


SAME_WORDS = 0.7
"""Share of a line's 3-grams of characters from which it says nothing new. The 3-grams of unrelated
English lines of 300 characters overlap by a third."""


class Told:
    """Lines that were told already."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = tuple(lines)

    def says(self, line: str) -> bool:
        """Return whether a line says only what one of them says, in much the same words.

        In any language: only letters and digits count, and spaces need not separate words. A short
        line must occur in what was told as it is.
        """
        if not self._lines:
            return False
        given = _plain(line)
        if len(given) < 12:
            return any(given in known for known, _ in self._known)
        said = _trigrams(given)
        most = max([len(said & known) for _, known in self._known])
        return most >= SAME_WORDS * len(said)

    @cached_property
    def _known(self) -> list[tuple[str, set[str]]]:
        plain = [_plain(it) for it in self._lines]
        return [(it, _trigrams(it)) for it in plain]


NEITHER_LETTERS_NOR_DIGITS = re.compile(r"[\W_]+")


def _plain(text: str) -> str:
    return NEITHER_LETTERS_NOR_DIGITS.sub("", text.casefold())


def _trigrams(plain: str) -> set[str]:
    return {plain[at : at + 3] for at in range(len(plain) - 2)}


def _hashed_grams(words: Sequence[str]) -> list[int]:
    """Return the 3-grams of words as numbers: 40,000 tuples would occupy the garbage collector."""
    return list(map(hash, zip(words, words[1:], words[2:], strict=False)))


WHITE = re.compile(r"\s+")

LONGEST = 1_000
"""Code points of a quotation; a longer one is truncated."""


class Source:
    """A text that is quoted from."""

    def __init__(self, text: str) -> None:
        self._text = text

    def quotation(self, said: str, at: Span | None = None) -> Quotation | None:
        """Return the quoted words and where they occur in the text; None when they do not.

        They occur exactly, or else with runs of white space treated as equal. `at` chooses among
        several places; it is ignored if other words are there, and the first place is taken.
        """
        quote = said.strip()
        if not quote:
            return None
        if at is not None and even(self._text[at.start : at.end]) == even(quote):
            return self._at(at.start, at.end)
        start = self._text.find(quote)
        if start >= 0:
            return self._at(start, start + len(quote))
        start = self._evened.find(even(quote))
        if start < 0:
            return None
        return self._at(self._place(start), self._place(start + len(even(quote)) - 1) + 1)

    def holds(self, span: Span) -> bool:
        """Return whether a span lies in the text."""
        return span.start <= span.end <= len(self._text)

    def _at(self, start: int, end: int) -> Quotation:
        end = min(end, start + LONGEST, len(self._text))
        return Quotation(quote=self._text[start:end], span=Span(start=start, end=end))

    @cached_property
    def _evened(self) -> str:
        return WHITE.sub(" ", self._text)

    @cached_property
    def _runs(self) -> tuple[list[int], list[int]]:
        """Return where the evened text is shorter than the text, and by how much up to there."""
        runs = [found.span() for found in WHITE.finditer(self._text)]
        lost = [0, *accumulate(end - start - 1 for start, end in runs)]
        return [start - less for (start, _), less in zip(runs, lost, strict=False)], lost

    def _place(self, position: int) -> int:
        """Return the position in the text of a character, not white, of the evened text."""
        places, lost = self._runs
        return position + lost[bisect_left(places, position)]


def even(text: str) -> str:
    """Return a text with each run of white space replaced by one space, and none around it."""
    return WHITE.sub(" ", text).strip()
