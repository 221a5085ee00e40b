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


AnyStrategy = Annotated[IterativeStrategy | CritiqueStrategy, Field(discriminator="kind")]
