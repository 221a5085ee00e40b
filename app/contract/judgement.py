"""What drafts are judged by, and the judgements: findings, scores, critiques and comparisons."""

import re
from enum import StrEnum
from math import erfc, sqrt
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from app.contract import Contract, patterns
from app.contract.models import ModelSpec

Name = Annotated[str, Field(min_length=1, max_length=100)]


class ScoredExample(Contract):
    """A text with the score that it deserves on one criterion: it anchors the critic's scale."""

    text: str = Field(min_length=1, max_length=2_000)
    score: float = Field(ge=0, le=1)
    why: str = Field("", max_length=500)


class Criterion(Contract):
    """One thing a draft is judged on."""

    name: Name
    description: str = Field("", max_length=2_000)
    weight: float = Field(1.0, gt=0, le=1_000)
    floor: float | None = Field(
        None, ge=0, le=1, description="Minimum score; a draft below it does not pass."
    )
    examples: tuple[ScoredExample, ...] = Field(
        (), max_length=5, description="Texts with their scores, shown to critics."
    )


QUALITY = Criterion(name="quality", description="Does what the task asks, correctly and clearly.")

AUTO: Final = "auto"
"""Instead of criteria: a critic lists them from the task before any draft is judged."""

FEWEST_LISTED, MOST_LISTED = 3, 8
LONGEST_NAME, LONGEST_QUESTION = 60, 200
"""Characters of a listed criterion's name, and of the question that describes it."""


def _form(given: Any) -> str:
    return AUTO if isinstance(given, str) else "listed"


def _is_auto(given: Any) -> Any:
    if given != AUTO:
        raise ValueError(f"must be `{AUTO}` or a list of criteria")
    return given


Criteria = Annotated[
    Annotated[tuple[Criterion, ...], Field(max_length=20), Tag("listed")]
    | Annotated[Literal["auto"], BeforeValidator(_is_auto), Tag(AUTO)],
    Discriminator(_form),
    Field(
        description="`auto`: `models.critic` first lists 3 to 8 from the task (arXiv 2410.03608)."
    ),
]


CRITIC = "critic"


def _is_no_step(name: str) -> str:
    if re.fullmatch(r"[0-9]+|again", name):
        raise ValueError("the name is part of a path: it must not be a number or `again`")
    return name


CriticName = Annotated[
    str,
    Field(min_length=1, max_length=60, pattern=patterns.PART_NAME.regex),
    AfterValidator(_is_no_step),
]
"""Part of a path, such as `lawyer` in `iterations/1/critique/lawyer`."""


class PanelMember(Contract):
    """One critic of a panel."""

    name: CriticName
    model: ModelSpec | None = Field(None, description="`models.critic` if null.")
    perspective: str = Field("", max_length=500, description="Point of view that it judges from.")
    adversarial: bool = Field(
        False, description="Whether its task is to find faults; its scores stay honest."
    )

    @property
    def seat(self) -> str:
        """Key under which its model is chosen."""
        return f"{CRITIC}/{self.name}"


class Critics(Contract):
    """Several judgements of every draft: the median counts, and the spread is reported.

    A panel of different critics as in PoLL (arXiv 2404.18796), with different roles as in ChatEval
    (arXiv 2308.07201); several samples of one critic as in self-consistency (arXiv 2203.11171).
    """

    samples: int = Field(1, ge=1, le=9, description="How often each critic is asked.")
    panel: tuple[PanelMember, ...] = Field(
        (), max_length=5, description="If empty, `models.critic` is the only critic."
    )

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [member.name for member in self.panel]
        if len(set(names)) < len(names):
            raise ValueError("the names of the critics must be unique")
        return self

    def seats(self) -> tuple[str, ...]:
        """Return the keys under which the models of the critics are chosen."""
        return tuple(member.seat for member in self.panel) or (CRITIC,)


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
