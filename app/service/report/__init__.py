"""The report of one refinement for people: as Markdown, or as a self-contained HTML page."""

from typing import Literal

from app.service.report.chart import pictures, scores
from app.service.report.gains import gains
from app.service.report.markdown import joined, path
from app.service.report.page import page_of
from app.service.report.parts import parts
from app.service.report.sections import (
    Story,
    asked,
    course,
    difference,
    ending,
    facts,
    iterations,
    left_out,
    result,
    steps,
    story_of,
)

ReportFormat = Literal["md", "html"]

__all__ = ["ReportFormat", "Story", "markdown_of", "report_of", "story_of"]


def report_of(story: Story, format_: ReportFormat) -> str:
    """Return the report; the HTML page is made from the Markdown and is self-contained."""
    markdown = markdown_of(story)
    if format_ == "md":
        return markdown
    return page_of(markdown, f"Refinement {story.snapshot.id}", pictures(story))


def markdown_of(story: Story) -> str:
    """Return the report in CommonMark with tables; markup in texts of clients is escaped."""
    sections = (
        f"# Refinement {path(story.snapshot.id)}",
        ending(story),
        result(story),
        scores(story),
        facts(story),
        asked(story),
        parts(story),
        gains(story),
        difference(story),
        iterations(story),
        course(story),
        steps(story),
        left_out(story),
    )
    return f"{joined(sections)}\n"
