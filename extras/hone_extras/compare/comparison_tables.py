"""The tables of a comparison, the same cells on a terminal and on its page."""

from collections.abc import Sequence

from app.cli.display import score_text
from hone_extras.compare.comparison import (
    MeanInterval,
    PairedDifference,
    SettingSummary,
    dollars,
    with_sign,
)

UNKNOWN = "unknown"

Rows = Sequence[tuple[str, ...]]
"""The first one is the head."""


def settings_table(settings: Sequence[SettingSummary]) -> Rows:
    """Return the table of the settings; dollars that are not known are said to be unknown."""
    head = ("setting", "score", "95 %", "passed", "own score", "$ a text", "seconds")
    return [head, *map(_setting, settings)]


def _setting(setting: SettingSummary) -> tuple[str, ...]:
    return (
        setting.name,
        UNKNOWN if setting.score is None else f"{setting.score.mean:.3f}",
        reach(setting.score),
        f"{setting.passed}/{setting.texts}",
        score_text(setting.own_score),
        UNKNOWN if setting.cost_usd is None else dollars(setting.cost_usd.mean),
        UNKNOWN if setting.seconds is None else f"{setting.seconds.mean:.1f}",
    )


def own_estimates(settings: Sequence[SettingSummary]) -> list[str]:
    """Return a line for each setting that estimates its drafts."""
    return [
        f"{setting.name}: own estimate {setting.own_estimate:.2f} \u00b1 {setting.own_error:.2f}"
        f" ({setting.estimated} texts)"
        for setting in settings
        if setting.own_estimate is not None and setting.own_error is not None
    ]


def differences_table(differences: Sequence[PairedDifference]) -> Rows:
    """Return the table of the differences: a setting minus the one it stands against."""
    head = ("difference", "score", "95 %", "won-lost-tied", "$ a text", "seconds", "verdict")
    return [head, *map(_difference, differences)]


def _difference(difference: PairedDifference) -> tuple[str, ...]:
    cost = None if difference.cost_usd is None else difference.cost_usd.mean
    return (
        pair_of(difference),
        UNKNOWN if difference.score is None else with_sign(difference.score.mean),
        reach(difference.score, is_signed=True),
        f"{difference.wins}-{difference.losses}-{difference.ties}",
        UNKNOWN if cost is None else f"{'+' if cost >= 0 else ''}{dollars(cost)}",
        UNKNOWN if difference.seconds is None else f"{difference.seconds.mean:+z.1f}",
        difference.verdict,
    )


def criteria_table(differences: Sequence[PairedDifference]) -> Rows:
    """Return the differences by criterion; of one criterion they are those of the score."""
    head = ("difference", "criterion", "score", "95 %")
    rows = [
        (pair_of(difference), criterion, with_sign(found.mean), reach(found, is_signed=True))
        for difference in differences
        if len(difference.criteria) > 1
        for criterion, found in difference.criteria.items()
    ]
    return [head, *rows]


def people_table(differences: Sequence[PairedDifference]) -> Rows:
    """Return what people found on the texts they rated, or with the judge's help on all texts."""
    head = ("difference by people", "of", "texts rated", "score", "95 %", "trust in the judge")
    rows = [
        (
            pair_of(difference),
            "rated texts" if difference.with_people is None else "all texts",
            str(found.count),
            with_sign(found.mean),
            reach(found, is_signed=True),
            UNKNOWN if difference.trust is None else f"{difference.trust:.2f}",
        )
        for difference in differences
        for found in [difference.with_people or difference.people]
        if found is not None
    ]
    return [head, *rows]


def pair_of(difference: PairedDifference) -> str:
    """Return the name of a difference."""
    return f"{difference.setting} - {difference.against}"


def reach(found: MeanInterval | None, *, is_signed: bool = False) -> str:
    """Return the ends of an interval, or that there is none."""
    if found is None or found.low is None or found.high is None:
        return "none"
    low, high = (with_sign(end) if is_signed else f"{end:.3f}" for end in (found.low, found.high))
    return f"{low} to {high}"
