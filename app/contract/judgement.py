"""The judgement of a draft: findings, scores per criterion, critiques, comparisons and issues."""

from enum import StrEnum
from math import erfc, sqrt
from typing import Annotated, Literal, Self

from pydantic import Field

from app.contract import Contract

Score = Annotated[float, Field(ge=0, le=1)]
ScoreFrom = Annotated[
    Literal["critique", "validators", "agreement", "parts", "review"],
    Field(
        description="`critique`: weighted mean of the criteria; `validators`: share of validators"
        " that passed, or the score of those that decide; `agreement`: share of samples that agree;"
        " `parts`: lowest score of a part, if the whole could not be judged; `review`: score of a"
        " reviewer."
    ),
]


class OnFail(StrEnum):
    """The effect of a failed validator on its draft."""

    FIX = "fix"
    VETO = "veto"
    REVISE = "revise"
    WARN = "warn"


class Span(Contract):
    """Characters `start` to `end` (exclusive) of the draft, counted in Unicode code points."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)


class Finding(Contract):
    """One problem of a draft: its place, a message, and a fix."""

    source: str = Field(
        description="Origin: `critic`, `critic/NAME`, `verification`, `validators/0`, or"
        " `validators/stages/outline/0` for a validator of a stage."
    )
    kind: str = Field(description="Criterion or kind of validator that it concerns.")
    message: str
    fix: str | None = Field(None, description="How to fix it.")
    span: Span | None = None
    quote: str | None = Field(
        None, description="The words of the draft that it is about, verbatim."
    )
    on_fail: OnFail = OnFail.REVISE
    skipped: bool = Field(
        False, description="Whether the check could not be made: nothing is known of the draft."
    )
    weight: float = Field(
        1,
        gt=0,
        description="How much it counts against the draft, beside other findings of validators: 1,"
        " up to 2 for a limit exceeded by far, and more if it hides what else is wrong.",
    )


class Quotation(Contract):
    """Words of the draft, verified by this server, and their position."""

    quote: str
    span: Span


class CriterionScore(Contract):
    """How far a draft meets one criterion; `null` if the critic cannot measure it."""

    criterion: str
    score: Score | None
    reason: str = ""
    evidence: tuple[Quotation, ...] = Field((), description="Words of the draft that support it.")
    unsupported: int = Field(
        0, ge=0, description="Quotations dropped because they do not occur in the draft."
    )
    spread: Score | None = Field(
        None,
        description="Largest minus smallest of several scores; `null` with fewer than two.",
    )


class TextChange(Contract):
    """Words of a draft that were replaced, at most 200 characters of each."""

    before: str
    after: str


class FixMade(Contract):
    """What a validator with `on_fail: "fix"` corrected in a draft before it was judged."""

    source: str = Field(description="The validator, such as `validators/0`.")
    kind: str
    count: int = Field(ge=1, description="Number of changes.")
    changes: tuple[TextChange, ...] = Field(description="The first 20 changes.")


Fixes = Annotated[
    tuple[FixMade, ...], Field(description="What validators corrected before it was judged.")
]


class FindingsReply(Contract):
    """The findings of the validators; empty if all of them passed."""

    kind: Literal["findings"] = "findings"
    findings: tuple[Finding, ...] = ()
    scores: tuple[CriterionScore, ...] = Field(
        (), description="Scores of the validators that give one, under the names they count as."
    )
    text: str | None = Field(
        None, description="The draft as it was corrected and then checked; null if it was not."
    )
    fixes: Fixes = ()


class Critique(Contract):
    """A structured verdict on one draft. The server, not the critic, computes the total score."""

    scores: tuple[CriterionScore, ...]
    strengths: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


class QualityEstimate(Contract):
    """The probable quality of a draft, by its score and by what earlier scores taught."""

    value: Score
    error: float = Field(ge=0, description="Standard deviation of the true quality from `value`.")
    chance: Score | None = Field(
        None,
        description="Probability that the threshold is truly met: which results a person should"
        " check first. Null unless people have scored 30 results of this kind, and as many of those"
        " met their threshold as was predicted.",
    )

    @classmethod
    def of(cls, value: float, error: float) -> Self:
        """Return the estimate of a quality that is normal around `value`."""
        return cls(value=round(min(1.0, max(0.0, value)), 6), error=round(error, 6))

    def chance_of(self, threshold: float) -> float:
        """Return the probability that a threshold is truly met."""
        return round(0.5 * erfc((threshold - self.value) / (self.error * sqrt(2))), 6)


class Usage(Contract):
    """What model calls consumed. An unknown cost is `null`, never 0."""

    calls: int = Field(0, ge=0)
    input_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)
    cached_tokens: int = Field(
        0, ge=0, description="Input tokens that a provider read from its cache."
    )
    thinking_tokens: int = Field(
        0, ge=0, description="Output tokens of thinking, as far as providers count them."
    )
    cost_usd: float | None = Field(0.0, ge=0)
    seconds: float = Field(0.0, ge=0, description="Seconds spent waiting for steps, added up.")

    @property
    def cached_share(self) -> float:
        """The share of the input tokens that providers read from their caches, from 0 to 1."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0

    def lasting(self, seconds: float) -> "Usage":
        """Return the same usage with so many seconds, which are rounded to microseconds."""
        return Usage(**self.__dict__ | {"seconds": round(seconds, 6)})

    def __add__(self, other: "Usage") -> "Usage":
        """Add two usages; a sum with an unknown cost is unknown."""
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            thinking_tokens=self.thinking_tokens + other.thinking_tokens,
            cost_usd=round((self.cost_usd or 0) + (other.cost_usd or 0), 9) if known else None,
            seconds=round(self.seconds + other.seconds, 6),
        )


Side = Literal["earlier", "result"]
Verdict = Literal["better", "worse", "tie", "undecided"]


class Order(Contract):
    """The verdict with this text first, as A, and the other one second, as B."""

    first: Side
    better: Side | Literal["tie"]
    reason: str


class Comparison(Contract):
    """The result compared with an earlier draft. Judges favour a position (arXiv 2306.05685,
    2305.17926): a verdict counts only if it is the same in both orders.
    """

    against: str = Field(description="Path of the earlier draft.")
    verdict: Annotated[
        Verdict,
        Field(
            description="Verdict on the result; `undecided` if the two orders disagree. A result"
            " that is the earlier draft itself is a `tie`, without a model call."
        ),
    ]
    orders: tuple[Order, ...] = Field(description="Both orders; empty without a model call.")


class IssueState(StrEnum):
    """The state of an issue of a draft or of its parent, by the line of parents, not by time."""

    NEW = "new"
    CARRIED = "carried"
    RESOLVED = "resolved"
    RETURNED = "returned"

    @property
    def is_open(self) -> bool:
        """False if the draft no longer has the issue."""
        return self is not IssueState.RESOLVED


class IssueNote(Contract):
    """An issue in the journal, which refers to its finding instead of repeating it."""

    id: str = Field(
        description="`iterations/1#2`: found first in `iterations/1`, as the second finding there."
    )
    state: IssueState
    finding: int | None = Field(
        ge=0, description="Index in this iteration's findings, from 0; null if resolved."
    )


class Issue(Contract):
    """A problem of a draft, or of its parent and fixed since."""

    id: str = Field(description="The same in every iteration of a line of revisions.")
    state: IssueState = Field(
        description="`new`; `carried`: the parent has it too; `resolved`: the parent has it and"
        " this draft does not; `returned`: resolved earlier in this line, and back."
    )
    kind: str
    source: str
    message: str
    fix: str | None
    quote: str | None
    span: Span | None = Field(description="Position in this draft; null if resolved.")
    since: str = Field(description="Path of the iteration where it was first found.")
