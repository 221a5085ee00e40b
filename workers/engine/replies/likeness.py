"""How much two texts resemble each other, and where a quotation stands in a text.

A block of a text is a paragraph, a list or a heading: what stands between two blank lines.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise, takewhile
from operator import add, eq
from typing import Any

from app.contract.judgement import Quotation, Span

AROUND = 100
"""Words before and after a change that are compared with it."""

NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Scripts that put no spaces between words: Thai and its neighbours, Chinese, Japanese."""
WORDS = re.compile(f"[{NO_SPACES}]|[^\\s{NO_SPACES}]+")


def number_of_words(text: str) -> int:
    """Return how many words a text has; a character of a script without spaces is a word."""
    return len(WORDS.findall(text))


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


@lru_cache(maxsize=32)
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
        plain = [_plain(line) for line in self._lines]
        return [(line, _trigrams(line)) for line in plain]


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


SIGNS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
"""Letters of scripts that put no blank between words."""
ACCENTS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
"""Accents, and the scripts of India: their vowels are parts of words, and no letters."""
TOKEN = re.compile(rf"[{SIGNS}]+|(?:[^\W_{SIGNS}]|[{ACCENTS}])+")
SIGN = re.compile(f"[{SIGNS}]")
ASCII_SIGNS = {code: " " for code in range(128) if not chr(code).isalnum()}
BLANK_LINES = re.compile(r"\n[ \t]*\n")

FEW = 8
"""Words up to which a block is compared word by word, as a heading is often put differently."""
ALIKE = 0.25
"""Share of a block's pairs of words that one of the text has at least."""
THE_SAME = 0.5
"""The same for two blocks that say the same."""
FOREIGN = 0.2
"""Share of words in common below which a block may be in another language than a long text."""
FOREIGN_FROM = 8
"""Words of a block from which it is so; a shorter one needs another script."""
LONG = 40
"""Words of a draft from which it says something that a reply has little in common with it."""
ENOUGH = 12
"""Words of a draft from which it says something that a block of a reply has much in common."""


def words_and_signs(text: str) -> Sequence[str]:
    """Return the words of a text in lower case, where there are no blanks pairs of signs."""
    return known(text).sequence


def blocks_of(text: str) -> list[str]:
    """Return the blocks of a text that have a word, or anything but blanks."""
    return [block for block in BLANK_LINES.split(text) if block.strip()]


class KnownText:
    """A text that others are compared with; what is asked for is computed once."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def sequence(self) -> Sequence[str]:
        """Its words as `words_and_signs` returns them."""
        folded = self._text.casefold()
        if folded.isascii():  # the same words in a tenth of the time
            return tuple(folded.translate(ASCII_SIGNS).split())
        found = TOKEN.findall(folded)
        if SIGN.search(folded) is None:
            return tuple(found)
        words: list[str] = []
        for token in found:
            is_word = len(token) < 3 or SIGN.match(token) is None
            words += [token] if is_word else map(add, token, token[1:])
        return tuple(words)

    @cached_property
    def length(self) -> int:
        """How many words it has."""
        return len(self.sequence)

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words, each once."""
        return frozenset(self.sequence)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The pairs of its neighbouring words."""
        return frozenset(pairwise(self.sequence))

    @cached_property
    def blocks(self) -> tuple[str, ...]:
        """Its blocks."""
        return tuple(blocks_of(self._text))

    @cached_property
    def bare(self) -> frozenset[str]:
        """What stands in it between white space."""
        return frozenset(self._text.split())

    @cached_property
    def scripts(self) -> frozenset[str]:
        """The scripts of its letters."""
        return frozenset(map(_script_of, frozenset(self._text)))

    @property
    def is_long(self) -> bool:
        """Whether it is long enough for likeness to say something."""
        return self.length >= LONG

    @property
    def is_enough(self) -> bool:
        """Whether it is long enough to tell its blocks in a reply from others."""
        return self.length >= ENOUGH

    def share_of(self, words: Sequence[str]) -> float:
        """Return the share of these words that it has, counting each once."""
        distinct = set(words)
        return len(distinct & self.words) / len(distinct) if distinct else 0.0

    def has_words_of(self, text: str) -> bool:
        """Return whether a text certainly resembles it: most of its words stand in it as they are.

        The answer takes a tenth of the time of a comparison, and says nothing of scripts without
        blanks.
        """
        words = known(text).bare
        return len(words) >= FEW and 2 * len(words & self.bare) > len(words)

    def likeness(self, text: str) -> float:
        """Return the share of a text's pairs of words that it has, of a short text its words."""
        other = known(text)
        if other.length < FEW:
            return len(other.words & self.words) / len(other.words) / 2 if other.words else 0.0
        return len(other.pairs & self.pairs) / len(other.pairs)

    def may_be_foreign(self, text: str, least: int = 3) -> bool:
        """Return whether a text of at least so many words has hardly any in common with it."""
        words = [word for word in words_and_signs(text) if word.isalpha()]
        return self.length >= 2 * LONG and len(words) >= least and self.share_of(words) < FOREIGN

    def is_foreign_to(self, part: str) -> bool:
        """Return whether a part of this text is in another script than most of it."""
        folded = part.casefold()
        has_letters = any(map(str.isalpha, folded))
        is_other = has_letters and not any(
            letter <= "\u024f" for letter in folded if letter.isalpha()
        )
        return is_other and 4 * sum(letter > "\u024f" for letter in self.words) < len(self.words)

    def is_foreign(self, text: str) -> bool:
        """Return whether a text is in another language, by its script or by enough words."""
        return self.is_in_another_script(text) or self.may_be_foreign(text, FOREIGN_FROM)

    def is_in_another_script(self, text: str) -> bool:
        """Return whether most letters of a text are in a script that this text does not have."""
        letters = [letter for letter in text if letter.isalpha()]
        other = sum(
            letter > "\u024f" and _script_of(letter) not in self.scripts for letter in letters
        )
        return self.length >= LONG and 2 * other > len(letters)


@lru_cache(maxsize=4_096)
def _script_of(letter: str) -> str:
    """Return the script of a letter, by the first word of its name in Unicode."""
    return unicodedata.name(letter, "").partition(" ")[0] if letter.isalpha() else ""


def known(text: str) -> KnownText:
    """Return a text that others are compared with; the last ones are kept, fewer of long ones."""
    return _known_short(text) if len(text) <= SHORT else _known_long(text)


SHORT = 10_000
"""Characters of a text up to which it takes less than half a megabyte here."""


@lru_cache(maxsize=256)
def _known_short(text: str) -> KnownText:
    return KnownText(text)


@lru_cache(maxsize=16)
def _known_long(text: str) -> KnownText:
    return KnownText(text)


def are_alike(one: str, other: str) -> bool:
    """Return whether one of two blocks says what the other says."""
    return known(one).likeness(other) >= THE_SAME or known(other).likeness(one) >= THE_SAME


def first_and_last(text: KnownText, blocks: Sequence[str]) -> tuple[int, int] | None:
    """Return the first and the last block that resembles a text, None if none does."""
    alike = (place for place, block in enumerate(blocks) if text.likeness(block) >= ALIKE)
    first = next(alike, None)
    if first is None:
        return None
    after = range(len(blocks) - 1, first, -1)
    return first, next((place for place in after if text.likeness(blocks[place]) >= ALIKE), first)


def repeats_itself(text: str) -> bool:
    """Return whether a text has lost itself in saying the same again and again."""
    blocks = (block.strip() for block in text.split("\n\n"))
    if _longest_run(block for block in blocks if len(block) > MOST_OF_A_REFRAIN) >= MOST_RUN:
        return True
    return _ends_in_a_loop(words_and_signs(text[-LOOPS_WITHIN:]))


MOST_OF_A_REFRAIN = 40
MOST_RUN = 3
LOOPS = tuple((length, max(8 * length, 40)) for length in range(1, 31))
"""How many words come again and again, and how many words at the end of a text they fill."""
LOOPS_WITHIN = 6_000


def _longest_run(items: Iterable[str]) -> int:
    longest, run, last = 0, 0, None
    for item in items:
        run = run + 1 if item == last else 1
        longest, last = max(longest, run), item
    return longest


def _ends_in_a_loop(words: Sequence[str]) -> bool:
    """Return whether a text ends in the same words, up to 30 of them, eight times or more."""
    count = len(words)
    for length, filled in LOOPS:
        if filled > count:
            return False
        may_be = words[-1] == words[-1 - length]  # before slices are compared
        if may_be and words[-filled:-length] == words[length - filled :]:
            return True
    return False
