"""The tables of a comparison, the same cells on a terminal and on its page, and the page itself.

The page is HTML without scripts, and without a request to any host.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pydantic import ValidationError

from app.cli.display import score_text
from app.contract.requests import RefinementRequest
from app.legible import legible
from hone_extras.compare.comparison import (
    SAME,
    MeanInterval,
    PairedDifference,
    SettingSummary,
    dollars,
    texts_text,
    with_sign,
)
from hone_extras.compare.comparison_run import ComparisonPlan, ComparisonStory, RefinedText

MASK = "**********"
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


def page_of_comparison(story: ComparisonStory) -> str:
    """Return the page; every text of a client, a person or a model is shown as text."""
    texts = list(zip(story.plan.texts, story.refined, strict=True))
    texts.sort(key=lambda row: -_span(row[1]))
    page = ENVIRONMENT.get_template("comparison.html.jinja").render(
        story=story,
        plan=story.plan,
        result=story.result,
        gaps=story.gaps(),
        texts=texts,
        drawing_of=lambda difference: Drawing.of(difference, story),
        configured=_configured(story.plan),
    )
    return f"{page}\n"


@dataclass(frozen=True)
class Drawing:
    """The differences of a pair: a dot for each text, the mean and its interval."""

    gaps: Sequence[float]
    most: float
    """The largest value that is drawn, on both sides of 0."""
    WIDTH: ClassVar[int] = 700
    HEIGHT: ClassVar[int] = 92
    EDGE: ClassVar[int] = 20

    @classmethod
    def of(cls, difference: PairedDifference, story: ComparisonStory) -> "Drawing":
        """Return the drawing of a difference that has a score."""
        gaps = [gap for gap, _ in story.gaps_in_score(difference)]
        found = difference.score
        ends = (found.low or 0.0, found.high or 0.0) if found else ()
        return cls(gaps, max(0.01, *map(abs, (*gaps, *ends))))

    def x(self, value: float) -> float:
        """Return where a value is drawn."""
        return round(self.WIDTH / 2 + value / self.most * (self.WIDTH / 2 - self.EDGE), 1)


def _span(found: Mapping[str, RefinedText]) -> float:
    scores = [score for one in found.values() if (score := one.outcome().score) is not None]
    return max(scores) - min(scores) if scores else 0.0


def scores_of(found: Mapping[str, RefinedText]) -> Iterator[tuple[str, str, str]]:
    """Yield name, kind (`up` for the highest one, `down` for the lowest) and score by setting."""
    scores = {name: refined.outcome().score for name, refined in found.items()}
    known = [score for score in scores.values() if score is not None]
    kinds = {max(known): "up", min(known): "down"} if _span(found) > SAME else {}
    for name, score in scores.items():
        shown = "none" if score is None else f"{score:.3f}"
        yield name, "" if score is None else kinds.get(score, ""), shown


def said_of(refined: RefinedText) -> Iterator[str]:
    """Yield what the judge and people said of a draft; what settings share, at the first one."""
    if refined.judged_with:
        yield f"The same draft as with {refined.judged_with}: judged once for both."
    for judged in refined.judged if not refined.judged_with else ():
        for score in judged.scores:
            value = UNKNOWN if score.score is None else f"{score.score:.2f}"
            yield f"{score.criterion} {value}" + (f": {score.reason}" if score.reason else "")
    for by, rating in refined.ratings.items():
        yield f"rated {rating:.2f} by {by or 'a person'}"


def _configured(plan: ComparisonPlan) -> Iterator[tuple[str, str]]:
    """Yield the fields of every setting and of the judge."""
    text = plan.texts[0]
    for name, fields in plan.settings.items():
        yield name, _written(fields, plan.body(text, name))
    if plan.judge:
        yield "judge", _written(plan.judge, plan.judging(text, "a draft"))


def _written(fields: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    """Return fields as JSON with the secrets of their request masked.

    Only their names if the secrets are not known.
    """
    try:
        request = RefinementRequest.model_validate(body)
    except ValidationError:  # of a newer server
        return ", ".join(fields)
    masked = _masked(fields, frozenset(request.secrets().values()))
    return json.dumps(masked, indent=2, ensure_ascii=False)


def _masked(value: Any, secrets: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {name: _masked(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner, secrets) for inner in value]
    return MASK if isinstance(value, str) and value in secrets else value


def _shown(value: Any) -> Any:
    """Return a value of the template without control characters; HTML is escaped afterwards."""
    return value if isinstance(value, Markup) else legible(str(value))


ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    finalize=_shown,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
_IN_THE_TEMPLATE: tuple[Callable[..., Any], ...] = (
    *(criteria_table, differences_table, own_estimates, people_table, settings_table),
    *(dollars, reach, said_of, scores_of, texts_text, with_sign),
)
ENVIRONMENT.globals |= {function.__name__: function for function in _IN_THE_TEMPLATE}
ENVIRONMENT.globals["UNKNOWN"] = UNKNOWN
