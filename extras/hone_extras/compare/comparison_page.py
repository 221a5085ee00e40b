"""A comparison as one HTML page: without scripts, and without a request to any host."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pydantic import ValidationError

from app.contract.requests import RefinementRequest
from app.legible import legible
from hone_extras.compare.comparison import SAME, PairedDifference, dollars, texts_text, with_sign
from hone_extras.compare.comparison_run import ComparisonPlan, ComparisonStory, RefinedText
from hone_extras.compare.comparison_tables import (
    UNKNOWN,
    criteria_table,
    differences_table,
    own_estimates,
    people_table,
    reach,
    settings_table,
)

MASK = "**********"


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
