"""What was learnt about the scores of a tenant's refinements, as clients see it."""

from pydantic import Field

from app.contract import Contract
from app.contract.judgement import Score


class FirstDrafts(Contract):
    """The scores of drafts without a parent."""

    mean: Score
    sd: float | None = Field(ge=0, description="Standard deviation; null for less than two.")


class CalibratedKind(Contract):
    """What is known of a kind of refinements; null in a name stands for all."""

    generator: str | None
    critic: str = Field(description="Models of the critics, and how often each is asked.")
    strategy: str | None
    criteria: str | None = Field(
        description="Hash of the criteria: the same for the same names, descriptions and weights."
    )
    refinements: float = Field(
        ge=0, description="How many are known: the latest count as 1, older ones as less."
    )
    noise: float | None = Field(
        description="Expected standard deviation of a critic's score of one text; null if unknown."
    )
    gain: float | None = Field(
        description="Expected gain of a revision of a text of quality 0.5; null if unknown."
    )
    first_drafts: FirstDrafts | None
    trust: Score = Field(
        description="Share of an apparent change of quality that is believed; 0.5 at first."
    )
    pairs: float = Field(ge=0, description="Pairs of drafts that the trust was learnt from.")
    ratings: int = Field(ge=0, description="Ratings by people of drafts of this critic.")


class CalibrationList(Contract):
    """What was learnt, by kind: those that were added to last come first."""

    data: tuple[CalibratedKind, ...]
