"""The rules: each is a function from a document to issues, and all of them together."""

from collections.abc import Callable, Iterator

from workers.models.editor.document import Document
from workers.models.editor.issues import Issue, Kind
from workers.models.editor.rules.lint import linted
from workers.models.editor.rules.passive import passives
from workers.models.editor.rules.punctuation import punctuation
from workers.models.editor.rules.sentences import long_sentences
from workers.models.editor.rules.spelling import repetitions, spelling
from workers.models.editor.rules.wordiness import wordiness

Rule = Callable[[Document], Iterator[Issue]]

_SPANNING = frozenset({Kind.SENTENCES, Kind.VOICE})
"""Kinds that concern a whole sentence, so that other issues may lie inside."""

RULES: tuple[Rule, ...] = (
    spelling,
    repetitions,
    punctuation,
    wordiness,
    long_sentences,
    passives,
    linted,
)


def issues(document: Document) -> tuple[Issue, ...]:
    """Return every issue in the order of the text; in one place the earlier rule's stays."""
    taken: list[Issue] = []
    marked: set[int] = set()
    for rule in RULES:
        for issue in rule(document):
            places = range(issue.start, issue.end)
            if issue.kind in _SPANNING or marked.isdisjoint(places):
                if issue.kind not in _SPANNING:
                    marked.update(places)
                taken.append(issue)
    return tuple(sorted(taken, key=lambda issue: (issue.start, issue.end, issue.message)))
