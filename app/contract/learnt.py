"""What was learnt from the scores of ended refinements: numbers only, no text."""

from pydantic import Field

from app.contract import Contract


class Learnt(Contract):
    """Sums over refinements of one kind; those of one refinement are what it adds at its end.

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
