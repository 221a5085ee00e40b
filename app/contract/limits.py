"""The rules that stop a refinement: as requested, and as now in force."""

from typing import Annotated, Literal

from pydantic import Field

from app.contract import Contract

Threshold = Annotated[
    float, Field(ge=0, le=1, description="Minimum score of a draft that is good enough.")
]
MaxIterations = Annotated[
    int, Field(ge=1, le=50, description="Maximum number of drafts written and judged.")
]
MaxSeconds = Annotated[
    float,
    Field(
        gt=0,
        le=86_400,
        description="Maximum seconds from `started_at`, without pauses and waits for models; a"
        " retry starts them anew.",
    ),
]
MaxWaitSeconds = Annotated[
    float,
    Field(
        gt=0,
        le=2_592_000,
        description="Maximum seconds of all waits for models during which nothing else went on; a"
        " retry starts them anew.",
    ),
]
TimeLimit = Literal["max_seconds", "max_wait_seconds", "deadline"]
"""What the stop reason `deadline` stands for."""
MaxTokens = Annotated[
    int, Field(ge=1, le=10**9, description="Maximum input and output tokens of all model calls.")
]
MaxCost = Annotated[
    float, Field(gt=0, le=10**6, description="Maximum cost of all model calls in US dollars.")
]


class StopRules(Contract):
    """Limits that end a refinement before `max_iterations`."""

    patience: int | None = Field(
        None,
        ge=1,
        le=50,
        description="Maximum judged drafts in a row that are no better, by `min_improvement`, than"
        " the best so far; as good is no better. `null`: any number.",
    )
    confidence: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Minimum probability that a draft whose score reaches the threshold truly meets"
        " it. Below it the same draft is judged again, at most 3 times, and the mean is its score."
        " `null`: one score is enough.",
    )
    min_improvement: float = Field(
        0.01, ge=0, le=1, description="Minimum increase of the score that is an improvement."
    )
    max_similarity: float = Field(
        0.99,
        ge=0,
        le=1,
        description="Similarity with its parent from which a draft is stable if it has no higher"
        " score, no fewer errors and every issue of its parent: Jaccard of word 3-grams within 100"
        " words of a change. The same text is always stable.",
    )
    tolerance: float | None = Field(
        None,
        ge=0,
        le=1,
        description="How far below the highest score so far a revision may score and still become"
        " the best draft; 0: the highest score is the best draft. `null`: what scores taught about"
        " the noise of the critic decides.",
    )
    escape: bool = Field(
        True,
        description="Once, before it ends as stable, oscillating or a plateau, make one draft in"
        " another way: anew from the same findings, or, of a draft that was given, a revision at a"
        " higher temperature. It counts as an iteration, and it ends as it would have ended unless"
        " that draft becomes the best.",
    )
    max_seconds: MaxSeconds = 600
    max_wait_seconds: MaxWaitSeconds = 86_400
    max_tokens: MaxTokens | None = None
    max_cost_usd: MaxCost | None = None


class Stop(StopRules):
    """Rules that end a refinement before `max_iterations`."""


class Limits(StopRules):
    """All rules now in force."""

    threshold: Threshold
    max_iterations: MaxIterations


class LimitsChange(Contract):
    """The limits to change by a PATCH or a retry; omitted and null ones stay as they are."""

    threshold: Threshold | None = None
    max_iterations: MaxIterations | None = None
    max_seconds: MaxSeconds | None = None
    max_wait_seconds: MaxWaitSeconds | None = None
    max_tokens: MaxTokens | None = None
    max_cost_usd: MaxCost | None = None

    def applied_to(self, limits: Limits) -> Limits:
        """Return the limits with every field that was given replaced."""
        return limits.model_copy(update=self.model_dump(exclude_none=True))
