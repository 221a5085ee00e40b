"""The strategies a request can name: the shapes of the loop."""

from typing import Annotated, Literal

from pydantic import Field

from app.contract.model import Contract
from app.contract.parted_strategies import MultiPassStrategy, StepwiseStrategy


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


class BestOfNStrategy(Contract):
    """Write n drafts at once, judge each, return the best (best-of-n, arXiv 2009.01325).

    With `refine` the best is then revised with what `max_iterations` leaves, which counts every
    draft: breadth and depth at an equal budget (arXiv 2408.03314).
    """

    kind: Literal["best_of_n"]
    n: int = Field(3, ge=2, le=16, description="Drafts written at once.")
    refine: bool = Field(False, description="Revise the best with the iterations that are left.")


AnyStrategy = Annotated[
    IterativeStrategy
    | CritiqueStrategy
    | SelfCorrectionStrategy
    | BestOfNStrategy
    | MultiPassStrategy
    | StepwiseStrategy,
    Field(discriminator="kind"),
]
