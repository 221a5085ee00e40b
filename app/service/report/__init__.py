"""The report of one refinement for people, as Markdown."""

from app.service.report.chart import scores
from app.service.report.gains import gains
from app.service.report.markdown import joined, path
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

__all__ = ["Story", "markdown_of", "story_of"]


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
