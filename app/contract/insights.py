"""What was worth it over many refinements: sums of gains and costs, and what follows from them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from enum import StrEnum
from itertools import islice
from math import sqrt
from typing import NamedTuple, Self

from pydantic import Field

from app.contract import Contract
from app.contract.gains import NOTHING, Gains
from app.contract.judgement import Usage
from app.contract.values import value

LONGEST_VALUE = 100
"""Characters of a model's or a criterion's name that are kept."""

KEPT_DAYS = 90
"""For how many days sums are kept, today included."""


class Dimension(StrEnum):
    """What cases are grouped by."""

    STRATEGY = "strategy"
    MODEL = "model"
    CRITIC = "critic"
    CRITERION = "criterion"
    STEP = "step"


class Sums(NamedTuple):
    """Sums over cases, added up per day: a mean and its error can be computed from them.

    Cases of one refinement depend on each other, so the second moments are those of its totals.
    `change` is how much the scores changed, `gain` the same with 0 for drafts that were not kept.
    """

    refinements: float = 0
    cases: float = 0
    cases_squared: float = 0
    change: float = 0
    change_squared: float = 0
    change_by_cases: float = 0
    gain: float = 0
    gain_squared: float = 0
    gain_by_cases: float = 0
    kept: float = 0
    calls: float = 0
    tokens: float = 0
    seconds: float = 0
    priced: float = 0
    """Cases whose cost is known."""
    cost_usd: float = 0

    def __add__(self, other: Sequence[float]) -> Self:  # type: ignore[override]
        """Add other sums, by name."""
        return type(self)(*(a + b for a, b in zip(self, other, strict=True)))


Key = tuple[Dimension, str]


@value(slots=True)
class _Case:
    change: float
    is_kept: bool
    usage: Usage


def insights_of(
    gains: Gains, strategy: str, usage: Usage, named: Collection[str]
) -> Mapping[Key, Sums]:
    """Return what one ended refinement adds to the sums of its tenant.

    A case is a draft that compares with the one it came of; by strategy it is the whole refinement,
    whose `usage` is its cost. Criteria count only if the request has `named` them: the names that a
    critic lists say what the text is about, and sums outlive an erased refinement.
    """
    cases: defaultdict[Key, list[_Case]] = defaultdict(list)
    if (change := gains.change) is not None:
        is_kept = gains.start is not gains.final
        cases[Dimension.STRATEGY, strategy].append(_Case(change, is_kept, usage))
    for draft in gains.drafts:
        spent = draft.usage if draft.parts is NOTHING else draft.usage + draft.parts
        case = _Case(draft.change, draft.is_kept, spent)
        cases[Dimension.STEP, draft.step[:LONGEST_VALUE]].append(case)
        if draft.writer is not None:
            cases[Dimension.MODEL, draft.writer[:LONGEST_VALUE]].append(case)
        for critic in draft.critics:
            cases[Dimension.CRITIC, critic[:LONGEST_VALUE]].append(case)
        for criterion, change in draft.criteria.items():
            if criterion in named:
                of_criterion = _Case(change, draft.is_kept, spent)
                cases[Dimension.CRITERION, criterion[:LONGEST_VALUE]].append(of_criterion)
    return {key: _sums(of) for key, of in cases.items()}


def _sums(cases: Sequence[_Case]) -> Sums:
    count = len(cases)
    change = gain = seconds = cost_usd = 0.0
    kept = calls = tokens = priced = 0
    for it in cases:
        used = it.usage
        change += it.change
        if it.is_kept:
            kept, gain = kept + 1, gain + it.change
        calls += used.calls
        tokens += used.input_tokens + used.output_tokens
        seconds += used.seconds
        if used.cost_usd is not None:
            priced, cost_usd = priced + 1, cost_usd + used.cost_usd
    return Sums(
        refinements=1,
        cases=count,
        cases_squared=count**2,
        change=change,
        change_squared=change**2,
        change_by_cases=change * count,
        gain=gain,
        gain_squared=gain**2,
        gain_by_cases=gain * count,
        kept=kept,
        calls=calls,
        tokens=tokens,
        seconds=seconds,
        priced=priced,
        cost_usd=cost_usd,
    )


class MeanGain(Contract):
    """A mean per case with its 95 % confidence interval, null with fewer than two refinements."""

    mean: float
    low: float | None
    high: float | None


class MeanUsage(Contract):
    """What a case consumed on average; `cost_usd` is null if no case has a known cost."""

    calls: float
    tokens: float
    cost_usd: float | None
    seconds: float


class Insight(Contract):
    """What the cases with one value have brought, and cost."""

    by: Dimension
    value: str = Field(
        description="Strategy, model, criterion or kind of step; a model that writes is in `model`,"
        " one that judges in `critic`."
    )
    refinements: int = Field(ge=1, description="Refinements with such a case.")
    cases: int = Field(
        ge=1,
        description="Drafts compared with the one that they came of; by strategy, refinements.",
    )
    gain: MeanGain = Field(
        description="What a case added to the score of the result: 0 if the draft was not kept."
    )
    change: MeanGain = Field(
        description="How much the score changed, whether the draft was kept or not. A `gain`"
        " without a `change` is the selection of lucky scores."
    )
    kept: float = Field(ge=0, le=1, description="Share of cases whose draft was kept.")
    mean_usage: MeanUsage

    @classmethod
    def of(cls, by: Dimension, value: str, sums: Sums) -> Self:
        """Return what the sums of at least one case say."""
        cases, priced = sums.cases, sums.priced
        return cls(
            by=by,
            value=value,
            refinements=round(sums.refinements),
            cases=round(cases),
            gain=_mean(sums, sums.gain, sums.gain_squared, sums.gain_by_cases),
            change=_mean(sums, sums.change, sums.change_squared, sums.change_by_cases),
            kept=round(sums.kept / cases, 4),
            mean_usage=MeanUsage(
                calls=round(sums.calls / cases, 3),
                tokens=round(sums.tokens / cases, 1),
                cost_usd=round(sums.cost_usd / priced, 9) if priced else None,
                seconds=round(sums.seconds / cases, 3),
            ),
        )


class InsightList(Contract):
    """Insights, grouping by grouping; in each those with the highest mean gain first."""

    since: date = Field(description="First day that counts, in UTC.")
    data: tuple[Insight, ...]


class ModelAchievement(Contract):
    """What a model has achieved where it was drawn, in refinements that succeeded or failed."""

    kind: str = Field(description="Hash of strategy, criteria and preset: what is compared.")
    seat: str = Field(description="What it was drawn for, such as `generator` or `critic`.")
    model: str
    ended: int
    passed: int
    mean_gain: float | None = Field(
        description="Mean score reached, minus the score of the client's draft if it had one."
    )
    mean_cost_usd: float | None = Field(description="Null if no cost is known.")


class ModelAchievementList(Contract):
    """What drawn models have achieved in 30 days, by kind and seat."""

    data: tuple[ModelAchievement, ...]


def ranked(sums: Mapping[Key, Sums], limit: int) -> tuple[Insight, ...]:
    """Return the insights of every dimension, at most `limit` of each, the highest gain first."""
    found = [Insight.of(by, value, it) for (by, value), it in sums.items()]
    found.sort(key=lambda it: (-it.gain.mean, -it.cases, it.value))
    return tuple(
        insight
        for dimension in Dimension
        for insight in islice((it for it in found if it.by is dimension), limit)
    )


def _mean(sums: Sums, total: float, squared: float, by_cases: float) -> MeanGain:
    """Return the mean per case and its interval.

    The refinement is what was sampled, since its cases depend on each other: the mean is a ratio of
    totals, with the error of a ratio estimate (Cochran, Sampling Techniques, 1977, section 6.4).
    """
    count, cases = round(sums.refinements), sums.cases
    mean = total / cases
    if count < 2:
        return MeanGain(mean=round(mean, 4), low=None, high=None)
    spread = max(squared - 2 * mean * by_cases + mean**2 * sums.cases_squared, 0.0)
    error = t_95(count - 1) * sqrt(spread * count / (count - 1)) / cases
    return MeanGain(mean=round(mean, 4), low=round(mean - error, 4), high=round(mean + error, 4))


NORMAL_95 = 1.959963984540054
FEW = (12.7062, 4.3027, 3.1824, 2.7764)


def t_95(freedom: int) -> float:
    """Return the two-sided 95 % quantile of Student's t, for at least one degree of freedom.

    Correct to 0.0003 (Abramowitz and Stegun 26.7.5).
    """
    if freedom <= len(FEW):
        return FEW[freedom - 1]
    z = NORMAL_95
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + sum(it / float(freedom) ** power for power, it in enumerate(terms, 1))
