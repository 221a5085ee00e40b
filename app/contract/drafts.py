"""A draft: its identity, its parts, and how it is extracted from a model's reply."""

import hashlib
import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from app.contract import Contract
from app.contract.judgement import Span

MAX_TEXT = 200_000
"""Characters of a draft at most."""

FENCED = re.compile(r"\A\s*```[^\n`]*\n(?P<body>.*?)\n?```\s*\Z", re.DOTALL)


def sha256_of(text: str) -> str:
    """Return the SHA-256 (hex) of the UTF-8 bytes of `text`: the identity of a draft."""
    return hashlib.sha256(text.encode()).hexdigest()


def draft_of(reply: str) -> str:
    """Return the draft in a model's reply: without outer white space and one enclosing code fence.

    A reply with fences inside it, or with text around them, is left as it is.
    """
    fenced = FENCED.match(reply)
    if fenced and "```" not in fenced["body"]:
        return fenced["body"].strip("\n")
    return reply.strip()


PartName = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[a-z0-9][a-z0-9_-]*$")]
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

    `locked` is in the order of the draft that it was taken from, as `in_order` returns it.
    """
    gone, at = [], 0
    for it in locked:
        found = text.find(it, at)
        at = max(at, found)
        if found < 0:
            gone.append(it)
    return tuple(gone)


def in_order(draft: str | None, locked: Sequence[str]) -> tuple[str, ...]:
    """Return locked texts in the order of their positions in the draft."""
    return tuple(sorted(locked, key=(draft or "").find))


def locked_spans(text: str, locked: Sequence[str]) -> tuple[Span, ...]:
    """Return the spans of locked texts in a text, in order; overlapping spans are merged."""
    found = sorted((text.find(it), text.find(it) + len(it)) for it in locked if it in text)
    spans: list[Span] = []
    for start, end in found:
        if spans and start < spans[-1].end:
            spans[-1] = Span(start=spans[-1].start, end=max(spans[-1].end, end))
        else:
            spans.append(Span(start=start, end=end))
    return tuple(spans)
