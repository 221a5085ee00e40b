"""The rules: each is a function from a document to issues; `issues` applies all of them."""

from collections.abc import Callable, Iterator

from workers.editor.rules.sentences import long_sentences, passives, punctuation
from workers.editor.rules.wordiness import linted, wordiness
from workers.text.document import Document
from workers.text.edits import IssueKind, TextIssue
from workers.text.spelling import repetitions, spelling

Rule = Callable[[Document], Iterator[TextIssue]]

_SPANNING = frozenset({IssueKind.SENTENCES, IssueKind.VOICE})
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
