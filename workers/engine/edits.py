"""Applies exact search/replace edits to a draft: all of them, or none."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise

from app.contract.drafts import lacking, locked_spans
from app.contract.judgement import Span
from app.contract.values import value

PIECES = (
    re.compile(r"[^\n]*\n|[^\n]+"),
    re.compile(r"[^.!?]*[.!?]+\s*|[^.!?]+"),
    re.compile(r"\w+|\s+|[^\w\s]"),
)
"""Lines, sentences, words: pieces that differ are split further and compared again."""

MOST_PIECES = 5_000
"""A longer list is replaced as a whole, because comparing takes quadratic time."""

SHOWN = 80
"""Characters of an edit shown in an error."""


class CannotApply(Exception):
    """An edit that cannot be applied; the message names it and says why."""


@value(slots=True)
class SearchReplace:
    """Words that occur in a draft exactly once, and their replacement."""

    search: str
    replace: str


@value(slots=True)
class Edited:
    """A draft with every edit applied; `untouched` is the share of its characters left alone."""

    text: str
    applied: int
    untouched: float


@value(slots=True)
class _Change:
    """The characters `start` to `end` of a draft become `text`."""

    start: int
    end: int
    text: str

    def touches(self, span: Span) -> bool:
        """Return whether it changes anything inside a span."""
        return self.start < span.end and self.end > span.start


def applied(draft: str, edits: Sequence[SearchReplace], locked: Sequence[str] = ()) -> Edited:
    """Return the draft with all edits applied, each where the given draft has its words.

    Raises `CannotApply` when there are no edits, or for an edit that is not found exactly once,
    changes nothing, overlaps with another or touches locked text.
    """
    if not edits:
        raise CannotApply("there are no edits")
    changes = sorted((_change(draft, it) for it in edits), key=lambda it: (it.start, it.end))
    for one, other in pairwise(changes):
        if other.start < one.end or other.start == one.start:
            raise CannotApply(f"two edits overlap at {_shown(draft[other.start :])}: merge them")
    for span in locked_spans(draft, locked):
        kept = draft[span.start : span.end]
        for it in changes:
            if it.touches(span) and kept not in it.text:
                raise CannotApply(
                    f"the edit at {_shown(draft[it.start :])} touches locked text, which must stay:"
                    f" {_shown(kept)}"
                )
    text = _made(draft, changes)
    if gone := lacking(text, [it for it in locked if it in draft]):
        raise CannotApply(f"an edit moves locked text, which must stay: {_shown(gone[0])}")
    touched = sum(it.end - it.start for it in changes)
    return Edited(text, len(changes), round(1 - touched / len(draft), 6))


@value(slots=True)
class Replaced:
    """A draft with other passages, and where these are; all around them is as it was."""

    text: str
    spans: tuple[Span, ...]


def replaced(
    draft: str, spans: Sequence[Span], texts: Sequence[str], locked: Sequence[str] = ()
) -> Replaced:
    """Return the draft with each passage replaced by its text; `spans` are in order.

    The white space at the ends of a passage stays, unless the passage is deleted. In a draft whose
    lines all end with CRLF those of the texts do. Locked text in a passage stays.
    """
    pieces: list[str] = []
    found: list[Span] = []
    at = length = 0
    has_crlf = "\r\n" in draft and "\n" not in draft.replace("\r\n", "")
    for span, text in zip(spans, texts, strict=True):
        before = draft[span.start : span.end]
        new = _in_place_of(before, text, has_crlf=has_crlf)
        new = restored(before, new, [it for it in locked if it in before])
        length += span.start - at
        found.append(Span(start=length, end=length + len(new)))
        pieces += [draft[at : span.start], new]
        at, length = span.end, length + len(new)
    return Replaced("".join([*pieces, draft[at:]]), tuple(found))


def _in_place_of(before: str, text: str, *, has_crlf: bool) -> str:
    """Return a text with the white space around it, and the ends of lines, of what it replaces."""
    bare = text.strip()
    if not bare:
        return ""
    if has_crlf:
        bare = re.sub(r"\r?\n", "\r\n", bare)
    start = before[: len(before) - len(before.lstrip())]
    end = before[len(before.rstrip()) :]
    return f"{start}{bare}{end}"


def between(before: str, after: str) -> tuple[SearchReplace, ...]:
    """Return edits that turn one text into another: few, and each found exactly once.

    Lines are compared first, then the sentences and words of those that differ. There are no edits
    for equal texts, nor for an empty `before`, in which nothing can be found.
    """
    changes = list(_differences(before, after, PIECES)) if before else []
    ranges: list[tuple[int, int]] = []
    for it in changes:
        start, end = _unique(before, it.start, it.end)
        while ranges and ranges[-1][1] >= start:
            last = ranges.pop()
            start, end = min(last[0], start), max(last[1], end)
        ranges.append((start, end))
    return tuple(
        SearchReplace(before[start:end], _made(before, changes, start, end))
        for start, end in ranges
    )


def restored(before: str, after: str, locked: Sequence[str]) -> str:
    """Return a revision with every locked text of the draft before it.

    A revision that has them all is returned unchanged. In any other, the differences that touch
    locked text are undone, by the sentence or the word.
    """
    if not lacking(after, [it for it in locked if it in before]):
        return after
    spans = locked_spans(before, locked)
    changes = _differences(before, after, PIECES)
    return _made(before, [it for it in changes if not any(map(it.touches, spans))])


def _change(draft: str, edit: SearchReplace) -> _Change:
    """Return where an edit applies, without the words at its ends that it keeps."""
    start = draft.find(edit.search) if edit.search else -1
    if start < 0:
        raise CannotApply(f"{_shown(edit.search)} does not occur in the draft: copy it exactly")
    if draft.find(edit.search, start + 1) >= 0:
        raise CannotApply(f"{_shown(edit.search)} occurs in the draft more than once: copy more")
    if edit.search == edit.replace:
        raise CannotApply(f"the edit of {_shown(edit.search)} changes nothing")
    head = _common(edit.search, edit.replace)
    search, text = edit.search[head:], edit.replace[head:]
    tail = _common(search[::-1], text[::-1])
    return _Change(start + head, start + head + len(search) - tail, text[: len(text) - tail])


def _made(draft: str, changes: Sequence[_Change], start: int = 0, end: int | None = None) -> str:
    """Return the part of a draft from `start` to `end` with the changes in it made."""
    end = len(draft) if end is None else end
    pieces: list[str] = []
    for it in changes:
        if start <= it.start and it.end <= end:
            pieces += [draft[start : it.start], it.text]
            start = it.end
    return "".join([*pieces, draft[start:end]])


def _differences(before: str, after: str, pieces: Sequence[re.Pattern[str]]) -> Iterator[_Change]:
    if before == after:
        return
    if not pieces:
        yield _Change(0, len(before), after)
        return
    split, *finer = pieces
    for it in _replaced(split.findall(before), split.findall(after)):
        for change in _differences(before[it.start : it.end], it.text, finer):
            yield _Change(it.start + change.start, it.start + change.end, change.text)


def _replaced(before: Sequence[str], after: Sequence[str]) -> Iterator[_Change]:
    """Return what differs between two lists of pieces, in characters of the joined first one."""
    if max(len(before), len(after)) > MOST_PIECES:
        yield _Change(0, sum(map(len, before)), "".join(after))
        return
    places = [0, *accumulate(map(len, before))]
    for kind, start, end, new_start, new_end in SequenceMatcher(None, before, after).get_opcodes():
        if kind != "equal":
            yield _Change(places[start], places[end], "".join(after[new_start:new_end]))


def _unique(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a range around this one whose characters occur in the text exactly once."""
    more = 8
    while True:
        found = text.find(text[start:end]) if end > start else 0
        if end > start and text.find(text[start:end], found + 1) < 0:
            return start, end
        start, end = max(0, start - more), min(len(text), end + more)
        more *= 2


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    most = min(len(one), len(other))
    return next((at for at in range(most) if one[at] != other[at]), most)


def _shown(text: str) -> str:
    return f'"{text[:SHOWN]}..."' if len(text) > SHOWN else f'"{text}"'
