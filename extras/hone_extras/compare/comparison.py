"""Which settings are worth their money: what a paired comparison found, and what it advises.

Every text is refined with every setting, and one judge scores what came of it, so differences are
taken per text. A difference is that of a setting minus the one it stands against.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log10
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
    """What a setting made of one text."""

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
    """Of scores that people gave; None if nobody rated a text of both."""
    with_people: MeanInterval | None
    """What people would find on all texts, estimated with the judge's help; it decides."""
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
    if 2 * 0.5**found.count > 1 - level:
        return "open"
    return "better" if found.mean > 0 else "worse"


def recommended(
    settings: Sequence[SettingSummary],
    differences: Sequence[PairedDifference],
    margin: float,
    level: float,
) -> Recommendation:
    """Return which setting to use, and how sure that is."""
    failed = [it for it in settings if it.score is None]
    working = [it for it in settings if it.score is not None]
    names = {it.name for it in working}
    between = [it for it in differences if names.issuperset(_names(it))]
    if len(working) > 1:
        chosen = _best_of(working, between, margin)
    elif working:
        chosen = _only_one(working[0], failed)
    else:
        listed = " and ".join(it.name for it in failed)
        said = f"Nothing can be compared or recommended: no text of {listed} has a score."
        chosen = Recommendation(None, "open", (said,))
    sentences = (
        *chosen.sentences,
        *map(_all_failed, failed),
        *_reservations(differences, margin, level),
    )
    return Recommendation(chosen.choice, chosen.verdict, sentences)


def _only_one(working: SettingSummary, failed: Sequence[SettingSummary]) -> Recommendation:
    """Return advice where one setting alone has scores: it is recommended if the others failed."""
    listed = " and ".join(it.name for it in failed)
    blamed = all(why.because.blames_setting for it in failed for why in it.unscored)
    scored = working.score.count if working.score else 0
    mean = f"{working.score.mean:.3f}" if working.score else "unknown"
    its = f"it scored {mean} in the mean of {scored} of {texts_text(working.texts)}"
    if blamed:
        said = f"Use {working.name}: it alone works, and {listed} failed on every text; {its}."
        return Recommendation(working.name, "shown" if scored >= FEWEST_TEXTS else "open", (said,))
    said = f"Only {working.name} can be told about: {its}, and no text of {listed} has a score."
    return Recommendation(None, "open", (said,))


def _all_failed(it: SettingSummary) -> str:
    """Say why a setting has no score at all, on how many texts, and what to change."""
    reasons = [f"{found.because.why} ({texts_text(found.texts)})" for found in it.unscored]
    more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
    why = "; ".join(reasons[:MOST_REASONS]) or "the reason is unknown"
    fixes = dict.fromkeys(found.because.fix for found in it.unscored[:MOST_REASONS])
    return " ".join(
        (f"{it.name} has no score on any of {texts_text(it.texts)}: {why}{more}.", *fixes)
    )


def texts_text(count: int) -> str:
    """Return a number of texts in words."""
    return "1 text" if count == 1 else f"{count} texts"


def _best_of(
    settings: Sequence[SettingSummary], differences: Sequence[PairedDifference], margin: float
) -> Recommendation:
    """Return which of the settings that have scores to use."""
    best = _leader(settings, differences)
    against = [_seen_from(best.name, it) for it in differences if best.name in _names(it)]
    rivals = [it for it in against if it.verdict != "better"]
    if not rivals:
        chosen = Recommendation(best.name, "shown", (_is_better(best.name, against),))
    elif all(it.verdict == "even" for it in rivals):
        chosen = _cheapest_of(best, rivals, settings, margin)
    else:
        said = [_is_open(it, margin) for it in rivals if it.verdict != "even"]
        said += _until_then([best.name, *(it.against for it in rivals)], settings)
        chosen = Recommendation(None, "open", tuple(said))
    sentences = (*chosen.sentences, *_money(chosen.choice, against, settings))
    return Recommendation(chosen.choice, chosen.verdict, sentences)


def _leader(
    settings: Sequence[SettingSummary], differences: Sequence[PairedDifference]
) -> SettingSummary:
    """Return the setting with the highest mean difference from the others."""

    def lead(setting: SettingSummary) -> float:
        seen = [_seen_from(setting.name, it) for it in differences if setting.name in _names(it)]
        return fmean(it.basis.mean if it.basis else 0.0 for it in seen)

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
        criteria={name: _turned(it) for name, it in found.criteria.items()},
        people=_negated(found.people),
        with_people=_negated(found.with_people),
    )


def _negated(found: MeanInterval | None) -> MeanInterval | None:
    return None if found is None else _turned(found)


def _turned(it: MeanInterval) -> MeanInterval:
    low, high = (None if edge is None else -edge for edge in (it.high, it.low))
    return replace(it, mean=-it.mean, low=low, high=high)


def _is_better(name: str, against: Sequence[PairedDifference]) -> str:
    found = "; ".join(
        f"{interval_text(it.basis)} against {it.against}" for it in against if it.basis
    )
    who = "people score" if any(it.with_people for it in against) else "the judge scores"
    chances = [it.chance for it in against if it.chance is not None]
    sure = f", the chance that it is better is {_odds(min(chances))}" if chances else ""
    return f"Use {name}: {who} its texts higher ({found}{sure})."


def _odds(chance: float) -> str:
    """Return a probability in percent, never rounded to certainty."""
    return "over 99 %" if chance > 0.99 else f"{max(chance, 0.01):.0%}".replace("%", " %")


def _is_open(it: PairedDifference, margin: float) -> str:
    found, names = it.basis, f"{it.setting} and {it.against}"
    if found is None:
        return f"No text has a score with both {names}."
    more = "" if it.more_texts is None else f" About {it.more_texts:,} more would tell."
    if it.verdict == "too few":
        few = f"{found.count} {'text is' if found.count == 1 else 'texts are'} too few"
        return f"{few} to tell {names} apart ({interval_text(found)})." + more
    chance = (
        ""
        if it.chance is None
        else f"; the chance that {it.setting} is better is {_odds(it.chance)}"
    )
    target = max(abs(found.mean), margin)
    tell = more.replace("would tell", f"texts like these would tell a difference of {target:.2f}")
    return f"{found.count} texts cannot tell {names} apart ({interval_text(found)}{chance})." + tell


def _until_then(names: Sequence[str], settings: Sequence[SettingSummary]) -> list[str]:
    """Say which of those that may be best costs least; nothing if that is unknown or none does."""
    found = [it for it in settings if it.name in names]
    costs = {it.name: it.cost_usd.mean for it in found if it.cost_usd is not None}
    if len(costs) < len(found) or max(costs.values()) - min(costs.values()) <= SAME:
        return []
    cheapest = min(costs, key=lambda name: costs[name])
    return [f"Until then nothing shows that {cheapest}, which costs least, is worse."]


def _cheapest_of(
    best: SettingSummary,
    rivals: Sequence[PairedDifference],
    settings: Sequence[SettingSummary],
    margin: float,
) -> Recommendation:
    names = {best.name, *(it.against for it in rivals)}
    even = [it for it in settings if it.name in names]
    listed = " and ".join(it.name for it in even)
    if all(it.basis is not None and not it.basis.sd for it in rivals):
        count = min(it.basis.count for it in rivals if it.basis)
        share = 1 - (1 - CONFIDENCE) ** (1 / count)
        said = f"{listed} scored the same on each of {count} texts: on at most {share:.0%} of such"
        said += f" texts would they differ ({CONFIDENCE:.0%} sure)."
    else:
        said = f"{listed} differ by less than {margin:.2f}, which does not matter."
    costs = {it.name: it.cost_usd.mean for it in even if it.cost_usd is not None}
    if len(costs) < len(even):
        return Recommendation(None, "even", (said, "What they cost is unknown."))
    cheapest = min(costs, key=lambda name: costs[name])
    if max(costs.values()) - costs[cheapest] <= SAME:
        return Recommendation(None, "even", (said, "They cost the same: use either."))
    return Recommendation(cheapest, "even", (said, f"Use {cheapest}, which costs least."))


def _money(
    choice: str | None, against: Sequence[PairedDifference], settings: Sequence[SettingSummary]
) -> list[str]:
    """Say what the best setting costs beside each other one."""
    said = []
    for it in against:
        names = f"{it.setting} costs", f"than {it.against}"
        if it.cost_usd is None:
            if any(summary.cost_usd is None for summary in settings):
                said.append(f"What {it.setting} costs beside {it.against} is unknown.")
            continue
        if abs(it.cost_usd.mean) <= SAME:
            continue
        more = "more" if it.cost_usd.mean > 0 else "less"
        line = f"{names[0]} {dollars(abs(it.cost_usd.mean))} a text {more} {names[1]}"
        line += _bounds(it.cost_usd, dollars)
        gain = it.basis.mean if it.basis and choice == it.setting and it.verdict == "better" else 0
        if more == "more" and gain > 0:
            line += f": {dollars(it.cost_usd.mean * 0.01 / gain)} for each 0.01 of score"
        said.append(f"{line}.")
    return said


def _bounds(found: MeanInterval, shown: Callable[[float], str]) -> str:
    if found.low is None or found.high is None:
        return ""
    low, high = sorted((found.low, found.high)) if found.mean > 0 else (-found.high, -found.low)
    return f" ({shown(low)} to {shown(high)})"


def _reservations(
    differences: Sequence[PairedDifference], margin: float, level: float
) -> list[str]:
    """Say what speaks against the verdict: texts that are missing, and people."""
    said = []
    for it in differences:
        pair = f"{it.setting} and {it.against}"
        if it.counting_missing is not None:
            counted = verdict_on(it.counting_missing, margin, level)
            change = (
                "the verdict is the same" if counted == it.verdict else f"it would be {counted}"
            )
            said.append(
                f"Where a text is missing and counts as 0, {pair} differ by"
                f" {interval_text(it.counting_missing)}: {change}."
            )
        if it.people is not None and it.with_people is None:
            said.append(
                f"People rated {texts_text(it.people.count)} of"
                f" both {pair} ({interval_text(it.people)});"
                f" from {FEWEST_RATED} on their word decides."
            )
    return said


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
