"""Phrases that say in many words what fewer or plainer ones say."""

import re
from collections.abc import Iterator

from workers.models.editor.document import Document, Word
from workers.models.editor.edits import Edit, cut, substitute
from workers.models.editor.fingerprint import NEGATIONS
from workers.models.editor.issues import Issue, Kind
from workers.models.editor.phrases import Phrase, beginning_with

_CLAUSE_START = re.compile(r"(?:[;:—\u2013(]|,\s+(?:and|but|so))\s*\Z")
_KIND = {"plain": Kind.JARGON}
_COST = {"wordy": 1.0, "verb": 1.0, "redundant": 0.8, "filler": 0.8, "plain": 0.6}
_SAY = {
    "wordy": '"{old}" says no more than "{new}".',
    "verb": '"{old}" hides the verb "{new}".',
    "redundant": '"{old}" says the same thing twice.',
    "filler": '"{old}" is filler.',
    "plain": '"{old}" has a plainer word: "{new}".',
}


def wordiness(document: Document) -> Iterator[Issue]:
    """Report the phrases of `phrases.txt`, the longest that fits at each word."""
    reached = 0
    for word, following in zip(document.words, [*document.words[1:], None], strict=False):
        if word.start < reached or not word.is_free:
            continue
        for phrase in beginning_with(word.lower, following.lower if following else ""):
            match = phrase.pattern.match(document.masked, word.start)
            if match is None or not _fits(document, phrase, match, word):
                continue
            edit = _edit(document, phrase, match)
            if edit is not None:
                yield _issue(document, phrase, match, edit)
                reached = match.end()
                break


def _fits(document: Document, phrase: Phrase, match: re.Match[str], word: Word) -> bool:
    previous = _neighbour(document, document.word_before(word.start), match.start())
    after = document.word_after(match.end())
    following = (
        after.lower if after and not document.masked[match.end() : after.start].strip() else ""
    )
    if not phrase.fits(previous, following):
        return False
    if phrase.starts_clause and not _starts_clause(document, match.start()):
        return False
    return not (phrase.is_cut and len(match[0].split()) == 1 and _is_negated(document, word))


def _neighbour(document: Document, before: Word | None, start: int) -> str:
    is_next = before is not None and not document.masked[before.end : start].strip()
    return before.lower if before is not None and is_next else ""


def _starts_clause(document: Document, start: int) -> bool:
    sentence = document.sentence_at(start)
    if sentence is None:
        return False
    opening = min(start, sentence.words[0].start)
    before = document.masked[max(opening, start - 20) : start]
    return start == opening or _CLAUSE_START.search(before) is not None


def _is_negated(document: Document, word: Word) -> bool:
    """Tell whether one of the four words before negates it: "not very good" needs its "very"."""
    before = [it.lower for it in document.words_before(word.start, 4)]
    return any(it in NEGATIONS or it.endswith("n't") for it in before)


def _edit(document: Document, phrase: Phrase, match: re.Match[str]) -> Edit | None:
    if phrase.is_cut:
        return cut(document, *match.span())
    return substitute(document, *match.span(), match.expand(phrase.replacement))


def _issue(document: Document, phrase: Phrase, match: re.Match[str], edit: Edit) -> Issue:
    new = match.expand(phrase.replacement)
    old = " ".join(match[0].split())
    return Issue(
        _KIND.get(phrase.section, Kind.WORDINESS),
        *match.span(),
        _SAY[phrase.section].format(old=old, new=new),
        f'Write "{new}".' if new else f'Cut "{old}".',
        edit,
        _COST[phrase.section],
    )
