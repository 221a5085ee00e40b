"""What proselint finds beyond the other rules: jargon, clichés, redundancies, slips of usage.

Its checks are called on the text alone; its command line, the only part that reads a configuration,
is not imported. It reports and never edits: most of its replacements need an eye.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from workers.text.document import Document
from workers.text.edits import IssueKind, TextIssue

_KINDS = {
    "archaism": IssueKind.JARGON,
    "cliches": IssueKind.JARGON,
    "hedging": IssueKind.WORDINESS,
    "industrial_language": IssueKind.JARGON,
    "malapropisms": IssueKind.SPELLING,
    "misc.illogic": IssueKind.JARGON,
    "misc.latin": IssueKind.JARGON,
    "misc.pretension": IssueKind.JARGON,
    "misc.tense_present": IssueKind.JARGON,
    "mixed_metaphors": IssueKind.JARGON,
    "mondegreens": IssueKind.SPELLING,
    "nonwords": IssueKind.SPELLING,
    "oxymorons": IssueKind.JARGON,
    "redundancy": IssueKind.WORDINESS,
}
"""Checks in use, by the beginning of their path.

Left out are matters of taste (typography, cell phone or cellphone) and the two slow ones
(uncomparables, restricted vocabularies), which take eight of nine milliseconds.
"""


class _Result(Protocol):
    span: tuple[int, int]
    message: str
    replacements: str | None


def linted(document: Document) -> Iterator[TextIssue]:
    """Report what the chosen checks of proselint find outside protected spans."""
    text = f"\n{document.masked}\n"
    for kind, check in _checks():
        for result in check.check_with_flags(text):
            yield from _issue(document, kind, result)


def _issue(document: Document, kind: IssueKind, result: _Result) -> Iterator[TextIssue]:
    start, end = result.span[0] - 1, result.span[1] - 1
    quote = document.text[start:end] if start >= 0 else ""
    if quote.strip() and document.is_free(start, end) and not quote[:1].isspace():
        new = (result.replacements or "").replace("\\", "")
        fix = f'Write "{new}".' if new else "Say it in plain words, or leave it out."
        message = f'"{" ".join(quote.split())}" is {_WHAT[kind]}.'
        yield TextIssue(kind, start, end, message, fix, cost=0.7)


_WHAT = {
    IssueKind.JARGON: "jargon or a cliché",
    IssueKind.WORDINESS: "redundant or hedging",
    IssueKind.SPELLING: "not a word, or not the word that was meant",
}


@cache
def _checks() -> tuple[tuple[IssueKind, Any], ...]:
    """Return the checks in use; importing them takes 0.2 s, once."""
    register = import_module("proselint.checks").__register__
    return tuple(
        (kind, check)
        for check in register
        for path, kind in _KINDS.items()
        if check.matches_partial(path)
    )
