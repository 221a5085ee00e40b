"""What proselint finds beyond the other rules: jargon, clichés, redundancies, slips of usage.

Its checks are called on the text alone; its command line, the only part that reads a configuration,
is not imported. It reports and never edits: most of its replacements need an eye.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from workers.text.document import Document
from workers.text.edits import Issue, Kind

_KINDS = {
    "archaism": Kind.JARGON,
    "cliches": Kind.JARGON,
    "hedging": Kind.WORDINESS,
    "industrial_language": Kind.JARGON,
    "malapropisms": Kind.SPELLING,
    "misc.illogic": Kind.JARGON,
    "misc.latin": Kind.JARGON,
    "misc.pretension": Kind.JARGON,
    "misc.tense_present": Kind.JARGON,
    "mixed_metaphors": Kind.JARGON,
    "mondegreens": Kind.SPELLING,
    "nonwords": Kind.SPELLING,
    "oxymorons": Kind.JARGON,
    "redundancy": Kind.WORDINESS,
}
"""Checks in use, by the beginning of their path.

Left out are matters of taste (typography, cell phone or cellphone) and the two slow ones
(uncomparables, restricted vocabularies), which take eight of nine milliseconds.
"""


class _Result(Protocol):
    span: tuple[int, int]
    message: str
    replacements: str | None


def linted(document: Document) -> Iterator[Issue]:
    """Report what the chosen checks of proselint find outside protected spans."""
    text = f"\n{document.masked}\n"
    for kind, check in _checks():
        for result in check.check_with_flags(text):
            yield from _issue(document, kind, result)


def _issue(document: Document, kind: Kind, result: _Result) -> Iterator[Issue]:
    start, end = result.span[0] - 1, result.span[1] - 1
    quote = document.text[start:end] if start >= 0 else ""
    if quote.strip() and document.is_free(start, end) and not quote[:1].isspace():
        new = (result.replacements or "").replace("\\", "")
        fix = f'Write "{new}".' if new else "Say it in plain words, or leave it out."
        message = f'"{" ".join(quote.split())}" is {_WHAT[kind]}.'
        yield Issue(kind, start, end, message, fix, cost=0.7)


_WHAT = {
    Kind.JARGON: "jargon or a cliché",
    Kind.WORDINESS: "redundant or hedging",
    Kind.SPELLING: "not a word, or not the word that was meant",
}


@cache
def _checks() -> tuple[tuple[Kind, Any], ...]:
    """Return the checks in use; importing them takes 0.2 s, once."""
    register = import_module("proselint.checks").__register__
    return tuple(
        (kind, check)
        for check in register
        for path, kind in _KINDS.items()
        if check.matches_partial(path)
    )
