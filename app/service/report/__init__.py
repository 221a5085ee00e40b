"""The report of one refinement for people: `report.md.jinja` has its text and its order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pydantic import BaseModel

from app.contract.events import EventData
from app.contract.judgement import AUTO
from app.contract.limits import Limits
from app.contract.outcome import ended_by
from app.contract.ratings import Rated
from app.contract.reviews import ApprovalGiven, Paused, Reviewed
from app.contract.strategies import STRATEGIES
from app.contract.waiting import REFUSALS
from app.service.iterations import diff_of
from app.service.report import wording
from app.service.report.chart import charts_in
from app.service.report.gains import GainsShown, gains_in
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

__all__ = ["Story", "markdown_of", "story_of"]

OF_ENDPOINTS = {"url", "headers", "secret"}
"""Settings of a validator that the report leaves out."""


def markdown_of(story: Story) -> str:
    """Return the report in CommonMark with tables; markup in texts of clients is escaped."""
    queued = story.queued
    text = TEMPLATE.render(
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


def _template_environment() -> Environment:
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
    return environment


TEMPLATE = _template_environment().get_template("report.md.jinja")
