"""Data that API, workers and clients agree on. Nothing here does I/O."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field


class Contract(BaseModel):
    """Frozen data that rejects unknown fields, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ListPage(Contract):
    """One page of a list, and where the next one begins."""

    has_more: bool
    next_cursor: str | None = Field(description="For the next page; null on the last one.")


class EntryPage(Contract):
    """One page of a journal, and where the next one begins."""

    has_more: bool
    next_after: int


class JournalEntry(Contract):
    """The number of an event, which counts 1, 2, 3 ... without gaps, and its time."""

    event: int = Field(ge=1)
    at: datetime
