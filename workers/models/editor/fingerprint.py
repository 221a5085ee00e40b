"""What must be the same before and after every edit: numbers, negations, names, protected spans."""

import re
from collections.abc import Iterator

from workers.models.editor.document import Document
from workers.models.editor.tables import listed

NEGATIONS = listed("negations")
_TOKEN = re.compile(
    r"(?<![\w.,:%/$€£+-])[$€£+-]*\w*\d[\w%]*(?:[.,:/\u2019'-]\w*\d[\w%]*)*|[^\W\d_]+(?:['\u2019][^\W\d_]+)*"
)


def facts(text: str, names: frozenset[str]) -> tuple[str, ...]:
    """Return the numbers, negations and names of a stretch of prose, in order.

    A contraction counts as the same negation with and without its apostrophe.
    """
    return tuple(_facts(text, names))


def fingerprint(document: Document, names: frozenset[str]) -> tuple[object, ...]:
    """Return everything about a text that no edit may change."""
    spans = tuple(document.text[span.start : span.end] for span in document.protected)
    return (spans, facts(document.masked, names), document.text.count("\n\n"))


def _facts(text: str, names: frozenset[str]) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        word = match[0]
        lower = word.lower()
        bare = lower.replace("'", "").replace("\u2019", "")
        if bare in listed("contracted"):
            yield bare
        elif lower in NEGATIONS or lower in listed("numbers") or _has_digit(word):
            yield lower
        elif word in names or not _is_plain(re.split("['\u2019]", word)[0]):
            yield word


def _has_digit(word: str) -> bool:
    return not word.isalpha() and any(character.isdigit() for character in word)


def _is_plain(word: str) -> bool:
    """Tell whether a word has no capital beyond its first letter."""
    return word[1:].islower() or len(word) <= 1
