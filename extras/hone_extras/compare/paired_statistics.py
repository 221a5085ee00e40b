"""The statistics of a paired comparison. Pure, without I/O."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import ceil, sqrt
from statistics import fmean, stdev, variance

from scipy.stats import norm, t

from hone_extras.compare.comparison import (
    CONFIDENCE,
    FEWEST_RATED,
    FEWEST_TEXTS,
    SAME,
    ComparedSettings,
    MeanInterval,
    PairedDifference,
    SettingSummary,
    TextOutcome,
    Texts,
    UnscoredTexts,
    recommended,
    verdict_on,
)

POWER = 0.8
"""Probability with which the texts that are said to be needed show the difference."""

MOST_TEXTS_NAMED = 100_000
PRIOR_TRUST, PRIOR_WEIGHT = 0.5, 25 * 0.2**2
"""The assumption about a judge before people have rated: docs/judging.md."""


def compare_settings(
    names: Sequence[str],
    texts: Texts,
    margin: float,
    judge_noise: float | None = None,
    confidence: float = CONFIDENCE,
) -> ComparedSettings:
    """Compare one or more settings; the intervals of all pairs hold together (Dunn, 1961).

    `confidence` is the probability with which they do.

    Differences of less than `margin` do not matter. `judge_noise`, the standard deviation of a
    judgement, is used where no text was judged twice.
    """
    pairs = [(later, earlier) for earlier, later in combinations(names, 2)]
    level = 1 - (1 - confidence) / max(1, len(pairs))
    settings = tuple(_summary(name, texts) for name in names)
    differences = tuple(_difference(*pair, texts, margin, level) for pair in pairs)
    noise = noise_of([refined.judged for text in texts for refined in text.values()])
    advice = recommended(settings, differences, margin, level)
    return ComparedSettings(settings, differences, judge_noise if noise is None else noise, advice)


def _summary(name: str, texts: Texts) -> SettingSummary:
    found = [text[name] for text in texts]
    return SettingSummary(
        name,
        texts=len(found),
        unfinished=sum(not outcome.has_ended for outcome in found),
        without_text=sum(outcome.has_ended and not outcome.has_text for outcome in found),
        without_score=sum(outcome.has_text and outcome.score is None for outcome in found),
        unscored=_unscored(found),
        score=_from_0_to_1(_known([outcome.score for outcome in found])),
        passed=sum(bool(outcome.passed) for outcome in found),
        own_score=_mean([outcome.own_score for outcome in found]),
        own_estimate=_mean([outcome.own_estimate for outcome in found]),
        own_error=_mean([outcome.own_error for outcome in found]),
        estimated=len(_known([outcome.own_estimate for outcome in found])),
        cost_usd=_whole([outcome.cost_usd for outcome in found if outcome.has_ended]),
        seconds=interval(_known([outcome.seconds for outcome in found])),
        criteria={
            name: mean
            for name in _criteria(found)
            if (mean := _from_0_to_1([o.criteria[name] for o in found if name in o.criteria]))
        },
    )


def _unscored(found: Sequence[TextOutcome]) -> tuple[UnscoredTexts, ...]:
    reasons = Counter(
        outcome.no_score
        for outcome in found
        if outcome.score is None and outcome.no_score is not None
    )
    return tuple(UnscoredTexts(count, why) for why, count in reasons.most_common())


def _difference(
    setting: str, against: str, texts: Texts, margin: float, level: float
) -> PairedDifference:
    both = [(text[setting], text[against]) for text in texts]
    by_judge = [_minus(one.score, other.score) for one, other in both]
    by_people = [_people(one, other) for one, other in both]
    judged = [gap for gap in by_judge if gap is not None]
    score = interval(judged, level)
    rated = [(j, p) for j, p in zip(by_judge, by_people, strict=True) if None not in (j, p)]
    trusted = trust_of([(j or 0.0, p or 0.0) for j, p in rated]) if rated else None
    with_people = people_on_all(by_judge, by_people, level)
    basis = with_people or score
    verdict = verdict_on(basis, margin, level)
    ended = [pair for pair in both if pair[0].has_ended and pair[1].has_ended]
    missing = any(one.has_text != other.has_text for one, other in ended)
    counted = [_minus(_or_nothing(one), _or_nothing(other)) for one, other in ended]
    return PairedDifference(
        setting,
        against,
        score=score,
        verdict=verdict,
        chance=None if basis is None else chance_above_zero(basis),
        wins=sum(gap > SAME for gap in judged),
        losses=sum(gap < -SAME for gap in judged),
        ties=sum(abs(gap) <= SAME for gap in judged),
        counting_missing=interval(_known(counted), level) if missing else None,
        cost_usd=_whole([_minus(a.cost_usd, b.cost_usd) for a, b in ended], level),
        seconds=interval(_known([_minus(a.seconds, b.seconds) for a, b in both]), level),
        criteria=_by_criterion(both, level),
        people=interval(_known(by_people), level),
        with_people=with_people,
        trust=trusted,
        more_texts=more_texts(basis, margin, level) if verdict in ("open", "too few") else None,
    )


def _by_criterion(
    both: Sequence[tuple[TextOutcome, TextOutcome]], level: float
) -> dict[str, MeanInterval]:
    found = {}
    for name in _criteria([outcome for pair in both for outcome in pair]):
        scored = [(a.criteria.get(name), b.criteria.get(name)) for a, b in both]
        if gap := interval(_known([_minus(*pair) for pair in scored]), level):
            found[name] = gap
    return found


def _criteria(found: Sequence[TextOutcome]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for outcome in found for name in outcome.criteria))


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _or_nothing(outcome: TextOutcome) -> float | None:
    """Return the score, and 0 for what has no text: a judgement that failed stays unknown."""
    return outcome.score if outcome.has_text else 0.0


def _people(one: TextOutcome, other: TextOutcome) -> float | None:
    """Return the mean difference of the scores of those who rated both."""
    who = one.ratings.keys() & other.ratings.keys()
    return (
        fmean(one.ratings[person] - other.ratings[person] for person in sorted(who))
        if who
        else None
    )


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of those that are known; None without any."""
    known = _known(values)
    return fmean(known) if known else None


def _whole(values: Sequence[float | None], level: float = CONFIDENCE) -> MeanInterval | None:
    """Return the mean of all values; None if one of them is unknown."""
    known = _known(values)
    return interval(known, level) if len(known) == len(values) else None


def interval(values: Sequence[float], level: float = CONFIDENCE) -> MeanInterval | None:
    """Return the mean with Student's interval (1908).

    None without values.
    """
    if not values:
        return None
    count, mean = len(values), fmean(values)
    sd = stdev(values) if count > 1 else None
    if sd is None or sd <= SAME:
        return MeanInterval(count, mean, None if sd is None else 0.0)
    low, high = t.interval(level, count - 1, loc=mean, scale=sd / sqrt(count))
    return MeanInterval(count, mean, sd, float(low), float(high))


def _from_0_to_1(scores: Sequence[float]) -> MeanInterval | None:
    found = interval(scores)
    if found is None or found.low is None or found.high is None:
        return found
    return replace(found, low=max(0.0, found.low), high=min(1.0, found.high))


def trust_of(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the share of the judge's differences that people confirm (docs/judging.md).

    The slope of people's differences (second) on the judge's (first) through the origin, shrunk to
    0.5 as if by 25 pairs that differ by 0.2, and from 0 to 1.
    """
    products = sum(judge * people for judge, people in pairs) + PRIOR_TRUST * PRIOR_WEIGHT
    squares = sum(judge**2 for judge, _ in pairs) + PRIOR_WEIGHT
    return min(1.0, max(0.0, products / squares))


def people_on_all(
    judge: Sequence[float | None], people: Sequence[float | None], level: float
) -> MeanInterval | None:
    """Return the difference that people would find on all judged texts; None of too few ratings.

    A difference estimator in double sampling (Cochran, Sampling Techniques, 1977, section 12.6):
    the judge's mean difference on all texts, times the trust in the judge, plus by what people
    differ from that on the texts which they rated.
    """
    judged = _known(judge)
    both = [(j, p) for j, p in zip(judge, people, strict=True) if j is not None and p is not None]
    if len(both) < FEWEST_RATED:
        return None
    trust = trust_of(both)
    beyond = [people - trust * judge for judge, people in both]
    mean = fmean(beyond) + trust * fmean(judged)
    rated, of_all = len(both), len(judged)
    squared = variance([people for _, people in both]) / of_all
    squared += variance(beyond) * (1 / rated - 1 / of_all)
    if squared <= SAME**2:
        return MeanInterval(rated, mean, 0.0)
    error = sqrt(squared)
    low, high = t.interval(level, rated - 1, loc=mean, scale=error)
    return MeanInterval(rated, mean, error * sqrt(rated), float(low), float(high))


def noise_of(judged: Sequence[Sequence[float]]) -> float | None:
    """Return the standard deviation of a judgement from texts judged twice or more, or None."""
    repeated = [scores for scores in judged if len(scores) > 1]
    freedom = sum(len(scores) - 1 for scores in repeated)
    if not freedom:
        return None
    return sqrt(sum((len(scores) - 1) * variance(scores) for scores in repeated) / freedom)


def chance_above_zero(found: MeanInterval) -> float | None:
    """Return the probability that the true mean is above 0; None without a spread."""
    if not found.sd:
        return None
    return float(t.cdf(found.mean / found.sd * sqrt(found.count), found.count - 1))


def more_texts(found: MeanInterval | None, margin: float, level: float) -> int | None:
    """Return how many more texts would show the difference that was seen, or the margin.

    With the probability POWER, if it is real and the texts differ as much as so far. None if that
    cannot be said.
    """
    if found is None or not found.sd:
        return None if found is None else max(0, FEWEST_TEXTS - found.count) or None
    target = max(abs(found.mean), margin)
    if target <= SAME:
        return None
    z = float(norm.ppf((1 + level) / 2) + norm.ppf(POWER))
    needed = ceil((z * found.sd / target) ** 2) + 2  # two more for Student's t
    more = max(needed, FEWEST_TEXTS) - found.count
    return max(more, 1) if more <= MOST_TEXTS_NAMED else None
