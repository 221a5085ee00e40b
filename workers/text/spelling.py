"""Misspelled and repeated words."""

import re
from collections.abc import Iterator
from functools import lru_cache

from workers.text.document import Document, Word
from workers.text.edits import Edit, IssueKind, TextIssue, article_for, checked, substitute
from workers.text.tables import alternatives, known_words, misspellings, word_list

_MODAL_OF = re.compile(r"\b(could|should|would)\s+(of)\s+(?!course\b)(?=[a-z])")
_SMALL_I = re.compile(
    r"(?<![\w'\u2019.(-])i"
    rf"(?=['\u2019](?:m|ve|ll|d)\b|\s+(?:{alternatives('after small i')})\b)"
)
_CAPITAL_I = re.compile(r"(?<![\w'\u2019.(-])I(?=['\u2019 ])")

LEAST_KNOWN = 0.6
"""Share of the other words of a sentence that are known where one is corrected."""

LONGEST_OPENING = 50
"""Words before "is is" among which one may be that makes it right."""

_PLAIN_START = re.compile(r"h[aeiouy]|[aeiou]")
"""How a word begins whose first letter is not read by its name, as it is in "an html page"."""


def spelling(document: Document) -> Iterator[TextIssue]:
    """Report misspellings that mean one word, wrong articles, "could of" and "i"."""
    table = misspellings()
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
    small = list(_SMALL_I.finditer(document.masked))
    is_slip = len(small) < len(_CAPITAL_I.findall(document.masked))
    for match in small if is_slip else ():
        edit = checked(document, Edit(*match.span(), "I"))
        yield _misspelled(*match.span(), "i", "I", edit)


def repetitions(document: Document) -> Iterator[TextIssue]:
    """Report words written twice in a row, such as "the the".

    Of words that are not among the commonest one is left to a person: they may be names or values.
    """
    for first, second in zip(document.words, document.words[1:], strict=False):
        if first.lower != second.lower or not (first.is_free and second.is_free):
            continue
        gap = document.masked[first.end : second.start]
        is_close = gap == " " or (
            gap.strip(" ") == "\n" and first.lower in word_list("repeated across lines")
        )
        if not is_close or second.text[0].isupper() or len(first.text) < 2:
            continue
        if not _is_repeated_in_vain(document, first):
            continue
        is_common = first.lower in word_list("common") | word_list("repeated across lines")
        is_english = is_common or first.lower in known_words()
        if not (is_english or _is_among_english_words(document, first)):
            continue  # German has "die die", and French "vous vous"
        yield TextIssue(
            IssueKind.SPELLING,
            first.start,
            second.end,
            f'"{first.text}" is written twice.',
            f'Write "{first.text}" once.',
            checked(document, Edit(first.end, second.end, "")) if is_common else None,
        )


def _is_repeated_in_vain(document: Document, first: Word) -> bool:
    """Tell whether a repeated word is a slip, which "the file is is" and no "what it is is" has."""
    if first.lower != "is":
        return first.lower not in word_list("may repeat")
    opening = document.words_before(first.start, LONGEST_OPENING)
    return word_list("before is is").isdisjoint(word.lower for word in opening)


def _may_be_misspelled(document: Document, word: Word) -> bool:
    """Tell whether a word could be a slip: no name, no part of a term, and among English words."""
    if word.text in document.names or not (word.text[1:].islower()):
        return False
    before = document.masked[max(0, word.start - 1) : word.start]
    after = document.masked[word.end : word.end + 1]
    return (
        not re.search(r"[\d_/\\@#&.:|<~[-]", before)
        and not re.search(r"[\d_/\\@&[-]", after)
        and _is_among_english_words(document, word)
    )


def _is_among_english_words(document: Document, word: Word) -> bool:
    """Tell whether enough of the other words of the sentence are known English ones."""
    sentence = document.sentence_at(word.start)
    count, known = _counted(document, sentence.start) if sentence else (1, 1)
    return known - 1 >= LEAST_KNOWN * (count - 1)


@lru_cache(maxsize=1)  # all misspelled words of a sentence need the same
def _counted(document: Document, position: int) -> tuple[int, int]:
    """Return how many words the sentence at a position has, and how many of them are known."""
    sentence = document.sentence_at(position)
    words = [word.lower for word in (sentence.words if sentence else ())]
    known = (known_words(), word_list("common"), misspellings())
    return len(words), sum(any(word in each for each in known) for word in words)


def _articles(document: Document) -> Iterator[TextIssue]:
    for first, second in zip(document.words, document.words[1:], strict=False):
        if first.lower not in {"a", "an"} or not second.text.islower() or not first.is_free:
            continue
        right = article_for(second.text)
        if first.lower == right or document.masked[first.end : second.start].strip(" \n"):
            continue
        if second.is_free and _takes_an_article(document, first, second):
            edit = substitute(document, first.start, first.end, right)
            yield _misspelled(first.start, first.end, first.text, right, edit)


def _takes_an_article(document: Document, first: Word, second: Word) -> bool:
    """Tell whether "a" is an article here, and how the word after it is spoken.

    In "$a is", "branch a or b", "plan A is" and "a equals 1" it is a name, and "an" may be "and"
    with a letter too few; how a word with "u" is spoken its letters do not say. Other languages
    have both words too: "Elle a aidé".
    """
    before = document.masked[max(0, first.start - 1) : first.start]
    after = document.masked[second.end : second.end + 1]
    is_alone = (not before or before in " \n") and after not in set("_/\\@&=(")
    is_name = (
        first.text == "A" and document.masked[max(0, first.start - 2) : first.start][:1].isalnum()
    )
    word = second.text.partition("-")[0]
    is_plain = len(word) > 3 and word[0] in "aeiouh" and _PLAIN_START.match(word) is not None
    is_spoken = word in known_words() or (is_plain and _is_among_english_words(document, first))
    is_doubtful = word[0] not in "aeiou" if first.lower == "an" else word.startswith("u")
    is_of_a_noun = word not in word_list("common") | word_list("after a name")
    return is_alone and not is_name and is_spoken and not is_doubtful and is_of_a_noun


def _misspelled(start: int, end: int, wrong: str, right: str, edit: Edit | None) -> TextIssue:
    return TextIssue(
        IssueKind.SPELLING, start, end, f'"{wrong}" should be "{right}".', f'Write "{right}".', edit
    )
