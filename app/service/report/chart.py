"""The chart of a report: the scores of one search over its drafts, as SVG and as lines of text.

Scores compare only within one search, so every search has a chart of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import ceil, floor

from app.contract.events import IterationCompleted
from app.contract.gains import search_of
from app.contract.judgement import QualityEstimate
from app.contract.snapshot import Iteration
from app.legible import on_one_line
from app.service.report import wording
from app.service.report.markdown import fenced, joined, path, under
from app.service.report.sections import Story

MOST_CHARTS = 25
NAME = 30
"""Characters of a criterion's name that are shown beside its line."""

LEFT, RIGHT, TOP, BOTTOM = 30.0, 366.0, 8.0, 196.0
"""The plot within the picture, which is 400 wide and 220 high."""

DENSE = 20
"""Drafts above which the points are drawn smaller."""

COLOURS = 8
BARS = "▁▂▃▄▅▆▇█"
UNKNOWN = "·"

Values = tuple[float | None, ...]


@dataclass(frozen=True)
class Chart:
    """The judged drafts of a search, at least one; `thresholds` are those in force at each.

    `best` is the path of its best draft; `estimate` is of that draft.
    """

    search: str
    drafts: tuple[Iteration, ...]
    thresholds: Values
    best: str | None
    estimate: QualityEstimate | None = None
    is_whole: bool = False
    """Whether its drafts are joined from parts, each of them from those of the one before."""

    @cached_property
    def scores(self) -> Values:
        """The score of every draft; None for one that was not measured."""
        return tuple(it.score for it in self.drafts)

    @cached_property
    def criteria(self) -> dict[str, Values]:
        """The scores of every draft by criterion; none if there is but one, the score itself."""
        by_draft = [{of.criterion: of.score for of in it.scores} for it in self.drafts]
        names = dict.fromkeys(name for scores in by_draft for name in scores)
        found = {name: tuple(it.get(name) for it in by_draft) for name in names}
        return {} if [*found.values()] == [self.scores] else found

    @cached_property
    def axis(self) -> tuple[int, int, int]:
        """The lowest and the highest tenth that are drawn, and the tenths between two lines."""
        known = [it for of in (self.scores, self.thresholds, *self.criteria.values()) for it in of]
        shown = [it for it in known if it is not None]
        if self.estimate is not None:
            shown += _band(self.estimate)
        low, high = floor(min(shown, default=0) * 10), ceil(max(shown, default=1) * 10)
        low, high = max(0, min(low, high - 1)), min(10, max(high, low + 1))
        return (low, high, 1) if high - low <= 5 else (low - low % 2, high + high % 2, 2)

    def y(self, value: float) -> float:
        """Return the height at which a score is drawn."""
        low, high, _ = self.axis
        return BOTTOM - (value * 10 - low) / (high - low) * (BOTTOM - TOP)

    def x(self, index: float) -> float:
        """Return where the draft with this index is drawn."""
        return LEFT + (index + 0.5) / len(self.drafts) * (RIGHT - LEFT)

    def is_joined(self, index: int) -> bool:
        """Return whether a draft came of an earlier one; samples side by side did not."""
        return index > 0 and (self.is_whole or self.drafts[index].parent is not None)


def charts_in(story: Story) -> Iterator[Chart]:
    """Yield the chart of the outermost search, and of every other one with several drafts."""
    judged = {it.path: it for _, it in story.of(IterationCompleted)}
    kept = {search_of(it.path): it.best.path for it in judged.values()}
    strategy = story.request.strategy
    own, has_parts = dict(strategy.thresholds()), any(True for _ in strategy.titles())
    best, result = story.best(), story.snapshot.result
    grouped: dict[str, list[Iteration]] = {}
    for it in story.iterations:
        grouped.setdefault(search_of(it.path), []).append(it)
    for search in sorted(grouped, key=bool):
        drafts = grouped[search]
        if search and len(drafts) == 1:
            continue
        is_of_result = best is not None and search_of(best.path) == search
        yield Chart(
            search,
            tuple(drafts),
            tuple(_threshold(search, judged.get(it.path), own) for it in drafts),
            best.path if best is not None and is_of_result else kept.get(search),
            result.estimate if result is not None and is_of_result else None,
            is_whole=not search and has_parts,
        )


def _threshold(
    search: str, judged: IterationCompleted | None, own: dict[str, float]
) -> float | None:
    """Return the threshold at a draft; None in a search further within, which may have its own."""
    if judged is None or search.count("/") > 1:
        return None
    return own.get(search, judged.limits.threshold)


def _band(estimate: QualityEstimate) -> tuple[float, float]:
    return max(0.0, estimate.value - estimate.error), min(1.0, estimate.value + estimate.error)


def scores(story: Story) -> str:
    """Return every chart as lines of text; a page shows the picture in their place."""
    charts = [*charts_in(story)]
    shown = (_section(it) for it in charts[:MOST_CHARTS])
    left = len(charts) - MOST_CHARTS
    more = f"The scores of {left} further stages, passes and parts are in Iterations."
    return under("## Scores", *shown, more if left > 0 else "")


def _section(it: Chart) -> str:
    return joined((f"### {path(it.search)}" if it.search else "", fenced(_text(it), "chart")))


def _text(it: Chart) -> str:
    """Return one line for the score and one for each criterion, then the threshold and the best."""
    lines = [("score", it.scores), *((_label(name), of) for name, of in it.criteria.items())]
    width = max(len(name) for name, _ in lines)
    drawn = [f"{name:<{width}}  {_bars(it, of)}  {_from_to(of)}" for name, of in lines]
    return "\n".join((*drawn, *(text for _, text in _marks(it))))


def _bars(chart: Chart, values: Values) -> str:
    low, high, _ = chart.axis
    steps = ((it * 10 - low) / (high - low) * 7.999 for it in values if it is not None)
    return "".join(UNKNOWN if it is None else BARS[int(next(steps))] for it in values)


def _from_to(values: Values) -> str:
    known = [it for it in values if it is not None]
    if not known:
        return wording.NOT_MEASURED
    first, last = wording.score(known[0]), wording.score(known[-1])
    return first if len(values) == 1 else f"{first} to {last}"


def _label(name: str) -> str:
    line = on_one_line(name)
    return line if len(line) <= NAME else f"{line[:NAME].rstrip()}…"


def _marks(it: Chart) -> Iterator[tuple[str, str]]:
    """Yield what else is drawn, as the kind and in words: threshold, best draft, estimate."""
    known = dict.fromkeys(wording.score(of) for of in it.thresholds if of is not None)
    if known:
        yield "threshold", f"threshold {', then '.join(known)}"
    best = _best(it)
    if best is not None:
        yield "best", f"best draft {it.drafts[best].path}: {wording.score(it.scores[best])}"
    if it.estimate is not None:
        value, error = wording.score(it.estimate.value), wording.score(it.estimate.error)
        yield "estimate", f"estimated quality {value}, standard error {error}"


def _best(it: Chart) -> int | None:
    return next((n for n, of in enumerate(it.drafts) if of.path == it.best), None)


def pictures(story: Story) -> Iterator[str]:
    """Yield the HTML of every chart that `scores` has as text, in the same order."""
    for number, it in zip(range(MOST_CHARTS), charts_in(story), strict=False):
        yield _figure(it, f"chart-{number}")


def _figure(it: Chart, name: str) -> str:
    count = wording.counted(len(it.drafts), "draft")
    title = f"Scores of {count}" + (f" at {it.search}" if it.search else "")
    dense = " dense" if len(it.drafts) > DENSE else ""
    told = "; ".join((f"score {_from_to(it.scores)}", *(text for _, text in _marks(it))))
    return (
        f'<figure><svg class="chart{dense}" viewBox="0 0 400 220" role="img"'
        f' aria-labelledby="{name}-title {name}-told">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-told">{escape(told)}. A table with all figures follows.</desc>\n'
        f"{''.join(_drawn(it))}</svg>\n"
        f"<figcaption><ul>{''.join(_legend(it))}</ul></figcaption>\n"
        f'<details class="aside"><summary>The figures of this chart</summary>\n{_table(it)}'
        "</details></figure>\n"
    )


def _drawn(it: Chart) -> Iterator[str]:
    yield from _grid(it)
    yield _line(it, it.thresholds, "threshold", is_level=True)
    for number, values in enumerate(it.criteria.values()):
        yield _line(it, values, f"criterion {_style(number)}")
    yield _line(it, it.scores, "score")
    best = _best(it)
    if best is None or (value := it.scores[best]) is None:
        return
    x = it.x(best)
    yield f'<circle class="best" cx="{x:.1f}" cy="{it.y(value):.1f}" r="6"/>\n'
    if it.estimate is not None:
        low, high = map(it.y, _band(it.estimate))
        middle = it.y(it.estimate.value)
        ends = "".join(f"M{x - 4:.1f} {y:.1f}h8" for y in (low, middle, high))
        yield f'<path class="estimate" d="M{x:.1f} {low:.1f}V{high:.1f}{ends}"/>\n'


def _grid(it: Chart) -> Iterator[str]:
    low, high, step = it.axis
    for tenth in range(low, high + 1, step):
        y = it.y(tenth / 10)
        yield f'<path class="grid" d="M{LEFT:g} {y:.1f}H{RIGHT:g}"/>'
        yield f'<text x="{LEFT - 5:g}" y="{y + 4:.1f}" class="end">{tenth / 10:.1f}</text>\n'
    every = ceil(len(it.drafts) / 10)
    for index in range(0, len(it.drafts), every):
        x = it.x(index)
        yield f'<text x="{x:.1f}" y="{BOTTOM + 16:g}">{it.drafts[index].iteration}</text>\n'
    if it.thresholds[-1] is not None:
        y = it.y(it.thresholds[-1]) + 4
        yield f'<text x="{RIGHT + 3:g}" y="{y:.1f}" class="start">{it.thresholds[-1]:g}</text>\n'


def _line(it: Chart, values: Values, kind: str, *, is_level: bool = False) -> str:
    """Return the line of one series and its points; a level is drawn from side to side."""
    known = [(n, it.y(value)) for n, value in enumerate(values) if value is not None]
    if is_level:
        half = 0.5
        parts = [f"M{it.x(n - half):.1f} {y:.1f}H{it.x(n + half):.1f}" for n, y in known]
        return f'<path class="{kind}" d="{"".join(parts)}"/>\n' if parts else ""
    before = [None, *(n for n, _ in known)]
    joints = "".join(
        f"{'L' if last == n - 1 and it.is_joined(n) else 'M'}{it.x(n):.1f} {y:.1f}"
        for last, (n, y) in zip(before, known, strict=False)
    )
    points = "".join(f"M{it.x(n):.1f} {y:.1f}h0" for n, y in known)
    return f'<path class="{kind}" d="{joints}"/><path class="{kind} points" d="{points}"/>\n'


def _style(number: int) -> str:
    """Return the classes of a criterion's line: 8 colours, each with 4 patterns."""
    return f"c{number % COLOURS} d{(number + number // COLOURS) % 4}"


def _legend(it: Chart) -> Iterator[str]:
    criteria = ((f"criterion {_style(n)}", _label(name)) for n, name in enumerate(it.criteria))
    for kind, text in (("score", "score"), *criteria, *_marks(it)):
        sample = (
            f'<circle class="{kind}" cx="12" cy="6" r="5"/>'
            if kind == "best"
            else f'<path class="{kind}" d="M0 6H24"/>'
        )
        yield (
            '<li><svg class="sample" viewBox="0 0 24 12" aria-hidden="true">'
            f"{sample}</svg>{escape(text)}</li>"
        )


def _table(it: Chart) -> str:
    head = ("draft", "score", *map(_label, it.criteria))
    columns = (it.scores, *it.criteria.values())
    rows = (
        (of.path, *map(wording.score, values))
        for of, *values in zip(it.drafts, *columns, strict=True)
    )
    cells = (f"<tr>{_cells('td', row)}</tr>\n" for row in rows)
    return (
        '<div class="wide" tabindex="0" role="group" aria-label="Figures"><table>\n'
        f"<thead><tr>{_cells('th', head)}</tr></thead>\n"
        f"<tbody>\n{''.join(cells)}</tbody></table></div>\n"
    )


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(it)}</{tag}>" for it in texts)
