"""Reviews by people: when a refinement asks for one, and what a reviewer can decide.

While it waits it is `paused` and holds no worker. The draft itself is the iteration at `path`.
A client can also pause it at any time: then nothing is asked, `resume` lets it go on, and `revise`
and `replace` are followed as in a review.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from app.contract import Contract, patterns
from app.contract.drafts import MAX_TEXT, Passages
from app.contract.errors import FieldConflict
from app.contract.judgement import Score

ReviewWhen = Literal["each_iteration", "before_completion"]
PausedWhen = Literal[ReviewWhen, "before_call", "requested"]
OnTimeout = Literal["approve", "reject", "finish"]
OnPauseTimeout = Literal["finish", "resume"]
PausedOnTimeout = Literal[OnTimeout, OnPauseTimeout]
ReviewAction = Annotated[
    Literal["approve", "reject", "revise", "replace", "rate", "resume"],
    Field(
        description="`approve`: end with the draft under review; `reject`: end with the best one,"
        " not passed; `revise`: revise the draft under review by the feedback; `replace`: continue"
        " with the given draft; `rate`: override its score and continue by the usual rules. Of a"
        " call of a tool: `approve`: make it; `replace`: make it with the given `arguments`;"
        " `reject`: do not make it, and change the plan by the feedback. `resume`: continue after a"
        " pause that was requested; it takes `revise` and `replace` as well, if it has a `place`."
    ),
]

ReviewerName = Annotated[
    str, Field(min_length=1, max_length=100, pattern=patterns.REVIEWER_NAME.regex)
]

MAX_FEEDBACK = 20_000
MAX_ARGUMENTS = 100_000
MOST_REVIEWERS = 20
A_WEEK_S = 604_800


class ReviewPlan(Contract):
    """The time at which a reviewer is asked, the timeout, and the decision after it."""

    when: ReviewWhen = Field(
        description="`each_iteration`: after every judged draft; `before_completion`: once, before"
        " the strategy ends."
    )
    timeout_s: float = Field(
        A_WEEK_S, gt=0, le=A_WEEK_S, description="Timeout of one review in seconds."
    )
    on_timeout: OnTimeout = Field(
        "finish", description="Decision after a timeout; `finish` ends with the best draft."
    )
    reviewers: tuple[ReviewerName, ...] = Field(
        (),
        max_length=MOST_REVIEWERS,
        description="Who may decide: ids of API keys; where requests need no key, names. Empty:"
        " whoever may review.",
    )
    approvals: Literal["all", "any"] | Annotated[int, Field(ge=1, le=MOST_REVIEWERS)] = Field(
        "all",
        description="How many of the reviewers must approve a draft. Without `reviewers`, `all` and"
        " `any` are one, and a number counts different reviewers. Any other decision of one"
        " reviewer counts at once.",
    )

    @model_validator(mode="after")
    def _can_be_approved(self) -> Self:
        if len(set(self.reviewers)) < len(self.reviewers):
            raise FieldConflict("/reviewers", "each reviewer must be named once")
        if self.reviewers and self.approvals_needed > len(self.reviewers):
            detail = f"there are only {len(self.reviewers)} `reviewers`"
            raise FieldConflict("/approvals", detail)
        return self

    @property
    def approvals_needed(self) -> int:
        """How many different reviewers must approve a draft."""
        if self.approvals == "all":
            return max(1, len(self.reviewers))
        return 1 if self.approvals == "any" else self.approvals


class PauseRequest(Contract):
    """The longest duration of a requested pause, and what follows it."""

    timeout_s: float = Field(
        A_WEEK_S, gt=0, le=A_WEEK_S, description="Maximum duration of the pause in seconds."
    )
    on_timeout: OnPauseTimeout = Field(
        "finish",
        description="What happens then: `finish` ends with the best draft (without one, as soon as"
        " a draft is judged), `resume` continues.",
    )


class PendingPause(PauseRequest):
    """A requested pause that begins before the next step; `key` names it."""

    key: str


class PlannedCall(Contract):
    """A call of a tool that a plan wants to make."""

    tool: str
    arguments: dict[str, Any]
    why: str = Field(description="The step of the plan that wants it, in words.")


class ReviewDecision(Contract):
    """A reviewer's decision about the draft, or the call of a tool, under review."""

    action: ReviewAction
    feedback: str | None = Field(None, min_length=1, max_length=MAX_FEEDBACK)
    spans: Passages = ()
    draft: str | None = Field(
        None, min_length=1, max_length=MAX_TEXT, description="The new draft; only for `replace`."
    )
    arguments: dict[str, Any] | None = Field(
        None,
        description="The new arguments of the call under review; only for `replace`. If the tool's"
        " schema rejects them, the review is asked for again.",
    )
    score: Score | None = Field(
        None, description="Overrides the score of the draft under review; required for `rate`."
    )
    path: str | None = Field(
        None,
        min_length=1,
        max_length=1_000,
        description="`key` of the review to decide; rejected if another review is pending.",
    )
    reviewer: ReviewerName | None = Field(
        None,
        description="Who decides, where requests need no key; else it is the key, and another name"
        " is rejected. Required if the review has `reviewers` or needs several approvals.",
    )

    @model_validator(mode="after")
    def _says_what_its_action_needs(self) -> Self:
        if self.action == "replace" and (self.draft is None) == (self.arguments is None):
            raise ValueError("the action replace requires either `draft` or `arguments`")
        if self.draft is not None and not self.draft.strip():
            raise ValueError("`draft` has only white space")
        if self.action != "replace" and self.draft is not None:
            raise ValueError(f"`draft` is not supported for the action {self.action}")
        if self.action != "replace" and self.arguments is not None:
            raise ValueError(f"`arguments` is not supported for the action {self.action}")
        if len(json.dumps(self.arguments)) > MAX_ARGUMENTS:
            raise ValueError(f"`arguments` must have at most {MAX_ARGUMENTS} characters of JSON")
        if self.spans and (self.action != "revise" or self.feedback is None):
            raise ValueError("`spans` is only supported for the action revise, with `feedback`")
        if self.action == "rate" and self.score is None:
            raise ValueError("`score` is required for the action rate")
        if self.action == "resume" and not (self.feedback is None and self.score is None):
            raise ValueError("the action resume takes no `feedback` and no `score`")
        if self.action == "replace" and self.score is not None:
            raise ValueError("`score` is not supported for replace: the new draft is judged")
        return self

    def may_mean(self, pending: Sequence["PendingReview"]) -> list["PendingReview"]:
        """Return the pending reviews that it may be about: the one with its `path`, else all."""
        return [asked for asked in pending if self.path in (None, asked.key)]


PLACE = (
    "If the pause was requested: where in the work a revision of the draft at `path`, or a text in"
    " its place, is followed. Null if only `resume` is possible."
)


class AskedReview(Contract):
    """The question to reviewers about a judged draft, or about a call of a tool before it is made.

    Of a pause that was requested, the draft is the best one so far.
    """

    key: str = Field(description="Key of the step that records the decision.")
    path: str | None = Field(
        None,
        description="Path of the iteration, or of the step of a plan, under review; of the best"
        " iteration if the pause was requested, `null` before a draft was judged.",
    )
    when: PausedWhen | None = Field(
        None,
        description="`requested`: nobody is asked, and the actions `resume`, `revise` and `replace`"
        " answer it; `before_call`: a call of a tool is under review.",
    )
    question: str
    call: PlannedCall | None = Field(None, description="The call under review; null for a draft.")
    on_timeout: PausedOnTimeout
    reviewers: tuple[str, ...] = Field((), description="Who may decide; empty: any reviewer.")
    approvals_needed: int = Field(1, ge=1)
    place: str | None = Field(None, description=PLACE)


class Paused(AskedReview):
    """Reviewers are asked. The timeout is `timeout_s` from `at`."""

    iteration: int | None = Field(None, ge=0, description="Null for a call of a tool.")
    score: Score | None = None
    sha256: str | None = Field(None, description="Of the draft; null for a call of a tool.")
    timeout_s: float = Field(gt=0)


class ReviewerApproval(Contract):
    """A reviewer approves the draft or call under review, where several must."""

    reviewer: str
    feedback: str | None = None
    score: Score | None = None


class ApprovalGiven(ReviewerApproval):
    """A reviewer approved the draft; it stays under review, since more approvals are needed."""

    key: str
    given: int = Field(ge=1, description="How many reviewers have approved it by now.")
    needed: int = Field(ge=2)


class DatedApproval(ReviewerApproval):
    """An approval, and when it was given."""

    at: datetime


class LastReview(Contract):
    """The decision of the last review, and who made it."""

    key: str
    action: ReviewAction
    by: Literal["reviewer", "timeout"]
    reviewer: str | None = Field(
        None, description="Id of their API key, or the name given; null if unknown."
    )
    approved_by: tuple[str, ...] = Field(
        (), description="Who approved it, in this order; empty if nobody did, or if unknown."
    )


class Reviewed(LastReview):
    """The reviewer's decision, or `on_timeout` after a timeout."""

    feedback: str | None = None
    spans: Passages = ()
    draft: str | None = None
    arguments: dict[str, Any] | None = None
    score: Score | None = None


class PendingReview(AskedReview):
    """The review that a paused refinement waits for, or the pause that was requested."""

    asked_at: datetime
    deadline: datetime
    approvals: tuple[DatedApproval, ...] = Field((), description="Those given so far, in order.")
