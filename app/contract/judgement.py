"""What is said about one draft: findings, scores per criterion, a critique."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from app.contract import Contract

Score = Annotated[float, Field(ge=0, le=1)]
ScoreFrom = Annotated[
    Literal["critique", "validators", "agreement", "parts", "review"],
    Field(
        description="`critique`: weighted criteria; `validators`: share passed; `agreement`: share"
        " of samples; `parts`: the lowest part's, when the whole could not be judged any more;"
        " `review`: a reviewer's."
    ),
]


class OnFail(StrEnum):
    """What a failed validator does to its draft."""

    VETO = "veto"
    REVISE = "revise"
    WARN = "warn"


class Span(Contract):
    """Characters `start` to `end` (exclusive) of the draft, counted in Unicode code points."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)


class Finding(Contract):
    """One thing that is wrong with a draft: where, what, and how to mend it."""

    source: str = Field(
        description="Who found it: `critic`, `critic/NAME`, `verification`, `validators/0`."
    )
    kind: str = Field(description="Criterion or kind of validator that it concerns.")
    message: str
    fix: str | None = Field(None, description="What to do about it.")
    span: Span | None = None
    quote: str | None = Field(
        None, description="The words it is about, as they stand in the draft."
    )
    on_fail: OnFail = OnFail.REVISE


class Quotation(Contract):
    """Words that stand in the draft, checked by this server, and where they stand."""

    quote: str
    span: Span


class CriterionScore(Contract):
    """How far a draft meets one criterion; `null` when the critic cannot measure it."""

    criterion: str
    score: Score | None
    reason: str = ""
    evidence: tuple[Quotation, ...] = Field((), description="Words of the draft that show why.")
    unsupported: int = Field(
        0, ge=0, description="Quotations dropped because they do not stand in the draft."
    )
    spread: Score | None = Field(
        None,
        description="Largest minus smallest of several opinions; `null` with fewer than two.",
    )


class Critique(Contract):
    """A structured verdict on one draft. The weighted total is not the critic's to give."""

    scores: tuple[CriterionScore, ...]
    strengths: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


class Usage(Contract):
    """What model calls consumed. An unknown cost is `null`, never 0."""

    calls: int = Field(0, ge=0)
    input_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)
    cost_usd: float | None = Field(0.0, ge=0)
    seconds: float = Field(0.0, ge=0, description="Seconds spent waiting for steps, added up.")

    def __add__(self, other: "Usage") -> "Usage":
        """Add two usages; a sum with an unknown cost is unknown."""
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=round((self.cost_usd or 0) + (other.cost_usd or 0), 9) if known else None,
            seconds=round(self.seconds + other.seconds, 6),
        )


Side = Literal["earlier", "result"]
Verdict = Literal["better", "worse", "tie", "undecided"]


class Order(Contract):
    """What was said when this text stood first, as A, and the other second, as B."""

    first: Side
    better: Side | Literal["tie"]
    reason: str


class Comparison(Contract):
    """The result against an earlier draft. Judges favour a position (arXiv 2306.05685, 2305.17926):
    a verdict counts only if it is the same when the texts change places.
    """

    against: str = Field(description="Path of the earlier draft.")
    verdict: Annotated[
        Verdict,
        Field(
            description="Of the result; `undecided` when the two orders disagree. A result that is"
            " the earlier draft itself is a `tie`, and nobody is asked."
        ),
    ]
    orders: tuple[Order, ...] = Field(description="Both orders; empty when nobody was asked.")


class IssueState(StrEnum):
    """An issue of a draft or of its parent; the line is that of parents, not of time."""

    NEW = "new"
    CARRIED = "carried"
    RESOLVED = "resolved"
    RETURNED = "returned"

    @property
    def is_open(self) -> bool:
        """False when the draft does not have it any more."""
        return self is not IssueState.RESOLVED


class IssueNote(Contract):
    """An issue as the journal has it: its words stand in the findings, once."""

    id: str = Field(
        description="`iterations/1#2`: found first in `iterations/1`, as the second finding there."
    )
    state: IssueState
    finding: int | None = Field(
        ge=0, description="Which of this iteration's findings it is, from 0; null when resolved."
    )


class Issue(Contract):
    """Something wrong with a draft, or with its parent and mended since."""

    id: str = Field(description="The same in every iteration of a line of revisions.")
    state: IssueState = Field(
        description="`new`; `carried`: the parent has it too; `resolved`: the parent has it and"
        " this draft does not; `returned`: resolved earlier in this line, and there again."
    )
    kind: str
    source: str
    message: str
    fix: str | None
    quote: str | None
    span: Span | None = Field(description="Where it is in this draft; null when resolved.")
    since: str = Field(description="Path of the iteration where it was found first.")
