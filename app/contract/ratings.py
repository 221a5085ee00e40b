"""Ratings by people: what a judged draft deserves, or that it is better than another one."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from app.contract import Contract, JournalEntry
from app.contract.errors import FieldConflict
from app.contract.judgement import Score

DraftPath = Annotated[str, Field(min_length=1, max_length=1_000)]


class RatingRequest(Contract):
    """A person's rating of a judged draft: either `score` or `better_than`."""

    path: DraftPath = Field(description="Path of the iteration, such as `iterations/2`.")
    score: Score | None = Field(None, description="What the draft deserves, from 0 to 1.")
    better_than: DraftPath | None = Field(
        None, description="Path of another iteration, whose draft is worse."
    )
    by: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="Who says so; ratings by the same person are compared with each other.",
    )
    note: str | None = Field(None, min_length=1, max_length=4_000, description="Why.")

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.score is None and self.better_than is None:
            raise FieldConflict("/score", "either `score` or `better_than` is required")
        if self.score is not None and self.better_than is not None:
            raise FieldConflict("/better_than", "`better_than` is not possible with `score`")
        if self.better_than == self.path:
            raise FieldConflict("/better_than", "`better_than` must be another draft than `path`")
        return self


class Rated(Contract):
    """A person rated a judged draft. It changes nothing else in the refinement."""

    path: str
    sha256: str = Field(description="SHA-256 (hex) of the rated draft.")
    score: Score | None = None
    better_than: str | None = None
    by: str | None = None
    note: str | None = None


class Rating(Rated, JournalEntry):
    """A rating, with the number and the time of its event."""
