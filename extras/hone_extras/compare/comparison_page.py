"""A comparison as one HTML page: without scripts, and without a request to any host."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from pydantic import ValidationError

from app.contract.requests import RefinementRequest
from app.legible import legible
from hone_extras.compare.comparison import SAME, PairedDifference, dollars, texts_text, with_sign
from hone_extras.compare.comparison_run import (
    ComparedText,
    ComparisonPlan,
    ComparisonStory,
    RefinedText,
)
from hone_extras.compare.comparison_tables import (
    UNKNOWN,
    Rows,
    criteria_table,
    differences_table,
    own_estimates,
    people_table,
    reach,
    settings_table,
)

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""


def html_page(title: str, style: str, body: str) -> str:
    """Return the page; the title is a text, the style and the body are what they are."""
    return _PAGE.format(title=escape(title), style=style, body=body)


MASK = "**********"
OPEN_TEXTS = 2
"""Texts that are open at first: those that the settings differ on most."""


def page_of_comparison(story: ComparisonStory) -> str:
    """Return the page; every text of a client, a person or a model is shown as text."""
    title = f"Comparison {story.plan.name}"
    body = "\n".join(_sections(story))
    return html_page(legible(title), _style(), f"{body}\n")


@cache
def _style() -> str:
    return (resources.files(__package__) / "comparison.css").read_text("utf-8")


def html_text(text: str) -> str:
    """Return a text that HTML shows as it is; control characters are replaced."""
    return escape(legible(text))


def _sections(story: ComparisonStory) -> Iterator[str]:
    plan, result = story.plan, story.result
    yield f"<h1>Comparison {html_text(plan.name)}</h1>"
    about = f"{texts_text(len(plan.texts))} with {', '.join(plan.settings)}; {story.judged_by()}."
    yield f'<p class="soft">{html_text(about)}</p>'
    advice = "".join(
        f"<p>{html_text(sentence)}</p>" for sentence in result.recommendation.sentences
    )
    yield f'<div class="advice">{advice}</div>'
    yield "<h2>Settings</h2>"
    yield _table(settings_table(result.settings))
    if estimates := own_estimates(result.settings):
        yield _list(estimates, "soft")
    yield "<h2>Differences, text by text</h2>"
    yield from _differences(story)
    if gaps := story.gaps():
        yield f"<h2>Missing</h2>{_list(gaps, 'missing')}"
    yield _list([*story.notes(), story.costs()], "soft")
    yield "<h2>Side by side</h2>"
    yield '<p class="soft">Texts on which the settings differ most come first.</p>'
    yield from _texts(story)
    yield "<h2>What was compared</h2>"
    yield from _configured(plan)


def _list(lines: Iterable[str], kind: str) -> str:
    return f'<ul class="{kind}">{"".join(f"<li>{html_text(line)}</li>" for line in lines)}</ul>'


def _table(table: Rows) -> str:
    head, *rows = table
    top = "".join(f'<th scope="col">{html_text(cell)}</th>' for cell in head)
    lines = ("".join(f"<td>{html_text(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _differences(story: ComparisonStory) -> Iterator[str]:
    differences = story.result.differences
    yield _table(differences_table(differences))
    if len(differences) > 1:
        yield '<p class="soft">The intervals of all differences hold together with 95 %.</p>'
    for difference in differences:
        yield _chart(difference, [gap for gap, _ in story.gaps_in_score(difference)])
    for rows in (criteria_table(differences), people_table(differences)):
        if len(rows) > 1:
            yield _table(rows)


WIDTH, HEIGHT, EDGE = 700, 92, 20


def _chart(difference: PairedDifference, gaps: Sequence[float]) -> str:
    """Return a drawing of the differences: a dot for each text, the mean and its interval."""
    found = difference.score
    if found is None:
        return ""
    ends = [*gaps, found.low or 0.0, found.high or 0.0]
    most = max(0.01, *map(abs, ends))

    def x(value: float) -> float:
        return round(WIDTH / 2 + value / most * (WIDTH / 2 - EDGE), 1)

    dots = "".join(f'<circle class="dot" cx="{x(gap)}" cy="34" r="4"/>' for gap in gaps)
    bar = ""
    if found.low is not None and found.high is not None:
        bar = f'<line class="reach" x1="{x(found.low)}" x2="{x(found.high)}" y1="54" y2="54"/>'
    names = html_text(difference.against), html_text(difference.setting)
    found_text = f"mean {with_sign(found.mean)}, 95 % {reach(found, is_signed=True)}"
    label = f"{names[1]} minus {names[0]}: {found_text}"
    return (
        f'<div class="wide"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="20" y2="70"/>{dots}{bar}'
        f'<circle class="mean" cx="{x(found.mean)}" cy="54" r="6"/>'
        f'<text x="{EDGE}" y="14">\u2190 {names[0]} better</text>'
        f'<text x="{WIDTH - EDGE}" y="14" text-anchor="end">{names[1]} better \u2192</text>'
        f'<text x="{EDGE}" y="{HEIGHT - 6}">{-most:+.2f}</text>'
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">0</text>'
        f'<text x="{WIDTH - EDGE}" y="{HEIGHT - 6}" text-anchor="end">{most:+.2f}</text>'
        "</svg></div>"
    )


def _texts(story: ComparisonStory) -> Iterator[str]:
    rows = list(zip(story.plan.texts, story.refined, strict=True))
    rows.sort(key=lambda row: -_span(row[1]))
    for number, (text, found) in enumerate(rows):
        is_open = " open" if number < OPEN_TEXTS else ""
        sides = "".join(_side(name, refined) for name, refined in found.items())
        yield (
            f"<details{is_open}><summary>{html_text(text.name)}{_scores(found)}</summary>"
            f'{_submitted(text)}<div class="sides">{sides}</div></details>'
        )


def _span(found: Mapping[str, RefinedText]) -> float:
    scores = [score for one in found.values() if (score := one.outcome().score) is not None]
    return max(scores) - min(scores) if scores else 0.0


def _scores(found: Mapping[str, RefinedText]) -> str:
    scores = {name: refined.outcome().score for name, refined in found.items()}
    known = [score for score in scores.values() if score is not None]
    parts = []
    for name, score in scores.items():
        kind = ""
        if score is not None and max(known) - min(known) > SAME:
            kind = {max(known): "up", min(known): "down"}.get(score, "")
        value = "none" if score is None else f"{score:.3f}"
        parts.append(f'<span class="{kind}">{html_text(name)} {value}</span>')
    return "".join(parts)


def _submitted(text: ComparedText) -> str:
    given = [("Task", text.fields.get("task")), ("Submitted draft", text.fields.get("draft"))]
    return "".join(
        f'<h3 class="soft">{title}</h3><pre>{html_text(text)}</pre>'
        for title, text in given
        if isinstance(text, str)
    )


def _side(name: str, refined: RefinedText) -> str:
    outcome, now = refined.outcome(), refined.snapshot
    score = "no score" if outcome.score is None else f"{outcome.score:.3f}"
    cost = UNKNOWN if outcome.cost_usd is None else dollars(outcome.cost_usd)
    seconds = UNKNOWN if outcome.seconds is None else f"{outcome.seconds:.1f} s"
    path = f" {now.result.path}" if now and now.result else ""
    reference = f" \u00b7 {html_text(now.id + path)}" if now else ""
    parts = [
        f"<h3>{html_text(name)}: {score}</h3>",
        f'<p class="soft">{cost} \u00b7 {seconds}{reference}</p>',
        *(f'<p class="missing">{html_text(why)}</p>' for why in _lacks(refined)),
        "" if refined.draft is None else f"<pre>{html_text(refined.draft)}</pre>",
        _said(refined),
    ]
    return f"<section>{''.join(parts)}</section>"


def _lacks(refined: RefinedText) -> Iterator[str]:
    if refined.failure is not None:
        yield refined.failure
    if refined.judged_with is None:
        yield from map(str, refined.not_judged)


def _said(refined: RefinedText) -> str:
    """Return what the judge and people said of a draft; what settings share, at the first one."""
    shared = [f"The same draft as with {refined.judged_with}: judged once for both."]
    lines = (
        shared
        if refined.judged_with
        else [
            f"{score.criterion} {UNKNOWN if score.score is None else f'{score.score:.2f}'}"
            + (f": {score.reason}" if score.reason else "")
            for judged in refined.judged
            for score in judged.scores
        ]
    )
    lines += [f"rated {score:.2f} by {by or 'a person'}" for by, score in refined.ratings.items()]
    return _list(lines, "soft") if lines else ""


def _configured(plan: ComparisonPlan) -> Iterator[str]:
    text = plan.texts[0]
    bodies = {name: (setting, plan.body(text, name)) for name, setting in plan.settings.items()}
    if plan.judge:
        bodies["judge"] = (plan.judge, plan.judging(text, "a draft"))
    for name, (fields, body) in bodies.items():
        written = html_text(_written(fields, body))
        yield f'<h3>{html_text(name)}</h3><pre class="code">{written}</pre>'


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
