"""Positions of words and sentences in a text (after Unicode Annex #29, much simplified)."""

import re
from collections.abc import Iterator

import re2

TextRange = tuple[int, int]

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff"
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces: Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
UNSPACED_LETTER = re.compile(f"[{UNSPACED}]")

_KANA = r"\p{Han}\p{Hiragana}\p{Katakana}\x{30FC}"
_LETTER = rf"[^\PL{_KANA}]"
_WORD = rf"(?:{_LETTER}|[\pN_])(?:{_LETTER}|[\pN\pM_])*"
# A run of ideographs and kana; numbers; all else, inner apostrophes, hyphens and dots included.
WORD = re2.compile(
    rf"([{_KANA}]+)|\pN+(?:[.,]\pN+)+(?:{_LETTER}|\pM)*"
    rf"|{_WORD}(?:['\x{{2019}}.\-\x{{2010}}\x{{2011}}]{_WORD})*"
)
# Closing quotes, brackets, emphasis and footnotes belong to the sentence. Ideographic full stops
# need no space.
END = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u201c\u201d\u2018\u2019\u00ab\u00bb)\]*_]*+(?:\[\d+\])*+(?=\s|\Z)"
    r"|[\u3002\uff01\uff1f]++[\u201d\u2019\u300d\u300f\uff09]*+"
    r"|\n[ \t\r]*+\n"
)
LAST_WORD = re.compile(r"[\w.]*\Z")

NEVER_LAST = frozenset(
    re.findall(
        r"\S+",
        "approx capt cf col dr e.g eq fig figs gen gov hon i.e lt mme mr mrs ms mt prof rep rev "
        "sen sgt sr st viz vs al messrs bspw bzgl bzw ca d.h dipl ehem evtl exkl fa geb ggf i.d.r "
        "inkl m.e mio mrd o.g sog tsd u.a u.u v.a vgl z.b z.t zzgl",
    )
)
BEFORE_NUMBERS = frozenset(
    re.findall(
        r"\S+",
        "abb abs anl art bd ch kap max min no nos nr p pp sec tab tel vol ziff"
        " jan feb mar apr jun jul aug sep sept oct nov dec",
    )
)
COUNTED = re.compile(
    r"\d|(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
    r"|Jahrhundert|Jahrtausend|Quartal|Halbjahr|Werktag|Stock|Kapitel|Platz|Auflage|Weltkrieg)"
)
"""What an ordinal number stands before in German, with a full stop behind the number."""


def words(text: str) -> Iterator[TextRange]:
    """Yield each word: letters, digits and marks, joined by apostrophes, hyphens and dots.

    A comma joins digits. Each ideograph or kana is a separate word.
    """
    for found in WORD.finditer(text):
        start, end = found.span()
        yield from ((at, at + 1) for at in range(start, end)) if found[1] else [(start, end)]


def count_of_words(text: str) -> int:
    """Return how many words there are; a run of ideographs takes the time of one word."""
    return sum(len(run) or 1 for run in WORD.findall(text))


def sentences(text: str) -> Iterator[TextRange]:
    """Yield each sentence: up to `.`, `!`, `?` or `…` before white space, or up to an empty line.

    An abbreviation, an initial, the number of a list item and a full stop before a lower-case
    letter do not end a sentence. A sentence contains at least one word.
    """
    start = 0
    for end in END.finditer(text):
        if _ends_a_sentence(text, end):
            yield from _trimmed(text, start, end.end())
            start = end.end()
    yield from _trimmed(text, start, len(text))


def _trimmed(text: str, start: int, end: int) -> Iterator[TextRange]:
    held = text[start:end]
    if WORD.search(held):
        left = len(held) - len(held.lstrip())
        yield start + left, start + len(held.rstrip())


def _ends_a_sentence(text: str, end: re.Match[str]) -> bool:
    if not end[0].startswith(".") or end[0].startswith(".."):
        return True
    rest = text[end.end() : end.end() + 50].lstrip()
    following = rest[:1]
    if following.islower():
        return False
    before = LAST_WORD.search(text[max(0, end.start() - 20) : end.start()])
    word = before[0] if before else ""
    if len(word) == 1 and word.isalpha() and word != "I":
        return False
    if word.isdecimal() and len(word) < 3 and COUNTED.match(rest):
        return False
    if word.isdecimal():
        at = end.start() - len(word)
        return bool(text[text.rfind("\n", 0, at) + 1 : at].strip())
    known = word.lower()
    return known not in NEVER_LAST and not (known in BEFORE_NUMBERS and following.isdecimal())
