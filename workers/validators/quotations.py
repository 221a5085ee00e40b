"""Quotations looked up in documents, word for word: case, punctuation and spacing do not count."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from unicodedata import normalize

WORD = re.compile(r"\w+")
LEFT_OUT = re.compile(r"\[[^\[\]]*\]\w*|\.{3,}|…")
"""An ellipsis, or what an editor put in brackets."""


def words_of(text: str) -> list[str]:
    """Return the words of a text in the form in which they are compared."""
    return WORD.findall(normalize("NFKC", text).casefold().replace("\u2019", "").replace("'", ""))


class Words:
    """Documents as words; each is read when it is first wanted."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        self._read = cache(lambda name: f" {' '.join(words_of(documents[name]))} ")

    def missing(self, quotation: str, names: Sequence[str]) -> str | None:
        """Return `None` if a document has the quotation, else in words how far the best one goes.

        What is left out in between may be anything, as long as the parts come in their order.
        """
        parts = [words for part in LEFT_OUT.split(quotation) if (words := words_of(part))]
        best = 0
        for name in names:
            matched = self._matched(parts, self._read(name))
            if matched == sum(map(len, parts)):
                return None
            best = max(best, matched)
        words = [word for part in parts for word in part]
        if not best:
            return f"{words[0]!r} is not there" if len(words) == 1 else "nothing there begins so"
        return f"it departs from it after {' '.join(words[max(0, best - 6) : best])!r}"

    def _matched(self, parts: Sequence[Sequence[str]], document: str) -> int:
        """Return how many words are there, up to the first that is not."""
        done, at = 0, 0
        for part in parts:
            found = document.find(f" {' '.join(part)} ", at)
            if found < 0:
                return done + _longest_start(part, document[at:])
            done += len(part)
            at = found + len(" ".join(part)) + 1
        return done


def _longest_start(part: Sequence[str], document: str) -> int:
    """Return how many words of the part are there together, by halving."""
    least, most = 0, len(part)
    while least < most:
        middle = (least + most + 1) // 2
        if f" {' '.join(part[:middle])} " in document:
            least = middle
        else:
            most = middle - 1
    return least
