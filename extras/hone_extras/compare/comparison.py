"""The findings of a paired comparison of settings, and the advice on which to use.

Every text is refined with every setting, and one judge scores what came of it, so differences are
taken per text. A difference is that of a setting minus the one it stands against.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log2, log10
from statistics import fmean
from typing import Literal

CONFIDENCE = 0.95
"""Probability with which all intervals of score differences hold together."""

FEWEST_TEXTS = 6
"""Texts below which nothing is concluded. It is the fewest with which a sign test can reach 5 %."""

FEWEST_RATED = 10
"""Texts that people must have rated with both settings before their word decides."""

SAME = 1e-9

MOST_REASONS = 3

Verdict = Literal["better", "worse", "even", "open", "too few", "none"]
"""`none`: no text has a score with both settings."""


@dataclass(frozen=True)
class NoScore:
    """Why a text has no score, and what to change."""

    why: str
    fix: str
    blames_setting: bool = True
    """Whether the setting is at fault, rather than the judge or a reviewer who has not answered."""


@dataclass(frozen=True)
class UnscoredTexts:
    """How many texts have no score for the same reason."""

    texts: int
    because: NoScore


@dataclass(frozen=True)
class TextOutcome:
    """The outcome of one text with a setting."""

    has_text: bool
    has_ended: bool = True
    judged: tuple[float, ...] = ()
    no_score: NoScore | None = None
    criteria: Mapping[str, float] = field(default_factory=dict)
    cost_usd: float | None = None
    seconds: float | None = None
    passed: bool | None = None
    own_score: float | None = None
    own_estimate: float | None = None
    own_error: float | None = None
    ratings: Mapping[str, float] = field(default_factory=dict)
    """Scores by people, by who gave them."""

    @property
    def score(self) -> float | None:
        """The mean of its judgements; None without one."""
        return fmean(self.judged) if self.judged else None


@dataclass(frozen=True)
class MeanInterval:
    """A mean with its interval. Without spread, or of less than two values, it has none."""

    count: int
    mean: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval is known and lies on one side of 0."""
        return self.low is not None and self.high is not None and self.low * self.high > 0


@dataclass(frozen=True)
class SettingSummary:
    """One setting over all texts; a mean is None where a value is unknown."""

    name: str
    texts: int
    unfinished: int
    without_text: int
    without_score: int
    unscored: tuple[UnscoredTexts, ...]
    score: MeanInterval | None
    passed: int
    own_score: float | None
    own_estimate: float | None
    own_error: float | None
    estimated: int
    cost_usd: MeanInterval | None
    seconds: MeanInterval | None
    criteria: Mapping[str, MeanInterval]


@dataclass(frozen=True)
class PairedDifference:
    """A setting against another one, on the texts that both have."""

    setting: str
    against: str
    score: MeanInterval | None
    verdict: Verdict
    chance: float | None
    """Probability that the setting is better: a t distribution around the mean, no prior."""
    wins: int
    losses: int
    ties: int
    counting_missing: MeanInterval | None
    """The same with 0 for what has no text; None if every text came of both."""
    cost_usd: MeanInterval | None
    seconds: MeanInterval | None
    criteria: Mapping[str, MeanInterval]
    people: MeanInterval | None
    """The difference of scores by people; None if no person rated a text of both."""
    with_people: MeanInterval | None
    """The difference that people would find on all texts, estimated with the judge; it decides."""
    trust: float | None
    more_texts: int | None
    """How many more texts would probably tell, if the verdict is open and that is known."""

    @property
    def basis(self) -> MeanInterval | None:
        """The difference that the verdict rests on."""
        return self.with_people or self.score


@dataclass(frozen=True)
class Recommendation:
    """The setting to use, or None if that is open, and why, in sentences."""

    choice: str | None
    verdict: Literal["shown", "even", "open"]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class ComparedSettings:
    """All that a comparison found."""

    settings: tuple[SettingSummary, ...]
    differences: tuple[PairedDifference, ...]
    judge_noise: float | None
    recommendation: Recommendation


Texts = Sequence[Mapping[str, TextOutcome]]
"""The outcomes of each text, by setting."""


def verdict_on(found: MeanInterval | None, margin: float, level: float = CONFIDENCE) -> Verdict:
    """Return what a difference shows: `even` if it is shown to be smaller than the margin."""
    if found is None:
        return "none"
    if found.count < FEWEST_TEXTS:
        return "too few"
    if found.low is None or found.high is None:
        return _without_spread(found, level)
    if found.excludes_zero:
        return "better" if found.mean > 0 else "worse"
    return "even" if max(-found.low, found.high) < margin else "open"


def _without_spread(found: MeanInterval, level: float) -> Verdict:
    """Return the verdict on a difference that is the same on every text: that of a sign test."""
    if abs(found.mean) <= SAME:
        return "even"
    if found.count < fewest_without_spread(level):
        return "open"
    return "better" if found.mean > 0 else "worse"


def fewest_without_spread(level: float) -> int:
    """Return how many texts that all differ by the same a two-sided sign test needs."""
    return ceil(log2(2 / (1 - level)))


def recommended(
    settings: Sequence[SettingSummary],
    differences: Sequence[PairedDifference],
    margin: float,
    level: float,
) -> Recommendation:
    """Return which setting to use, and how sure that is."""
    failed = [setting for setting in settings if setting.score is None]
    working = [setting for setting in settings if setting.score is not None]
    names = {setting.name for setting in working}
    between = [difference for difference in differences if names.issuperset(_names(difference))]
    if len(working) > 1:
        chosen = _best_of(working, between, margin)
    elif working:
        chosen = _only_one(working[0], failed)
    else:
        named = " and ".join(setting.name for setting in failed)
        sentence = f"Nothing can be compared or recommended: no text of {named} has a score."
        chosen = Recommendation(None, "open", (sentence,))
    sentences = (
        *chosen.sentences,
        *map(_all_failed, failed),
        *_reservations(differences, margin, level),
    )
    return Recommendation(chosen.choice, chosen.verdict, sentences)


def _only_one(working: SettingSummary, failed: Sequence[SettingSummary]) -> Recommendation:
    """Return advice where one setting alone has scores: it is recommended if the others failed."""
    named = " and ".join(setting.name for setting in failed)
    blamed = all(why.because.blames_setting for setting in failed for why in setting.unscored)
    scored = working.score.count if working.score else 0
    mean = f"{working.score.mean:.3f}" if working.score else "unknown"
    its = f"it scored {mean} in the mean of {scored} of {texts_text(working.texts)}"
    if not failed:
        return Recommendation(
            None, "open", (f"There is no other setting than {working.name}: {its}.",)
        )
    if blamed:
        sentence = f"Use {working.name}: it alone works, and {named} failed on every text; {its}."
        return Recommendation(
            working.name, "shown" if scored >= FEWEST_TEXTS else "open", (sentence,)
        )
    sentence = f"Only {working.name} can be told about: {its}, and no text of {named} has a score."
    return Recommendation(None, "open", (sentence,))


def _all_failed(setting: SettingSummary) -> str:
    """Say why a setting has no score at all, on how many texts, and what to change."""
    reasons = [f"{found.because.why} ({texts_text(found.texts)})" for found in setting.unscored]
    more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
    why = "; ".join(reasons[:MOST_REASONS]) or "the reason is unknown"
    fixes = dict.fromkeys(found.because.fix for found in setting.unscored[:MOST_REASONS])
    return " ".join(
        (f"{setting.name} has no score on any of {texts_text(setting.texts)}: {why}{more}.", *fixes)
    )


def texts_text(count: int) -> str:
    """Return a number of texts in words."""
    return "1 text" if count == 1 else f"{count} texts"


def _best_of(
    settings: Sequence[SettingSummary], differences: Sequence[PairedDifference], margin: float
) -> Recommendation:
    """Return which of the settings that have scores to use."""
    best = _leader(settings, differences)
    against = [
        _seen_from(best.name, difference)
        for difference in differences
        if best.name in _names(difference)
    ]
    rivals = [difference for difference in against if difference.verdict != "better"]
    if not rivals:
        chosen = Recommendation(best.name, "shown", (_is_better(best.name, against),))
    elif all(rival.verdict == "even" for rival in rivals):
        chosen = _cheapest_of(best, rivals, settings, margin)
    else:
        doubts = [_is_open(rival, margin) for rival in rivals if rival.verdict != "even"]
        doubts += _until_then([best.name, *(rival.against for rival in rivals)], settings)
        chosen = Recommendation(None, "open", tuple(doubts))
    sentences = (*chosen.sentences, *_money(chosen.choice, against, settings))
    return Recommendation(chosen.choice, chosen.verdict, sentences)


def _leader(
    settings: Sequence[SettingSummary], differences: Sequence[PairedDifference]
) -> SettingSummary:
    """Return the setting with the highest mean difference from the others."""

    def lead(setting: SettingSummary) -> float:
        seen = [
            _seen_from(setting.name, difference)
            for difference in differences
            if setting.name in _names(difference)
        ]
        return fmean(difference.basis.mean if difference.basis else 0.0 for difference in seen)

    return max(settings, key=lead)


def _names(found: PairedDifference) -> tuple[str, str]:
    return found.setting, found.against


OPPOSITE: Mapping[Verdict, Verdict] = {"better": "worse", "worse": "better"}


def _seen_from(name: str, found: PairedDifference) -> PairedDifference:
    """Return the difference with `name` as the setting that stands against the other one."""
    if found.setting == name:
        return found
    return replace(
        found,
        setting=found.against,
        against=found.setting,
        score=_negated(found.score),
        verdict=OPPOSITE.get(found.verdict, found.verdict),
        chance=None if found.chance is None else 1 - found.chance,
        wins=found.losses,
        losses=found.wins,
        counting_missing=_negated(found.counting_missing),
        cost_usd=_negated(found.cost_usd),
        seconds=_negated(found.seconds),
        criteria={name: _turned(criterion) for name, criterion in found.criteria.items()},
        people=_negated(found.people),
        with_people=_negated(found.with_people),
    )


def _negated(found: MeanInterval | None) -> MeanInterval | None:
    return None if found is None else _turned(found)


def _turned(interval: MeanInterval) -> MeanInterval:
    low, high = (None if edge is None else -edge for edge in (interval.high, interval.low))
    return replace(interval, mean=-interval.mean, low=low, high=high)


def _is_better(name: str, against: Sequence[PairedDifference]) -> str:
    found = "; ".join(
        f"{interval_text(difference.basis)} against {difference.against}"
        for difference in against
        if difference.basis
    )
    who = (
        "people score"
        if any(difference.with_people for difference in against)
        else "the judge scores"
    )
    chances = [difference.chance for difference in against if difference.chance is not None]
    sure = f", the chance that it is better is {_odds(min(chances))}" if chances else ""
    return f"Use {name}: {who} its texts higher ({found}{sure})."


def _odds(chance: float) -> str:
    """Return a probability in percent, never rounded to certainty."""
    return "over 99 %" if chance > 0.99 else f"{max(chance, 0.01):.0%}".replace("%", " %")


def _is_open(difference: PairedDifference, margin: float) -> str:
    found, names = difference.basis, f"{difference.setting} and {difference.against}"
    if found is None:
        return f"No text has a score with both {names}."
    more = (
        ""
        if difference.more_texts is None
        else f" About {difference.more_texts:,} more would tell."
    )
    if difference.verdict == "too few":
        few = f"{found.count} {'text is' if found.count == 1 else 'texts are'} too few"
        return f"{few} to tell {names} apart ({interval_text(found)})." + more
    chance = (
        ""
        if difference.chance is None
        else f"; the chance that {difference.setting} is better is {_odds(difference.chance)}"
    )
    target = max(abs(found.mean), margin)
    tell = more.replace("would tell", f"texts like these would tell a difference of {target:.2f}")
    return f"{found.count} texts cannot tell {names} apart ({interval_text(found)}{chance})." + tell


def _until_then(names: Sequence[str], settings: Sequence[SettingSummary]) -> list[str]:
    """Say which of those that may be best costs least; nothing if that is unknown or none does."""
    costs = _costs_of([setting for setting in settings if setting.name in names])
    cheapest = min(costs, key=lambda name: costs[name], default="")
    if not costs or max(costs.values()) - costs[cheapest] <= SAME:
        return []
    return [f"Until then nothing shows that {cheapest}, which costs least, is worse."]


def _costs_of(settings: Sequence[SettingSummary]) -> dict[str, float]:
    """Return the mean cost of a text by setting; nothing unless that of all is known."""
    costs = {of.name: of.cost_usd.mean for of in settings if of.cost_usd is not None}
    return costs if len(costs) == len(settings) else {}


def _cheapest_of(
    best: SettingSummary,
    rivals: Sequence[PairedDifference],
    settings: Sequence[SettingSummary],
    margin: float,
) -> Recommendation:
    names = {best.name, *(rival.against for rival in rivals)}
    even = [setting for setting in settings if setting.name in names]
    named = " and ".join(setting.name for setting in even)
    if all(rival.basis is not None and not rival.basis.sd for rival in rivals):
        count = min(rival.basis.count for rival in rivals if rival.basis)
        share = 1 - (1 - CONFIDENCE) ** (1 / count)
        sentence = (
            f"{named} scored the same on each of {count} texts: on at most {share:.0%} of such"
        )
        sentence += f" texts would they differ ({CONFIDENCE:.0%} sure)."
    else:
        sentence = f"{named} differ by less than {margin:.2f}, which does not matter."
    costs = _costs_of(even)
    if not costs:
        return Recommendation(None, "even", (sentence, "What they cost is unknown."))
    cheapest = min(costs, key=lambda name: costs[name])
    if max(costs.values()) - costs[cheapest] <= SAME:
        return Recommendation(None, "even", (sentence, "They cost the same: use either."))
    return Recommendation(cheapest, "even", (sentence, f"Use {cheapest}, which costs least."))


def _money(
    choice: str | None, against: Sequence[PairedDifference], settings: Sequence[SettingSummary]
) -> list[str]:
    """Say what the best setting costs beside each other one."""
    sentences = []
    for difference in against:
        names = f"{difference.setting} costs", f"than {difference.against}"
        if difference.cost_usd is None:
            if any(summary.cost_usd is None for summary in settings):
                sentences.append(
                    f"What {difference.setting} costs beside {difference.against} is unknown."
                )
            continue
        if abs(difference.cost_usd.mean) <= SAME:
            continue
        more = "more" if difference.cost_usd.mean > 0 else "less"
        line = f"{names[0]} {dollars(abs(difference.cost_usd.mean))} a text {more} {names[1]}"
        line += _bounds(difference.cost_usd, dollars)
        gain = (
            difference.basis.mean
            if difference.basis and choice == difference.setting and difference.verdict == "better"
            else 0
        )
        if more == "more" and gain > 0:
            line += f": {dollars(difference.cost_usd.mean * 0.01 / gain)} for each 0.01 of score"
        sentences.append(f"{line}.")
    return sentences


def _bounds(found: MeanInterval, shown: Callable[[float], str]) -> str:
    if found.low is None or found.high is None:
        return ""
    low, high = sorted((found.low, found.high)) if found.mean > 0 else (-found.high, -found.low)
    return f" ({shown(low)} to {shown(high)})"


def _reservations(
    differences: Sequence[PairedDifference], margin: float, level: float
) -> list[str]:
    """Say what speaks against the verdict: texts that are missing, and people."""
    sentences = []
    for difference in differences:
        pair = f"{difference.setting} and {difference.against}"
        if difference.counting_missing is not None:
            counted = verdict_on(difference.counting_missing, margin, level)
            change = (
                "the verdict is the same"
                if counted == difference.verdict
                else f"it would be {counted}"
            )
            sentences.append(
                f"Where a text is missing and counts as 0, {pair} differ by"
                f" {interval_text(difference.counting_missing)}: {change}."
            )
        if difference.people is not None and difference.with_people is None:
            sentences.append(
                f"People rated {texts_text(difference.people.count)} of"
                f" both {pair} ({interval_text(difference.people)});"
                f" from {FEWEST_RATED} on their word decides."
            )
    return sentences


def interval_text(found: MeanInterval) -> str:
    """Return a difference with its interval, or that there is none."""
    if found.low is None or found.high is None:
        return with_sign(found.mean) + (" on every text" if found.sd == 0 else "")
    return f"{with_sign(found.mean)}, {with_sign(found.low)} to {with_sign(found.high)}"


def with_sign(value: float) -> str:
    """Return a difference with three decimals, or with as many as show that it is not 0."""
    is_tiny = 1e-9 <= abs(value) < 0.0005
    return f"{value:+z.{ceil(-log10(abs(value))) if is_tiny else 3}f}"


def dollars(value: float) -> str:
    """Return dollars with four decimals, or more for what is below a hundredth of a cent."""
    return f"-{dollars(-value)}" if value < 0 else f"${value:.{6 if 0 < value < 1e-4 else 4}f}"
