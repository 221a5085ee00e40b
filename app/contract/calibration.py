"""What was learnt from the scores of ended refinements: as numbers only, and as clients see it."""

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


class Learnt(Contract):
    """Sums over refinements of one kind; a refinement adds its own at its end.

    Each addition first multiplies what is there by 0.99, so that about the latest 100 count.
    """

    bank: int = Field(ge=1, description="Version of the hypotheses; others' sums are not read.")
    refinements: float = Field(0, ge=0, description="How many refinements, decayed.")
    evidence: tuple[float, ...] = Field(
        (),
        description="Log-likelihood of the scores under each hypothesis, relative to what was"
        " expected before.",
    )
    is_own: bool = Field(
        True, description="Whether they are of its kind alone, not of all kinds with its models."
    )
    trust: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of an apparent change of quality that is believed; no sum, never added.",
    )
    first_drafts: tuple[float, float, float] = Field(
        (0, 0, 0), description="Number, sum and sum of squares of the scores of first drafts."
    )
    predicted: tuple[float, float] = Field(
        (0, 0),
        description="Number of scores of revisions, and of those within two standard deviations of"
        " what was expected before.",
    )
    rated: tuple[float, float, float, float] = Field(
        (0, 0, 0, 0),
        description="Number of results that people scored, of those that met their threshold by"
        " that; and sums of the chances predicted, and of the variances of such an outcome.",
    )
