"""The strategies a request can name: the shapes of the loop."""

from typing import Annotated, Literal

from pydantic import Field

from app.contract.model import Contract


class IterativeStrategy(Contract):
    """Draft, then critique and revise the best until good enough (Self-Refine, arXiv 2303.17651)."""

    kind: Literal["iterative"]


class CritiqueStrategy(Contract):
    """Judge the given draft once and revise nothing."""

    kind: Literal["critique"]


class SelfCorrectionStrategy(Contract):
    """Validate, and correct from the exact errors until every validator passes. No critic is asked.

    The loop of Reflexion (arXiv 2303.11366) and Self-Debugging (arXiv 2304.05128) with validators
    as the only judge: for JSON, SQL, code and whatever else can be checked without an opinion.
    """

    kind: Literal["self_correction"]


AnyStrategy = Annotated[
    IterativeStrategy | CritiqueStrategy | SelfCorrectionStrategy, Field(discriminator="kind")
]
