"""Data that API, workers and clients agree on. Nothing here does I/O."""

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from app.contract.invalid_values import A_TIME


def _written_out(given: object) -> object:
    if isinstance(given, datetime | None):
        return given
    try:
        return datetime.fromisoformat(given if isinstance(given, str) else "")
    except ValueError:
        raise ValueError(A_TIME) from None


Instant = Annotated[AwareDatetime, BeforeValidator(_written_out)]
"""A time with an offset (RFC 3339); pydantic alone also reads seconds since 1970."""


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
