"""How a draft is revised: as a whole, or by edits of it; and what may not be touched."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from app.contract.judgement import Span
from app.contract.model import Contract

EditMode = Literal["full", "delta", "auto"]
Edits = Annotated[
    EditMode,
    Field(
        description="`full`: the reviser writes the whole text anew; `delta`: it answers with exact"
        " search/replace edits, and writes the whole text only if they cannot be applied; `auto`:"
        " edits for a draft that is long, and good enough that most of it stays."
    ),
]
LockedText = Annotated[str, Field(min_length=1, max_length=20_000)]


class EditsMade(Contract):
    """What edits made of the draft that they were given."""

    applied: int = Field(ge=1)
    untouched: float = Field(
        ge=0, le=1, description="Share of that draft's characters left as they were."
    )


class EditsReport(EditsMade):
    """The same, with what was saved by not writing the whole text anew."""

    output_tokens_saved: int | None = Field(
        description="Tokens that the whole text would have cost at this reply's ratio of tokens to"
        " bytes, less those spent; below 0 when edits cost more, null when usage is unknown."
    )


def lacking(text: str, locked: Sequence[str]) -> tuple[str, ...]:
    """Return the locked texts that do not stand in a text, character for character and in order.

    `locked` is in the order of the draft that it was taken from, as `in_order` gives it.
    """
    gone, at = [], 0
    for it in locked:
        found = text.find(it, at)
        at = max(at, found)
        if found < 0:
            gone.append(it)
    return tuple(gone)


def in_order(draft: str | None, locked: Sequence[str]) -> tuple[str, ...]:
    """Return locked texts in the order in which they stand in the draft."""
    return tuple(sorted(locked, key=(draft or "").find))


def locked_spans(text: str, locked: Sequence[str]) -> tuple[Span, ...]:
    """Return where locked texts stand in a text, in order; those that overlap are one."""
    found = sorted((text.find(it), text.find(it) + len(it)) for it in locked if it in text)
    spans: list[Span] = []
    for start, end in found:
        if spans and start < spans[-1].end:
            spans[-1] = Span(start=spans[-1].start, end=max(spans[-1].end, end))
        else:
            spans.append(Span(start=start, end=end))
    return tuple(spans)
