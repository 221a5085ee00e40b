"""A draft: its identity, its parts, and how it is extracted from a model's reply."""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from app.contract import Contract, patterns
from app.contract.errors import FieldConflict
from app.contract.judgement import Span

MAX_TEXT = 200_000
"""Characters of a draft at most that is judged in one prompt."""

LONGEST_TEXT = 5_000_000
"""Characters of a draft at most that is refined part by part, and judged by summaries of them."""


def is_long(draft: str | None) -> bool:
    """Return whether a client's draft is too long to be judged in one prompt."""
    return draft is not None and len(draft) > MAX_TEXT


BYTE_ORDER_MARK = "\ufeff"
FIRST_MARK = re.compile(r"\s*<text-(?P<number>\d{6})>[ \t]*\n?")
EXACT_MARK = re.compile(r"</?text-(?P<number>\d{6})>")
FENCED = re.compile(r"\A\s*```[^\n`]*\n(?P<body>.*?)\n?```\s*\Z", re.DOTALL)


def sha256_of(text: str) -> str:
    """Return the SHA-256 (hex) of the UTF-8 bytes of `text`: the identity of a draft."""
    return hashlib.sha256(text.encode()).hexdigest()


def marks(number: str) -> tuple[str, str]:
    """Return the marks between which a model is asked to write a text."""
    return f"<text-{number}>", f"</text-{number}>"


@lru_cache(maxsize=16)
def draft_of(reply: str) -> str:
    """Return the draft in a model's reply: without outer white space, and without the marks or the
    one code fence that enclose it.

    A reply with fences inside it, or with text around them, is left as it is.
    """
    if "<text-" in reply[:100] and (first := FIRST_MARK.match(reply)):
        body, last, end = reply[first.end() :].rpartition(f"</text-{first['number']}>")
        if last and not end.strip() and not EXACT_MARK.search(body):
            reply = body
    bare = reply.strip()
    if bare[:3] != "```":
        return bare
    fenced = FENCED.match(reply)
    if fenced and "```" not in fenced["body"]:
        return fenced["body"].strip("\n")
    return bare


PartName = Annotated[str, Field(min_length=1, max_length=60, pattern=patterns.PART_NAME.regex)]
"""Part of a path, such as `outline` in `stages/outline/iterations/1`."""

Instructions = Annotated[str, Field(max_length=4_000)]
EditMode = Literal["full", "delta", "auto"]
Edits = Annotated[
    EditMode,
    Field(
        description="`full`: the reviser rewrites the whole text; `delta`: it replies with exact"
        " search/replace edits, and rewrites the whole text only if they cannot be applied; `auto`:"
        " edits for a draft that is long, and good enough that most of it stays."
    ),
]
LockedText = Annotated[str, Field(min_length=1, max_length=20_000)]


Escape = Literal["fresh_draft", "temperature"]
"""How a draft was made in another way, once the search stood still."""


class EditsMade(Contract):
    """The effect of edits on the draft that they were applied to."""

    applied: int = Field(ge=1)
    untouched: float = Field(
        ge=0, le=1, description="Share of that draft's characters that stayed as they were."
    )


class EditsReport(EditsMade):
    """The effect of edits, with the tokens saved by not rewriting the whole text."""

    output_tokens_saved: int | None = Field(
        description="Tokens that the whole text would have cost at this reply's ratio of tokens to"
        " bytes, less those spent; below 0 when edits cost more, null when usage is unknown."
    )


def lacking(text: str, locked: Sequence[str]) -> tuple[str, ...]:
    """Return the locked texts that a text lacks; it must have all of them verbatim and in order.

    `locked` is in the order of the draft that it was taken from, as `locked_in_order` has it.
    """
    gone, at = [], 0
    for part in locked:
        found = text.find(part, at)
        at = max(at, found)
        if found < 0:
            gone.append(part)
    return tuple(gone)


def locked_in_order(draft: str | None, locked: Sequence[str]) -> tuple[str, ...]:
    """Return locked texts in the order of their positions in the draft."""
    return tuple(sorted(locked, key=(draft or "").find))


def locked_spans(text: str, locked: Sequence[str]) -> tuple[Span, ...]:
    """Return the spans of locked texts in a text, in order; overlapping spans are merged."""
    found = sorted(
        (text.find(passage), text.find(passage) + len(passage))
        for passage in locked
        if passage in text
    )
    spans: list[Span] = []
    for start, end in found:
        if spans and start < spans[-1].end:
            spans[-1] = Span(start=spans[-1].start, end=max(spans[-1].end, end))
        else:
            spans.append(Span(start=start, end=end))
    return tuple(spans)


class Passage(Contract):
    """A passage of a draft: its words, its place, or both."""

    quote: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_TEXT,
        description="The words, character for character. Without a place they must occur in the"
        " draft exactly once.",
    )
    start: int | None = Field(
        None,
        ge=0,
        description="Its first character, counted in Unicode code points from 0 (not in UTF-16"
        " units or bytes).",
    )
    end: int | None = Field(None, ge=0, description="The character after its last one.")

    @model_validator(mode="after")
    def _says_where_it_is(self) -> Self:
        if (self.start is None) != (self.end is None):
            raise ValueError("`start` and `end` go together")
        if self.quote is None and self.start is None:
            raise ValueError("`quote` is required, or `start` and `end`")
        return self

    def span_in(self, draft: str) -> Span:
        """Return its place in a draft. Raises ValueError if it is not there, or ambiguous."""
        if self.start is None or self.end is None:
            return self._quoted_in(draft, self.quote or "")
        if not self.start < self.end <= len(draft):
            raise ValueError(
                f"the place {self.start} to {self.end} is no passage of the draft, which has"
                f" {len(draft)} characters (Unicode code points)"
            )
        found = draft[self.start : self.end]
        if self.quote is not None and found != self.quote:
            raise ValueError(f"the draft has other words there than `quote`: {found[:200]}")
        if not found.strip():
            raise ValueError("the passage has no words, only white space")
        return Span(start=self.start, end=self.end)

    @staticmethod
    def _quoted_in(draft: str, quote: str) -> Span:
        start = draft.find(quote)
        if start < 0:
            raise ValueError("the draft does not have these words: copy them exactly")
        if draft.find(quote, start + 1) >= 0:
            raise ValueError(
                "the draft has these words more than once: quote more of it, or say which by"
                " `start` and `end`"
            )
        if not quote.strip():
            raise ValueError("the passage has no words, only white space")
        return Span(start=start, end=start + len(quote))


MOST_PASSAGES = 20

Passages = Annotated[
    tuple[Passage, ...],
    Field(
        max_length=MOST_PASSAGES,
        description="The passages that `feedback` is about: nothing else of the draft changes. They"
        " must not overlap.",
    ),
]


def spans_of(
    draft: str, passages: Sequence[Passage], locked: Sequence[str] = ()
) -> tuple[Span, ...]:
    """Return the places of passages in a draft, in order.

    Raises FieldConflict for one that is not there exactly once, that overlaps with another, or that
    has only a part of a locked text or nothing else.
    """
    spans: dict[int, Span] = {}
    for index, passage in enumerate(passages):
        try:
            spans[index] = passage.span_in(draft)
        except ValueError as error:
            raise FieldConflict(f"/spans/{index}", str(error)) from None
    ordered = sorted(spans.items(), key=lambda place: place[1].start)
    for (_, one), (index, other) in pairwise(ordered):
        if other.start < one.end:
            detail = f"it overlaps with the passage at {one.start} to {one.end}: mark them as one"
            raise FieldConflict(f"/spans/{index}", detail)
    for index, span in ordered:
        for kept in locked_spans(draft, locked):
            is_apart = span.end <= kept.start or kept.end <= span.start
            has_more = span != kept and span.start <= kept.start and kept.end <= span.end
            if not (is_apart or has_more):
                shown = draft[kept.start : kept.end][:200]
                detail = f"it is locked, or cuts through locked text, which stays: {shown}"
                raise FieldConflict(f"/spans/{index}", detail)
    return tuple(span for _, span in ordered)
