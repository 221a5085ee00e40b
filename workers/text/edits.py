"""Safe edits, and the issues that call for them.

Numbers, negations, names and protected spans are the same before and after every edit.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from workers.text.document import MASK, Document
from workers.text.tables import word_list

LONGEST_WORD = 1_000
"""Characters without a space beside an edit; what has more is no prose, and is left alone."""

MOST_ATTEMPTS = 100
"""Texts that are compared with the draft to find the edits that change its facts."""

NEGATIONS = word_list("negations")
_TOKEN = re.compile(
    r"(?<![\w.,:%/$€£+-])[$€£+-]*\w*\d[\w%]*(?:[.,:/\u2019'-]\w*\d[\w%]*)*|[^\W\d_]+(?:['\u2019][^\W\d_]+)*"
)


def facts_in(text: str, names: frozenset[str]) -> tuple[str, ...]:
    """Return the numbers, negations and names of a stretch of prose, in order.

    A contraction counts as the same negation with and without its apostrophe.
    """
    return tuple(_facts(text, names))


def fingerprint(document: Document, names: frozenset[str]) -> tuple[object, ...]:
    """Return everything about a text that no edit may change."""
    spans = tuple(document.text[span.start : span.end] for span in document.protected)
    return (spans, facts_in(document.masked, names), len(_EMPTY_LINE.findall(document.text)))


_EMPTY_LINE = re.compile(r"(?:\r\n?+|\n)[ \t]*+(?=[\r\n])")


def _facts(text: str, names: frozenset[str]) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        word = match[0]
        lower = word.lower()
        bare = lower.replace("'", "").replace("\u2019", "")
        has_digit = not word.isalpha() and any(map(str.isdigit, word))
        if bare in word_list("contracted"):
            yield bare
        elif lower in NEGATIONS or lower in word_list("numbers") or has_digit:
            yield lower
        elif word in names or not _is_plain(re.split("['\u2019]", word)[0]):
            yield word


def _is_plain(word: str) -> bool:
    """Return whether a word has no capital after its first letter."""
    return word[1:].islower() or len(word) <= 1


_CONSONANT = re.compile(
    r"(?:uni(?!n|m|de)|us[aeiu]|ut[ei]|ur[aeiou]|uk|ubi|ufo|u-|eu|ew|on(?:e|ce)\b)"
)
_VOWEL = re.compile(r"(?:[aeiou]|hon(?:est|or|our)|hour|heir)")


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters from `start` to `end` (exclusive)."""

    start: int
    end: int
    new: str


def article_for(word: str) -> str:
    """Return "a" or "an", whichever goes before the word."""
    lower = word.lower()
    return "an" if _VOWEL.match(lower) and not _CONSONANT.match(lower) else "a"


def substitute(document: Document, start: int, end: int, new: str) -> Edit | None:
    """Return the edit that replaces a stretch with `new`, or None if that is not allowed.

    It keeps the capital of the first letter and a line end, and corrects an article in front.
    """
    old = document.text[start:end]
    if old[:1].isupper() and new[:1].islower():
        new = new[0].upper() + new[1:]
    edit = with_line_end(document, Edit(start, end, new))
    return checked(document, _with_article(document, edit, new) if new else edit)


def with_line_end(document: Document, edit: Edit) -> Edit:
    """Return the edit with the line end that it replaces: after as many words, or before one."""
    old = document.text[edit.start : edit.end]
    gap = _LINE_END.search(old)
    if gap is None:
        return edit
    words = edit.new.split()
    at = min(len(old[: gap.start()].split()), len(words) - 1)
    if at > 0:
        return replace(edit, new=" ".join(words[:at]) + gap[0] + " ".join(words[at:]))
    if words and _ONE_BLANK.fullmatch(document.masked, max(0, edit.start - 2), edit.start):
        return Edit(edit.start - 1, edit.end, gap[0] + edit.new)
    return edit


def _with_line_kept(document: Document, edit: Edit) -> Edit:
    """Return the edit with a line end that it would remove, where a blank stands beside it."""
    gap = _LINE_END.search(document.text, edit.start, edit.end)
    if gap is None or "\n" in edit.new or "\r" in edit.new:
        return edit
    if " " in edit.new.strip():
        return with_line_end(document, edit)
    start = edit.start
    while start > 0 and document.masked[start - 1] == " ":
        start -= 1
    is_within_line = 0 < start < edit.start and document.masked[start - 1] not in ("\n", MASK)
    if is_within_line and edit.new.strip():
        return Edit(start, edit.end, gap[0] + edit.new)
    if not edit.new and _BLANK_BEFORE_WORDS.match(document.masked, edit.end):
        return replace(edit, end=edit.end + 1, new=gap[0])
    return edit


def _makes_a_longest_line(document: Document, edit: Edit) -> bool:
    """Return whether the edit joins lines to one that is longer than all of their paragraph."""
    old = document.text[edit.start : edit.end]
    if len(_LINE_END.findall(old)) <= len(_LINE_END.findall(edit.new)):
        return False
    first = document.masked.rfind("\n", 0, edit.start) + 1
    last = document.masked.find("\n", edit.end)
    rest = document.masked[edit.end : last if last >= 0 else None]
    joined = document.masked[first : edit.start] + edit.new + rest
    return max(map(len, joined.splitlines()), default=0) > _longest_line(document.masked, edit)


def _longest_line(text: str, edit: Edit) -> int:
    """Return the length of the longest line of the paragraph that an edit lies in."""
    first = max(0, edit.start - LONGEST_WORD)
    gaps = _PARAGRAPH_END.finditer(text, first, edit.start)
    opening = max((gap.end() for gap in gaps), default=first)
    closing = _PARAGRAPH_END.search(text, edit.end, edit.end + LONGEST_WORD)
    lines = text[opening : closing.start() if closing else edit.end + LONGEST_WORD].splitlines()
    return max(map(len, lines), default=0)


_PARAGRAPH_END = re.compile(r"\n[ \t]*(?=\n)")
_ONE_BLANK = re.compile(r"\S ")
_BLANK_BEFORE_WORDS = re.compile(r" +\S")
_LINE_END = re.compile(r"[ \t]*(?:\r\n?|\n)[ \t]*")


def checked(document: Document, edit: Edit | None) -> Edit | None:
    """Return the edit if it touches nothing protected and keeps every number, negation and name."""
    if edit is None or not document.is_free(edit.start, edit.end):
        return None
    edit = _with_line_kept(document, edit)
    whole = _whole_words(document.masked, edit.start, edit.end)
    if whole is None or _makes_a_longest_line(document, edit):
        return None
    start, end = whole
    old = document.masked[start:end]
    new = document.masked[start : edit.start] + edit.new + document.masked[edit.end : end]
    if old == new or facts_in(old, document.names) != facts_in(new, document.names):
        return None
    return edit if len(_EMPTY_LINE.findall(old)) == len(_EMPTY_LINE.findall(new)) else None


def with_edits(document: Document, edits: Sequence[Edit]) -> str:
    """Return the text with the edits applied; earlier ones in the sequence take precedence.

    An edit that overlaps an earlier one, or would change the fingerprint, is left out.
    """
    chosen = _apart(edits)
    names = document.names
    return _verified(document, chosen, names, fingerprint(document, names))


def _verified(
    document: Document, edits: list[Edit], names: frozenset[str], wanted: tuple[object, ...]
) -> str:
    """Return the text with those edits that do not change the fingerprint."""
    attempts = iter(range(MOST_ATTEMPTS))

    def is_kept(chosen: list[Edit]) -> bool:
        if next(attempts, None) is None:
            return False
        return fingerprint(Document(_join(document.text, chosen)), names) == wanted

    return _join(document.text, _good(edits, is_kept))


def _good(edits: list[Edit], is_kept: Callable[[list[Edit]], bool]) -> list[Edit]:
    """Return edits with which the facts are kept: all, or what halving them finds."""
    if not edits or is_kept(edits):
        return edits
    if len(edits) == 1:
        return []
    middle = len(edits) // 2
    first = _good(edits[:middle], is_kept)
    second = _good(edits[middle:], is_kept)
    both = first + second
    if len(both) < len(edits) and is_kept(both):
        return both
    return first or second


def _apart(edits: Iterable[Edit]) -> list[Edit]:
    """Return the edits that neither overlap nor touch, in the order of the text."""
    taken: list[Edit] = []
    marked: set[int] = set()
    for edit in edits:
        places = range(max(0, edit.start - 1), edit.end + 1)
        if marked.isdisjoint(places):
            marked.update(places)
            taken.append(edit)
    return sorted(taken, key=lambda edit: edit.start)


def _join(text: str, edits: Iterable[Edit]) -> str:
    parts, at = [], 0
    for edit in edits:
        parts += [text[at : edit.start], edit.new]
        at = edit.end
    return "".join([*parts, text[at:]])


def _with_article(document: Document, edit: Edit, following: str) -> Edit:
    """Extend the edit over an article that no longer fits the word after it."""
    before = document.word_before(edit.start)
    gap = document.masked[before.end : edit.start] if before else ""
    if before is None or before.lower not in {"a", "an"} or gap.strip() or not before.is_free:
        return edit
    article = article_for(following)
    fitting = article.capitalize() if before.text[0].isupper() else article
    if fitting == before.text:
        return edit
    return Edit(before.start, edit.end, fitting + gap + edit.new)


def _whole_words(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the range with the rest of its first and its last word; None if one is endless."""
    first, last = max(0, start - LONGEST_WORD), min(len(text), end + LONGEST_WORD)
    while start > first and not text[start - 1].isspace():
        start -= 1
    while end < last and not text[end].isspace():
        end += 1
    is_whole = (start == 0 or start > first) and (end == len(text) or end < last)
    return (start, end) if is_whole else None


class IssueKind(StrEnum):
    """The kinds of issues; a revision fixes whole kinds, the worst first."""

    SPELLING = "spelling"
    WORDINESS = "wordiness"
    SENTENCES = "sentences"
    VOICE = "voice"
    JARGON = "jargon"


@dataclass(frozen=True, slots=True)
class TextIssue:
    """Characters `start` to `end` (exclusive) and what is wrong with them.

    `edit` fixes it without changing what the text says; without an edit, a person has to fix it.
    `cost` is its weight among issues of its kind.
    """

    kind: IssueKind
    start: int
    end: int
    message: str
    fix: str | None = None
    edit: Edit | None = None
    cost: float = 1.0
