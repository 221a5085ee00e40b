"""What became of an issue: something found wrong with a draft, followed from parent to revision."""

from enum import StrEnum

from pydantic import Field

from app.contract.judgement import Span
from app.contract.model import Contract


class IssueState(StrEnum):
    """An issue of a draft or of its parent; the line is that of parents, not of time."""

    NEW = "new"
    CARRIED = "carried"
    RESOLVED = "resolved"
    RETURNED = "returned"

    @property
    def is_open(self) -> bool:
        """False when the draft does not have it any more."""
        return self is not IssueState.RESOLVED


class IssueNote(Contract):
    """An issue as the journal has it: its words stand in the findings, once."""

    id: str = Field(
        description="`iterations/1#2`: found first in `iterations/1`, as the second finding there."
    )
    state: IssueState
    finding: int | None = Field(
        ge=0, description="Which of this iteration's findings it is, from 0; null when resolved."
    )


class Issue(Contract):
    """Something wrong with a draft, or with its parent and mended since."""

    id: str = Field(description="The same in every iteration of a line of revisions.")
    state: IssueState = Field(
        description="`new`; `carried`: the parent has it too; `resolved`: the parent has it and"
        " this draft does not; `returned`: resolved earlier in this line, and there again."
    )
    kind: str
    source: str
    message: str
    fix: str | None
    quote: str | None
    span: Span | None = Field(description="Where it is in this draft; null when resolved.")
    since: str = Field(description="Path of the iteration where it was found first.")
