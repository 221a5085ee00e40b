"""Slips of punctuation and capitals that are wrong in any style."""

import re
from collections.abc import Iterator

from workers.models.editor.document import ABBREVIATIONS, Document
from workers.models.editor.edits import Edit, checked
from workers.models.editor.issues import Issue, Kind
from workers.models.editor.tables import alternatives

_SLIPS = (
    (re.compile(r" (?<=[a-z]{3} )(?P<x>[,;!?])(?=\s|\Z)"), r"\g<x>", "a space before a sign"),
    (re.compile(r" (?<=[a-z]{3} ),(?=[a-z]{2})"), ", ", "a space before a comma"),
    (re.compile(r",(?<=[a-z]{3},)(?=[a-z]{2,}[\s.!?])"), ", ", "no space after a comma"),
    (re.compile(r",(?<=[^\W\d_],),+(?=\s)"), ",", "two commas"),
    (re.compile(r"(?P<x>[!?])(?<=[^\W\d_].)(?P=x)+"), r"\g<x>", "more than one mark"),
    (re.compile(r" (?<=[\w,;)] ) +(?=[^\s|])"), " ", "more than one space"),
    (re.compile(r"\.(?<=[^\W\d_]{3}\.\.)(?=\s|\Z)"), "", "two full stops"),
)
_SMALL_START = re.compile(r"[.?!](?<=[^\W\d_]{3}.) +(?P<small>[a-z])")
_STARTER = re.compile(rf"(?:{alternatives('starters')})\b")


def punctuation(document: Document) -> Iterator[Issue]:
    """Report stray spaces, doubled signs and sentences that start small."""
    for pattern, new, what in _SLIPS:
        for match in pattern.finditer(document.masked):
            edit = checked(document, Edit(*match.span(), match.expand(new)))
            if edit is not None and "\n" not in match[0]:
                yield _slip(*match.span(), what, edit)
    for match in _SMALL_START.finditer(document.masked):
        at = match.start("small")
        before = document.word_before(match.start())
        is_short = before is None or before.lower in {*ABBREVIATIONS, "etc"}
        if is_short or not _STARTER.match(document.masked, at):
            continue
        edit = checked(document, Edit(at, at + 1, match["small"].upper()))
        yield _slip(at, at + 1, "a sentence that starts with a small letter", edit)


def _slip(start: int, end: int, what: str, edit: Edit | None) -> Issue:
    return Issue(Kind.SPELLING, start, end, f"There is {what}.", "Mend it.", edit, cost=0.5)
