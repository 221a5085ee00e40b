"""Issues as a view of the journal, which has their words once, in the findings."""

from collections.abc import Mapping, Sequence

from app.contract.events import IterationCompleted
from app.contract.issues import Issue, IssueNote
from app.contract.judgement import Finding

Words = Mapping[tuple[str | None, str], Finding]
"""By the path of an iteration and the id of an issue."""


def words_of(judged: Sequence[IterationCompleted]) -> Words:
    """Return how every iteration words the issues that it has."""
    return {
        (one.path, note.id): one.findings[note.finding]
        for one in judged
        for note in one.issues
        if note.finding is not None
    }


def issues_of(judged: IterationCompleted, words: Words) -> tuple[Issue, ...]:
    """Return the issues of an iteration; what it resolved is in the words of its parent."""
    return tuple(
        _issue(note, words[judged.path if note.state.is_open else judged.parent, note.id])
        for note in judged.issues
    )


def _issue(note: IssueNote, found: Finding) -> Issue:
    return Issue(
        id=note.id,
        state=note.state,
        kind=found.kind,
        source=found.source,
        message=found.message,
        fix=found.fix,
        quote=found.quote,
        span=found.span if note.state.is_open else None,
        since=note.id.rpartition("#")[0],
    )
