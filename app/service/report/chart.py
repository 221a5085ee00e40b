"""The chart of a report: the scores of one search over its drafts, as lines of text.

Scores compare only within one search, so every search has a chart of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor

from app.contract.events import IterationCompleted
from app.contract.gains import search_of
from app.contract.judgement import QualityEstimate
from app.contract.snapshot import Iteration
from app.legible import on_one_line
from app.service.report import wording
from app.service.report.markdown import code_block, joined_blocks, path, under
from app.service.report.sections import Story

MOST_CHARTS = 25
NAME = 30
"""Characters of a criterion's name that are shown beside its line."""

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


def charts_in(story: Story) -> Iterator[Chart]:
    """Yield the chart of the outermost search, and of every other one with several drafts."""
    judged = {it.path: it for _, it in story.of(IterationCompleted)}
    kept = {search_of(it.path): it.best.path for it in judged.values()}
    strategy = story.request.strategy
    own = dict(strategy.thresholds())
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
    """Return every chart as lines of text."""
    charts = [*charts_in(story)]
    shown = (_section(it) for it in charts[:MOST_CHARTS])
    left = len(charts) - MOST_CHARTS
    more = f"The scores of {left} further stages, passes and parts are in Iterations."
    return under("## Scores", *shown, more if left > 0 else "")


def _section(it: Chart) -> str:
    return joined_blocks(
        (f"### {path(it.search)}" if it.search else "", code_block(_text(it), "chart"))
    )


def _text(it: Chart) -> str:
    """Return one line for the score and one for each criterion, then the threshold and the best."""
    lines = [("score", it.scores), *((_label(name), of) for name, of in it.criteria.items())]
    width = max(len(name) for name, _ in lines)
    drawn = [f"{name:<{width}}  {_bars(it, of)}  {_from_to(of)}" for name, of in lines]
    return "\n".join((*drawn, *_marks(it)))


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


def _marks(it: Chart) -> Iterator[str]:
    """Yield what else is known, in words: threshold, best draft, estimate."""
    known = dict.fromkeys(wording.score(of) for of in it.thresholds if of is not None)
    if known:
        yield f"threshold {', then '.join(known)}"
    best = _best(it)
    if best is not None:
        yield f"best draft {it.drafts[best].path}: {wording.score(it.scores[best])}"
    if it.estimate is not None:
        value, error = wording.score(it.estimate.value), wording.score(it.estimate.error)
        yield f"estimated quality {value}, standard error {error}"


def _best(it: Chart) -> int | None:
    return next((n for n, of in enumerate(it.drafts) if of.path == it.best), None)
