"""When a refinement stops: the rules as requested, and as now in force."""

from typing import Annotated

from pydantic import Field

from app.contract import Contract

Threshold = Annotated[
    float, Field(ge=0, le=1, description="Score from which a draft is good enough.")
]
MaxIterations = Annotated[int, Field(ge=1, le=50, description="Drafts written and judged at most.")]
MaxSeconds = Annotated[
    float, Field(gt=0, le=86_400, description="Seconds from `started_at`, pauses excluded.")
]
MaxTokens = Annotated[
    int, Field(ge=1, le=10**9, description="Input and output tokens of all model calls.")
]
MaxCost = Annotated[float, Field(gt=0, le=10**6, description="US dollars for all model calls.")]


class Stop(Contract):
    """Rules that end a refinement before `max_iterations`."""

    patience: int = Field(2, ge=1, le=50, description="Judged drafts in a row without improvement.")
    min_improvement: float = Field(0.01, ge=0, le=1, description="What counts as improvement.")
    max_similarity: float = Field(
        0.99,
        ge=0,
        le=1,
        description="Jaccard similarity of word 3-grams with its parent that counts as stable.",
    )
    tolerance: float = Field(
        0,
        ge=0,
        le=1,
        description="How far below the highest score so far a revision may lie and still be taken"
        " for the best: for critics whose scores are noisy.",
    )
    max_seconds: MaxSeconds = 600
    max_tokens: MaxTokens | None = None
    max_cost_usd: MaxCost | None = None


class Limits(Stop):
    """Every rule now in force."""

    threshold: Threshold
    max_iterations: MaxIterations


class LimitsChange(Contract):
    """A PATCH: the limits to change while the refinement runs; what is left out stays."""

    threshold: Threshold | None = None
    max_iterations: MaxIterations | None = None
    max_seconds: MaxSeconds | None = None
    max_tokens: MaxTokens | None = None
    max_cost_usd: MaxCost | None = None

    def applied_to(self, limits: Limits) -> Limits:
        """Return the limits with every field that was given replaced."""
        return limits.model_copy(update=self.model_dump(exclude_none=True))
