"""The strategies a request can name: the shapes of the loop."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from app.contract import Contract
from app.contract.criteria import Criterion
from app.contract.parted_strategies import (
    PARTED,
    Instructions,
    MultiPassStrategy,
    OwnIterations,
    OwnThreshold,
    PartName,
    StepwiseStrategy,
)
from app.contract.planning import PlanExecuteStrategy
from app.contract.reasoning_strategies import (
    ChainOfVerificationStrategy,
    ReasoningRevisionStrategy,
    SelfConsistencyStrategy,
)


class IterativeStrategy(Contract):
    """Draft, then critique and revise the best until good enough.

    Self-Refine, arXiv 2303.17651.
    """

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


InnerStrategy = Annotated[
    IterativeStrategy | BestOfNStrategy | MultiPassStrategy | StepwiseStrategy,
    Field(discriminator="kind"),
]


class Part(Contract):
    """One part of a larger text, such as a chapter."""

    name: PartName
    instructions: Annotated[Instructions, Field(min_length=1)]
    criteria: tuple[Criterion, ...] = Field(
        (), max_length=20, description="What the part is judged on; the request's if empty."
    )
    threshold: OwnThreshold = None


class NestedStrategy(Contract):
    """Refine n parts side by side, each with another strategy to its own threshold, and join them.

    Without `parts` they are the sections of the given draft. The joined text is judged as a whole.
    Money, tokens and time are counted over all. (Recursive reprompting and revision, Re3, arXiv
    2210.06774.)
    """

    kind: Literal["nested"]
    parts: tuple[Part, ...] = Field((), max_length=30)
    body: InnerStrategy = IterativeStrategy(kind="iterative")
    max_iterations: OwnIterations = 3
    separator: str = Field("\n\n", max_length=100, description="Stands between two parts.")

    @model_validator(mode="after")
    def _parts_can_be_played(self) -> Self:
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names):
            raise ValueError("two parts have the same name")
        if self.body.kind == "best_of_n" and self.body.n + self.body.refine > self.max_iterations:
            raise ValueError("max_iterations counts every draft of a part: best_of_n needs more")
        return self

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        """Return what is judged on besides the request's criteria."""
        inner = self.body.rubrics() if isinstance(self.body, PARTED) else ()
        return (*inner, *(it.criteria for it in self.parts if it.criteria))


AnyStrategy = Annotated[
    IterativeStrategy
    | CritiqueStrategy
    | SelfCorrectionStrategy
    | BestOfNStrategy
    | MultiPassStrategy
    | StepwiseStrategy
    | ChainOfVerificationStrategy
    | SelfConsistencyStrategy
    | ReasoningRevisionStrategy
    | NestedStrategy
    | PlanExecuteStrategy,
    Field(discriminator="kind"),
]

SIMPLE = (
    IterativeStrategy,
    CritiqueStrategy,
    SelfCorrectionStrategy,
    BestOfNStrategy,
    ChainOfVerificationStrategy,
    SelfConsistencyStrategy,
    ReasoningRevisionStrategy,
    PlanExecuteStrategy,
)
"""Those that judge on the request's criteria alone."""
