"""The editor's rules applied to a text, and the scores that follow."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import exp, log

from workers.editor.rules import (
    LONG,
    linted,
    long_sentences,
    misspelled,
    passives,
    punctuation,
    wordiness,
)
from workers.text.document import Document
from workers.text.edits import IssueKind, TextIssue
from workers.text.readability import TextCounts, flesch_reading_ease, grade
from workers.text.spelling import repetitions
from workers.text.tables import known_words, misspellings, word_list

Rule = Callable[[Document], Iterator[TextIssue]]

_SPANNING = frozenset({IssueKind.SENTENCES, IssueKind.VOICE})
"""Kinds that concern a whole sentence, so that other issues may lie inside."""

RULES: tuple[Rule, ...] = (
    misspelled,
    repetitions,
    punctuation,
    wordiness,
    long_sentences,
    passives,
    linted,
)


def issues(document: Document) -> tuple[TextIssue, ...]:
    """Return every issue in the order of the text; where issues overlap, the earlier rule wins."""
    taken: list[TextIssue] = []
    marked: set[int] = set()
    for rule in RULES:
        for issue in rule(document):
            places = range(issue.start, issue.end)
            if issue.kind in _SPANNING or marked.isdisjoint(places):
                if issue.kind not in _SPANNING:
                    marked.update(places)
                taken.append(issue)
    return tuple(sorted(taken, key=lambda issue: (issue.start, issue.end, issue.message)))


FEWEST_WORDS = 50
"""A shorter text is scored as if it had that many words: one slip must not ruin its score."""

FEWEST_JUDGED = 3
"""Different words from which a text says enough to be judged: in fewer hardly anything can be
wrong, so that finding nothing says nothing. A subject line has more."""

LEAST_ENGLISH = 0.15
"""Share of the commonest English words from which a text counts as English; mostly it is 0.4."""

LEAST_KNOWN = 0.4
"""Share of the other words, of five letters or more, that are known to be English from which a
text counts as English: in 82 manuals at least 0.54, in three of other languages at most 0.33."""

FEWEST_UNKNOWN = 3
"""Unknown words from which that share counts in a text with common words."""

HALVED_BY = {IssueKind.SPELLING: 1.1, IssueKind.WORDINESS: 2.0, IssueKind.JARGON: 2.0}
"""How many issues in 100 words halve the score of their kind."""

WEIGHTS: Mapping[IssueKind | None, float] = {
    IssueKind.SPELLING: 0.25,
    IssueKind.WORDINESS: 0.3,
    IssueKind.SENTENCES: 0.18,
    IssueKind.VOICE: 0.05,
    IssueKind.JARGON: 0.07,
    None: 0.15,
}
"""What quality is made of; None stands for the readability formulas."""


@dataclass(frozen=True)
class Analysis:
    """A document, what the rules found in it, and the scores that follow."""

    document: Document

    @cached_property
    def issues(self) -> tuple[TextIssue, ...]:
        """Return every issue in the order of the text."""
        return issues(self.document)

    @cached_property
    def counts(self) -> TextCounts:
        """Return what the readability formulas count."""
        return TextCounts.of(self.document.sentences)

    @property
    def is_readable(self) -> bool:
        """Return whether there is English prose to measure: common words, and others it knows."""
        read = [word.lower for word in self.document.words]
        common = sum(word in word_list("common") for word in read)
        if len(read) < 20:
            is_english = 2 * sum(word.isascii() for word in read) > len(read)
        else:
            is_english = common / len(read) >= LEAST_ENGLISH
        return is_english and self._is_known(common)

    def _is_known(self, common: int) -> bool:
        """Return whether enough of the words are English ones, spelled right or wrong."""
        others = {
            word.lower
            for word in self.document.words
            if len(word.text) > 4 and word.text.isalpha() and word.text not in self.document.names
        } - word_list("common")
        known = sum(word in known_words() or word in misspellings() for word in others)
        is_too_short = common > 0 and len(others) - known < FEWEST_UNKNOWN
        return is_too_short or known >= LEAST_KNOWN * len(others)

    @property
    def says_enough(self) -> bool:
        """Return whether the text is long enough to be judged."""
        return len({word.lower for word in self.document.words}) >= FEWEST_JUDGED

    def of(self, kind: IssueKind) -> tuple[TextIssue, ...]:
        """Return the issues of one kind."""
        return tuple(issue for issue in self.issues if issue.kind is kind)

    def score(self, kind: IssueKind) -> float:
        """Return the score of one kind of issue; 1 means that there is none."""
        return self._score(kind, self.of(kind))

    def score_without(self, kind: IssueKind) -> float:
        """Return what `score` would be without the issues that have an edit."""
        return self._score(kind, [issue for issue in self.of(kind) if issue.edit is None])

    @cached_property
    def reading_ease(self) -> float:
        """Return Flesch Reading Ease."""
        return flesch_reading_ease(self.counts)

    @cached_property
    def grade(self) -> float:
        """Return the mean school year of four formulas."""
        return grade(self.counts)

    @property
    def readability(self) -> float:
        """Return how easy the text is to read: 0.5 at grade 14, 0.9 at grade 9."""
        return 1 / (1 + exp((min(self.grade, 100.0) - 14) / 2.3))

    @property
    def quality(self) -> float:
        """Return the weighted mean of all kinds of issues and of readability."""
        parts = {kind: self.score(kind) if kind else self.readability for kind in WEIGHTS}
        return sum(weight * parts[kind] for kind, weight in WEIGHTS.items())

    def _score(self, kind: IssueKind, found: tuple[TextIssue, ...] | list[TextIssue]) -> float:
        if kind is IssueKind.VOICE:
            return 1 - min(1.0, len(found) / self.counts.sentences)
        if kind is IssueKind.SENTENCES:
            return self._sentences(found)
        density = 100 * sum(issue.cost for issue in found) / max(FEWEST_WORDS, self.counts.words)
        return exp(-density / HALVED_BY[kind] * log(2))

    def _sentences(self, found: tuple[TextIssue, ...] | list[TextIssue]) -> float:
        """Return the share of words in sentences of a good length; longer ones count in part."""
        lost = sum(_lost(issue) for issue in found)
        return max(0.0, 1 - lost / self.counts.words)


def _lost(issue: TextIssue) -> float:
    """Return how many of a long sentence's words count as lost: half at 33 words, most at 60."""
    words = LONG * (1 + issue.cost)
    return words * (1 - exp(-2.2 * issue.cost))
