"""The chart of a report: the scores of one search over its drafts, as lines of text.

Scores compare only within one search, so every search has a chart of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor

from app.contract.events import IterationCompleted
from app.contract.judgement import QualityEstimate
from app.contract.snapshot import Iteration
from app.contract.statistics import search_of
from app.legible import on_one_line
from app.service.report import wording
from app.service.report.story import Story

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
        return tuple(draft.score for draft in self.drafts)

    @cached_property
    def criteria(self) -> dict[str, Values]:
        """The scores of every draft by criterion; none if there is but one, the score itself."""
        by_draft = [{of.criterion: of.score for of in draft.scores} for draft in self.drafts]
        names = dict.fromkeys(name for scores in by_draft for name in scores)
        found = {name: tuple(scores.get(name) for scores in by_draft) for name in names}
        return {} if [*found.values()] == [self.scores] else found

    @cached_property
    def axis(self) -> tuple[int, int]:
        """The lowest and the highest tenth that are drawn; both even if they are far apart."""
        lines = (self.scores, self.thresholds, *self.criteria.values())
        shown = [value for line in lines for value in line if value is not None]
        if self.estimate is not None:
            value, error = self.estimate.value, self.estimate.error
            shown += max(0.0, value - error), min(1.0, value + error)
        low, high = floor(min(shown, default=0) * 10), ceil(max(shown, default=1) * 10)
        low, high = max(0, min(low, high - 1)), min(10, max(high, low + 1))
        return (low, high) if high - low <= 5 else (low - low % 2, high + high % 2)

    @property
    def text(self) -> str:
        """A line for the score and one for each criterion, then what else is known, in words."""
        criteria = ((_label(name), scores) for name, scores in self.criteria.items())
        lines = [("score", self.scores), *criteria]
        width = max(len(name) for name, _ in lines)
        drawn = [f"{name:<{width}}  {self._bars(of)}  {_from_to(of)}" for name, of in lines]
        return "\n".join((*drawn, *self._marks()))

    def _bars(self, values: Values) -> str:
        low, high = self.axis
        return "".join(
            UNKNOWN if value is None else BARS[int((value * 10 - low) / (high - low) * 7.999)]
            for value in values
        )

    def _marks(self) -> Iterator[str]:
        known = dict.fromkeys(wording.score(at) for at in self.thresholds if at is not None)
        if known:
            yield f"threshold {', then '.join(known)}"
        best = next((draft for draft in self.drafts if draft.path == self.best), None)
        if best is not None:
            yield f"best draft {best.path}: {wording.score(best.score)}"
        if self.estimate is not None:
            value, error = wording.score(self.estimate.value), wording.score(self.estimate.error)
            yield f"estimated quality {value}, standard error {error}"


def charts_in(story: Story) -> Iterator[Chart]:
    """Yield the chart of the outermost search, and of every other one with several drafts."""
    judged = {done.path: done for _, done in story.of(IterationCompleted)}
    kept = {search_of(done.path): done.best.path for done in judged.values()}
    own = dict(story.request.strategy.thresholds())
    best, result = story.best(), story.snapshot.result
    grouped: dict[str, list[Iteration]] = {}
    for draft in story.iterations:
        grouped.setdefault(search_of(draft.path), []).append(draft)
    for search in sorted(grouped, key=bool):
        drafts = grouped[search]
        if search and len(drafts) == 1:
            continue
        is_of_result = best is not None and search_of(best.path) == search
        yield Chart(
            search,
            tuple(drafts),
            tuple(_threshold(search, judged.get(draft.path), own) for draft in drafts),
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


def _from_to(values: Values) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return wording.NOT_MEASURED
    first, last = wording.score(known[0]), wording.score(known[-1])
    return first if len(values) == 1 else f"{first} to {last}"


def _label(name: str) -> str:
    line = on_one_line(name)
    return line if len(line) <= NAME else f"{line[:NAME].rstrip()}…"
