"""The whole story of one refinement for a person, as Markdown or as a page."""

from typing import Literal

from app.service.report.markdown import joined, path
from app.service.report.page import page_of
from app.service.report.sections import asked, course, difference, ending, iterations, result, steps
from app.service.report.story import Story, story_of

ReportFormat = Literal["md", "html"]

__all__ = ["ReportFormat", "Story", "markdown_of", "report_of", "story_of"]


def report_of(story: Story, format_: ReportFormat) -> str:
    """Return the report; a page is made of the Markdown and holds everything it needs."""
    markdown = markdown_of(story)
    return markdown if format_ == "md" else page_of(markdown, f"Refinement {story.snapshot.id}")


def markdown_of(story: Story) -> str:
    """Return the report in CommonMark with tables, in which no client's text is markup."""
    sections = (
        f"# Refinement {path(story.snapshot.id)}",
        ending(story),
        result(story),
        asked(story),
        difference(story),
        iterations(story),
        course(story),
        steps(story),
    )
    return f"{joined(sections)}\n"
