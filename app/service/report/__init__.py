"""The report of one refinement for people: `report.md.jinja` has its text and its order."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from pydantic import BaseModel

from app.contract.editor import EDITOR
from app.contract.events import EventData, IterationCompleted, unvoided
from app.contract.judgement import AUTO, Usage
from app.contract.limits import Limits
from app.contract.ratings import Rated
from app.contract.reviews import ApprovalGiven, Paused, Reviewed
from app.contract.statistics import DraftGain, Gains, gains_of, iteration_of, lost_from
from app.contract.status import ended_by
from app.contract.strategies import STRATEGIES
from app.contract.waiting import REFUSALS
from app.service.iterations import diff_of
from app.service.report import wording
from app.service.report.chart import charts_in
from app.service.report.markdown import (
    bullet_list,
    code_block,
    escaped,
    finalized,
    path,
    table,
    truncated,
)
from app.service.report.story import Story, as_json, name_of, parts_in, story_of

__all__ = ["Story", "gains_in", "markdown_of", "story_of"]

OF_ENDPOINTS = {"url", "headers", "secret"}
"""Settings of a validator that the report leaves out."""


KEPT, NOT_KEPT = "drafts that went into the result", "drafts without gain: not kept"
FIRST, ELSE = "drafts that are not compared, such as first ones", "everything else"


@dataclass(frozen=True, slots=True)
class Group:
    """Drafts that have a search or a writer in common, and their gain together."""

    name: str
    drafts: Sequence[DraftGain]
    gain: float

    @property
    def usage(self) -> Usage:
        """The usage of all drafts together."""
        return sum((draft.usage for draft in self.drafts), Usage())


@dataclass(frozen=True, slots=True)
class GainsShown:
    """The gains of a story, by draft, search, criterion and model."""

    story: Story
    found: Gains

    @property
    def is_noisy(self) -> bool:
        """Whether a critic other than the editor, whose scores are exact, may have judged."""
        critics = [draft.critics for draft in self.found.drafts]
        return any(critic != EDITOR for of_draft in critics for critic in of_draft)

    @property
    def widest_spread(self) -> float:
        """The largest difference between judgements of one draft on one criterion."""
        scores = (score for draft in self.story.iterations for score in draft.scores)
        return max((score.spread or 0.0 for score in scores), default=0.0)

    def by_draft(self) -> list[DraftGain]:
        """Return the drafts, those that were kept and that changed most first."""
        drafts = self.found.drafts
        return sorted(drafts, key=lambda draft: (draft.is_kept, draft.change), reverse=True)

    def by_search(self) -> list[Group]:
        """Return the drafts by pass, stage or part; nothing if there are none of these."""
        groups = _grouped(self.found.drafts, lambda draft: draft.search, sum)
        return groups if any(group.name for group in groups) else []

    def by_model(self) -> list[Group]:
        """Return the drafts by the model that wrote them; nothing if one wrote them all."""
        written = [draft for draft in self.found.drafts if draft.writer is not None]
        groups = _grouped(written, lambda draft: draft.writer or "", _mean)
        return groups if len(groups) > 1 else []

    def by_criterion(self) -> list[tuple[float, str, float, float]]:
        """Return gain, name, first and final score of every criterion, if there are several."""
        start, final = self.found.start, self.found.final
        if self.found.change is None or start is None or final is None or start is final:
            return []
        before = {score.criterion: score.score for score in start.scores}
        gains = [
            (score.score - first, score.criterion, first, score.score)
            for score in final.scores
            if score.score is not None and (first := before[score.criterion]) is not None
        ]
        ordered = sorted(gains, key=lambda gain: gain[0], reverse=True)
        return ordered if len(before) > 1 else []

    def spent(self) -> list[tuple[str, Usage]]:
        """Return what kept drafts, other drafts and everything else consumed."""
        kinds = {draft.path: KEPT if draft.is_kept else NOT_KEPT for draft in self.found.drafts}
        usages = {KEPT: Usage(), NOT_KEPT: Usage(), FIRST: Usage(), ELSE: Usage()}
        for step in self.story.steps():
            at = iteration_of(step.key)
            usages[ELSE if at is None else kinds.get(at, FIRST)] += step.usage
        return [(kind, usage) for kind, usage in usages.items() if usage != Usage()]


def gains_in(story: Story) -> Gains:
    """Return the gains of a refinement so far."""
    result = story.snapshot.result
    counting = (event.data for event in unvoided(story.events))
    return gains_of(
        [data for data in counting if isinstance(data, IterationCompleted)],
        [*story.steps()],
        result.path if result else None,
        lost_from(result),
    )


def _grouped(
    drafts: Iterable[DraftGain],
    name_of: Callable[[DraftGain], str],
    of_all: Callable[[Sequence[float]], float],
) -> list[Group]:
    """Return the drafts by name, those with the largest gain first."""
    named: dict[str, list[DraftGain]] = {}
    for draft in drafts:
        named.setdefault(name_of(draft), []).append(draft)
    groups = (
        Group(name, found, of_all([draft.gain for draft in found])) for name, found in named.items()
    )
    return sorted(groups, key=lambda group: group.gain, reverse=True)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def markdown_of(story: Story) -> str:
    """Return the report in CommonMark with tables; markup in texts of clients is escaped."""
    queued = story.queued
    text = _template().render(
        story=story,
        snapshot=story.snapshot,
        request=story.request,
        queued=queued,
        drafts=story.iterations,
        best=story.best(),
        gains=GainsShown(story, gains_in(story)),
        charts=[*charts_in(story)],
        parts=[*parts_in(story)],
        steps=[*story.steps()],
        plans=[*story.plans_and_tools()],
        draws=queued.draws if queued.draw is None else {"generator": queued.draw, **queued.draws},
        pauses=story.of(Paused),
        approvals=story.of(ApprovalGiven),
        decisions={made.key: (at, made) for at, made in story.of(Reviewed)},
        ratings=story.of(Rated),
        judges_criteria=STRATEGIES[story.snapshot.strategy].judges_criteria,
    )
    return f"{text.rstrip()}\n"


def settings(given: BaseModel) -> str:
    """Return the settings of a validator or strategy that are no defaults, as JSON."""
    left_out = {"kind", "on_fail", *OF_ENDPOINTS}
    own = given.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=left_out)
    return as_json(own) if own else ""


def kind_of(data: EventData) -> str:
    """Return the name of the class of an event's data."""
    return type(data).__name__


def changes(before: Limits, after: Limits) -> str:
    """Return the limits that differ, with both values."""
    found = (
        f"{label} from {wording.figure(old)} to {wording.figure(new)}"
        for name, label in wording.LIMITS.items()
        if (old := getattr(before, name)) != (new := getattr(after, name))
    )
    return ", ".join(found) or "no value differs"


def _as_markdown(words: Callable[..., str]) -> Callable[..., Markup]:
    """Return a function whose texts are this server's own and need no escape."""
    return lambda *values: Markup(words(*values))


@cache
def _template() -> Template:
    """Return the template of a report; compiling it is left to who asks for the first one."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {words.__name__: _as_markdown(words) for words in wording.FORMATS}
    markup: tuple[Callable[..., str], ...] = (code_block, escaped, path, truncated)
    values: tuple[Callable[..., str], ...] = (as_json, kind_of, name_of, settings)
    environment.filters |= {function.__name__: function for function in (*markup, *values)}
    makers: tuple[Callable[..., Any], ...] = (bullet_list, changes, diff_of, ended_by, table)
    environment.globals |= {function.__name__: function for function in makers}
    environment.globals |= {"wording": wording, "AUTO": AUTO, "REFUSALS": REFUSALS}
    return environment.get_template("report.md.jinja")
