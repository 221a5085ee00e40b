"""What must be the same before and after every edit: numbers, negations, names, protected spans."""

import re
from collections.abc import Iterator

from workers.models.editor.document import Document

NEGATIONS = frozenset(
    "no not never none nor neither nothing nobody nowhere without cannot hardly barely scarcely seldom"
    " rarely except unless".split()
)
_CONTRACTED = frozenset(
    f"{verb}nt"
    for verb in (
        "do does did is are was were wo ca could should would has have had must need might ai sha".split()
    )
)
NUMBERS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred"
    " hundreds thousand thousands million millions billion billions dozen dozens half twice once first"
    " second third fourth fifth sixth seventh eighth ninth tenth double triple quarter".split()
)
_TOKEN = re.compile(
    r"(?<![\w.,:%/$€£+-])[$€£+-]*\w*\d[\w%]*(?:[.,:/’'-]\w*\d[\w%]*)*|[^\W\d_]+(?:['’][^\W\d_]+)*"
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
        bare = lower.replace("'", "").replace("’", "")
        if bare in _CONTRACTED:
            yield bare
        elif any(c.isdigit() for c in word) or lower in NEGATIONS or lower in NUMBERS:
            yield lower
        elif word in names or not _is_plain(re.split("['’]", word)[0]):
            yield word


def _is_plain(word: str) -> bool:
    """Tell whether a word has no capital beyond its first letter."""
    return word[1:].islower() or len(word) <= 1
