"""Misspelled and repeated words."""

import re
from collections.abc import Iterator

from workers.text.document import Document, Word
from workers.text.edits import Edit, IssueKind, TextIssue, article_for, checked, substitute
from workers.text.tables import alternatives, corrections, listed

_MODAL_OF = re.compile(r"\b(could|should|would|must|might)\s+(of)\s+(?!course\b)(?=[a-z])")
_SMALL_I = re.compile(
    r"(?<![\w'\u2019.(-])i"
    rf"(?=['\u2019](?:m|ve|ll|d)\b|\s+(?:{alternatives('after small i')})\b)"
)
_CLUSTER = re.compile(r"[fhlmnrsx][aeiouy]|s[chklmnpqtw]|f[lr]|rh|[^fhlmnrsx]")
"""How a word begins whose first letter is not read by its name, as it is in "an html page"."""


def spelling(document: Document) -> Iterator[TextIssue]:
    """Report misspellings that mean one word, wrong articles, "could of" and "i"."""
    table = corrections()
    for word in document.words:
        right = table.get(word.lower)
        if right is not None and word.is_free and _may_be_misspelled(document, word):
            edit = substitute(document, word.start, word.end, right)
            if edit is not None:
                yield _misspelled(word.start, word.end, word.text, right, edit)
    yield from _articles(document)
    for match in _MODAL_OF.finditer(document.masked):
        edit = substitute(document, *match.span(2), "have")
        yield _misspelled(*match.span(), match[0], f"{match[1]} have", edit)
    for match in _SMALL_I.finditer(document.masked):
        edit = checked(document, Edit(*match.span(), "I"))
        yield _misspelled(*match.span(), "i", "I", edit)


def repetitions(document: Document) -> Iterator[TextIssue]:
    """Report words written twice in a row, such as "the the"."""
    for first, second in zip(document.words, document.words[1:], strict=False):
        if first.lower != second.lower or not (first.is_free and second.is_free):
            continue
        gap = document.masked[first.end : second.start]
        is_close = gap == " " or (
            gap.strip(" ") == "\n" and first.lower in listed("repeated across lines")
        )
        if not is_close or second.text[0].isupper() or len(first.text) < 2:
            continue
        if first.lower in listed("may repeat") and not _is_that_that(document, second):
            continue
        yield TextIssue(
            IssueKind.SPELLING,
            first.start,
            second.end,
            f'"{first.text}" is written twice.',
            f'Write "{first.text}" once.',
            checked(document, Edit(first.end, second.end, "")),
        )


def _is_that_that(document: Document, second: Word) -> bool:
    """Tell whether "that that" is a slip: what follows cannot belong to the second "that"."""
    following = document.word_after(second.end)
    return (
        second.lower == "that" and following is not None and following.lower in listed("after that")
    )


def _may_be_misspelled(document: Document, word: Word) -> bool:
    """Tell whether a word could be a slip: no name, no acronym, no part of a term."""
    if word.text in document.names or not (word.text[1:].islower()):
        return False
    before = document.masked[max(0, word.start - 1) : word.start]
    after = document.masked[word.end : word.end + 1]
    return not re.search(r"[\d_/\\@#&.:|<~[-]", before) and not re.search(r"[\d_/\\@&[-]", after)


def _articles(document: Document) -> Iterator[TextIssue]:
    for first, second in zip(document.words, document.words[1:], strict=False):
        if first.lower not in {"a", "an"} or not second.text.islower() or not first.is_free:
            continue
        right = article_for(second.text)
        if first.lower == right or document.masked[first.end : second.start].strip(" \n"):
            continue
        if len(second.text) > 1 and second.is_free and _CLUSTER.match(second.text):
            edit = substitute(document, first.start, first.end, right)
            yield _misspelled(first.start, first.end, first.text, right, edit)


def _misspelled(start: int, end: int, wrong: str, right: str, edit: Edit | None) -> TextIssue:
    return TextIssue(
        IssueKind.SPELLING, start, end, f'"{wrong}" should be "{right}".', f'Write "{right}".', edit
    )
