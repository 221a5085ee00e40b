"""How much a reply to a request for a revision resembles the draft: which blocks, and which lines.

A block is a paragraph, a list or a heading: what stands between two blank lines.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

SIGNS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
"""Letters of scripts that put no blank between words."""
ACCENTS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
"""Accents, and the scripts of India: their vowels are parts of words, and no letters."""
TOKEN = re.compile(rf"[{SIGNS}]+|(?:[^\W_{SIGNS}]|[{ACCENTS}])+")
SIGN = re.compile(f"[{SIGNS}]")
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


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, where there are no blanks pairs of signs."""
    found = TOKEN.findall(text.casefold())
    if not any(map(SIGN.match, found)):
        return found
    words: list[str] = []
    for it in found:
        is_word = len(it) < 3 or SIGN.match(it) is None
        words += [it] if is_word else [it[at : at + 2] for at in range(len(it) - 1)]
    return words


def pairs_of(words: Sequence[str]) -> set[tuple[str, str]]:
    """Return the pairs of neighbouring words."""
    return set(pairwise(words))


def blocks_of(text: str) -> list[str]:
    """Return the blocks of a text that have a word, or anything but blanks."""
    return [it for it in BLANK_LINES.split(text) if it.strip()]


class KnownText:
    """A text that others are compared with."""

    def __init__(self, text: str) -> None:
        words = words_of(text)
        self.length = len(words)
        self.words = frozenset(words)
        self.scripts = frozenset(map(_script_of, frozenset(text)))
        self.pairs = pairs_of(words)
        self.blocks = blocks_of(text)
        self.bare = frozenset(text.split())

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

        It takes a tenth of the time of a comparison, and says nothing of scripts without blanks.
        """
        words = set(text.split())
        return len(words) >= FEW and 2 * len(words & self.bare) > len(words)

    def likeness(self, text: str) -> float:
        """Return the share of a text's pairs of words that it has, of a short text its words."""
        other = _compared(text)
        if other.length < FEW:
            return len(other.words & self.words) / len(other.words) / 2 if other.words else 0.0
        return len(other.pairs & self.pairs) / len(other.pairs)

    def may_be_foreign(self, text: str, least: int = 3) -> bool:
        """Return whether a text of at least so many words has hardly any in common with it."""
        words = [it for it in words_of(text) if it.isalpha()]
        return self.length >= 2 * LONG and len(words) >= least and self.share_of(words) < FOREIGN

    def is_foreign_to(self, part: str) -> bool:
        """Return whether a part of this text is in another script than most of it."""
        letters = [it for it in part.casefold() if it.isalpha()]
        is_other = bool(letters) and all(it > "\u024f" for it in letters)
        return is_other and 4 * sum(it > "\u024f" for it in self.words) < len(self.words)

    def is_foreign(self, text: str) -> bool:
        """Return whether a text is in another language, by its script or by enough words."""
        return self.is_in_another_script(text) or self.may_be_foreign(text, FOREIGN_FROM)

    def is_in_another_script(self, text: str) -> bool:
        """Return whether most letters of a text are in a script that this text does not have."""
        letters = [it for it in text if it.isalpha()]
        other = sum(it > "\u024f" and _script_of(it) not in self.scripts for it in letters)
        return self.length >= LONG and 2 * other > len(letters)


@lru_cache(maxsize=4_096)
def _script_of(letter: str) -> str:
    """Return the script of a letter, by the first word of its name in Unicode."""
    return unicodedata.name(letter, "").partition(" ")[0] if letter.isalpha() else ""


@lru_cache(maxsize=1_024)
def _compared(text: str) -> KnownText:
    return KnownText(text)


@lru_cache(maxsize=16)
def known(text: str) -> KnownText:
    """Return a text that replies are compared with; the last ones are kept."""
    return KnownText(text)


def are_alike(one: str, other: str) -> bool:
    """Return whether one of two blocks says what the other says."""
    first, second = KnownText(one), KnownText(other)
    return max(first.likeness(other), second.likeness(one)) >= THE_SAME


def first_and_last(text: KnownText, blocks: Sequence[str]) -> tuple[int, int] | None:
    """Return the first and the last block that resembles a text, None if none does."""
    alike = [number for number, it in enumerate(blocks) if text.likeness(it) >= ALIKE]
    return (alike[0], alike[-1]) if alike else None


def repeats_itself(text: str) -> bool:
    """Return whether a text has lost itself in saying the same again and again."""
    blocks = (it.strip() for it in text.split("\n\n"))
    if _longest_run(it for it in blocks if len(it) > MOST_OF_A_REFRAIN) >= MOST_RUN:
        return True
    return _ends_in_a_loop(words_of(text[-LOOPS_WITHIN:]), MOST_LOOPS)


MOST_OF_A_REFRAIN = 40
MOST_RUN = 3
MOST_LOOPS = 8
LOOPS_WITHIN = 6_000


def _longest_run(items: Iterable[str]) -> int:
    longest, run, last = 0, 0, None
    for it in items:
        run = run + 1 if it == last else 1
        longest, last = max(longest, run), it
    return longest


def _ends_in_a_loop(words: Sequence[str], times: int) -> bool:
    """Return whether a text ends in the same words, up to 30 of them, that many times."""
    for length in range(1, 31):
        need = max(times * length, 40)
        tail = words[-need:]
        if len(tail) == need and all(a == b for a, b in zip(tail, tail[length:], strict=False)):
            return True
    return False
