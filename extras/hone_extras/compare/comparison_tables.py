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


def _setting(it: SettingSummary) -> tuple[str, ...]:
    return (
        it.name,
        UNKNOWN if it.score is None else f"{it.score.mean:.3f}",
        reach(it.score),
        f"{it.passed}/{it.texts}",
        score_text(it.own_score),
        UNKNOWN if it.cost_usd is None else dollars(it.cost_usd.mean),
        UNKNOWN if it.seconds is None else f"{it.seconds.mean:.1f}",
    )


def own_estimates(settings: Sequence[SettingSummary]) -> list[str]:
    """Return a line for each setting that estimates its drafts."""
    return [
        f"{it.name}: own estimate {it.own_estimate:.2f} \u00b1 {it.own_error:.2f}"
        f" ({it.estimated} texts)"
        for it in settings
        if it.own_estimate is not None and it.own_error is not None
    ]


def differences_table(differences: Sequence[PairedDifference]) -> Rows:
    """Return the table of the differences: a setting minus the one it stands against."""
    head = ("difference", "score", "95 %", "won-lost-tied", "$ a text", "seconds", "verdict")
    return [head, *map(_difference, differences)]


def _difference(it: PairedDifference) -> tuple[str, ...]:
    cost = None if it.cost_usd is None else it.cost_usd.mean
    return (
        pair_of(it),
        UNKNOWN if it.score is None else with_sign(it.score.mean),
        reach(it.score, is_signed=True),
        f"{it.wins}-{it.losses}-{it.ties}",
        UNKNOWN if cost is None else f"{'+' if cost >= 0 else ''}{dollars(cost)}",
        UNKNOWN if it.seconds is None else f"{it.seconds.mean:+z.1f}",
        it.verdict,
    )


def criteria_table(differences: Sequence[PairedDifference]) -> Rows:
    """Return the differences by criterion; of one criterion they are those of the score."""
    head = ("difference", "criterion", "score", "95 %")
    rows = [
        (pair_of(it), criterion, with_sign(found.mean), reach(found, is_signed=True))
        for it in differences
        if len(it.criteria) > 1
        for criterion, found in it.criteria.items()
    ]
    return [head, *rows]


def people_table(differences: Sequence[PairedDifference]) -> Rows:
    """Return what people found on the texts they rated, or with the judge's help on all texts."""
    head = ("difference by people", "of", "texts rated", "score", "95 %", "trust in the judge")
    rows = [
        (
            pair_of(it),
            "rated texts" if it.with_people is None else "all texts",
            str(found.count),
            with_sign(found.mean),
            reach(found, is_signed=True),
            UNKNOWN if it.trust is None else f"{it.trust:.2f}",
        )
        for it in differences
        for found in [it.with_people or it.people]
        if found is not None
    ]
    return [head, *rows]


def pair_of(it: PairedDifference) -> str:
    """Return the name of a difference."""
    return f"{it.setting} - {it.against}"


def reach(found: MeanInterval | None, *, is_signed: bool = False) -> str:
    """Return the ends of an interval, or that there is none."""
    if found is None or found.low is None or found.high is None:
        return "none"
    low, high = (with_sign(it) if is_signed else f"{it:.3f}" for it in (found.low, found.high))
    return f"{low} to {high}"
