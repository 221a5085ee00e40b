"""People in the loop: when a refinement asks for a review, and what a reviewer can say.

While it waits it is `paused` and holds no worker. The draft itself is the iteration at `path`.
"""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from app.contract import Contract
from app.contract.drafts import MAX_TEXT
from app.contract.judgement import Score

ReviewWhen = Literal["each_iteration", "before_completion"]
OnTimeout = Literal["approve", "reject", "finish"]
ReviewAction = Annotated[
    Literal["approve", "reject", "revise", "replace", "rate"],
    Field(
        description="`approve`: end with the draft under review; `reject`: end with the best one,"
        " not passed; `revise`: revise the draft under review along the feedback; `replace`: go on"
        " with the draft that is given; `rate`: override its score and go on under the rules."
    ),
]

MAX_FEEDBACK = 20_000
A_WEEK_S = 604_800


class ReviewPlan(Contract):
    """When a person is asked, how long the refinement waits for the answer, and what then."""

    when: ReviewWhen = Field(
        description="`each_iteration`: after every draft that was judged; `before_completion`:"
        " once, when the strategy would end."
    )
    timeout_s: float = Field(
        A_WEEK_S, gt=0, le=A_WEEK_S, description="Seconds to wait for one review, at most a week."
    )
    on_timeout: OnTimeout = Field(
        "finish", description="What nobody's answer means; `finish` ends with the best draft."
    )


class ReviewDecision(Contract):
    """A person's word about the draft under review."""

    action: ReviewAction
    feedback: str | None = Field(None, min_length=1, max_length=MAX_FEEDBACK)
    draft: str | None = Field(
        None, min_length=1, max_length=MAX_TEXT, description="The text that `replace` goes on with."
    )
    score: Score | None = Field(
        None, description="Overrides the score of the draft under review; `rate` needs one."
    )
    path: str | None = Field(
        None,
        min_length=1,
        max_length=1_000,
        description="`key` of the review that is meant; refused when another one is pending.",
    )

    @model_validator(mode="after")
    def _says_what_its_action_needs(self) -> Self:
        if self.action == "replace" and self.draft is None:
            raise ValueError("replace goes on with another text: give it in `draft`")
        if self.action != "replace" and self.draft is not None:
            raise ValueError("a `draft` is what replace goes on with: no other action takes one")
        if self.action == "rate" and self.score is None:
            raise ValueError("rate overrides the score: give one in `score`")
        if self.action == "replace" and self.score is not None:
            raise ValueError("a draft that replaces another is judged like any: leave `score` out")
        return self


class Paused(Contract):
    """A reviewer is asked about one judged draft: until `at` of this event plus `timeout_s`."""

    key: str = Field(description="Key of the step: what the answer will be recorded under.")
    path: str = Field(description="Path of the iteration under review.")
    iteration: int = Field(ge=0)
    score: Score | None
    sha256: str
    when: ReviewWhen
    timeout_s: float = Field(gt=0)
    on_timeout: OnTimeout
    question: str


class Reviewed(Contract):
    """What the reviewer said; after a time-out, what `on_timeout` says in their place."""

    key: str
    action: ReviewAction
    feedback: str | None = None
    draft: str | None = None
    score: Score | None = None
    by: Literal["reviewer", "timeout"]


class PendingReview(Contract):
    """What a paused refinement waits for."""

    key: str
    path: str = Field(description="Path of the iteration under review.")
    question: str
    on_timeout: OnTimeout
    asked_at: datetime
    deadline: datetime
