"""Where a quotation stands in a text, and how similar two texts are."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, takewhile
from operator import eq
from typing import Any

from app.contract.judgement import Quotation, Span


def similarity(one: str, other: str) -> float:
    """Return the Jaccard similarity of the texts' word 3-grams (Broder 1997), in [0, 1].

    If a text has fewer than three words, it is 1 for equal words, else 0.
    """
    return 1.0 if one == other else _similarity(one.split(), other.split())


def is_similar(one: str, other: str, least: float) -> bool:
    """Return whether the `similarity` of two texts is at least `least`.

    Every word that only one of them has is in a 3-gram that the other lacks, so that most texts
    are told apart by their words alone.
    """
    if one == other:
        return least <= 1.0
    first, second = one.split(), other.split()
    apart = len(set(first) ^ set(second)) / 3
    if apart > (1.0 - least) * (len(first) + len(second)):
        return False
    return not _has_too_much_new(first, second, least) and _similarity(first, second) >= least


AT_ONCE = 1_000
"""Words that are looked at together."""


def _has_too_much_new(one: Sequence[str], other: Sequence[str], least: float) -> bool:
    """Return whether what a long text says anew already makes its similarity less than `least`.

    3-grams that only one of them has are in the union of both, and not in what both have.
    """
    start, end = _alike(one, other)
    middle = other[max(0, start - 2) : len(other) - end + 2]
    if len(middle) < AT_ONCE or 10 * len(middle) < len(one):
        return False
    known, new = _shingles(one), set[tuple[str, str, str]]()
    for at in range(0, len(middle), AT_ONCE):
        new |= _shingles(middle[at : at + AT_ONCE + 2]) - known
        if len(known) < least * (len(known) + len(new)):
            return True
    return False


def _alike(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """Return how many words at the start of both texts are equal, and how many others at the end.

    A revision mostly begins and ends as its base does.
    """
    start = sum(takewhile(bool, map(eq, one, other)))
    end = sum(takewhile(bool, map(eq, reversed(one), reversed(other))))
    return start, min(end, min(len(one), len(other)) - start)


def _similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the similarity of two lists of words; 3-grams that are alike are looked at once."""
    if min(len(one), len(other)) < 3:
        return float(one == other)
    start, end = _alike(one, other)
    shared = _shingles(one[:start]) | _shingles(one[len(one) - end :])
    before = max(0, start - 2)
    first = _shingles(one[before : len(one) - end + 2]) - shared
    second = _shingles(other[before : len(other) - end + 2]) - shared
    return (len(shared) + len(first & second)) / (len(shared) + len(first | second))


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


def _shingles(words: Sequence[str]) -> frozenset[tuple[str, str, str]]:
    return frozenset(zip(words, words[1:], words[2:], strict=False))


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
