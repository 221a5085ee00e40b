"""The report of one refinement for people, as Markdown."""

from app.service.report.chart import scores
from app.service.report.gains import gains
from app.service.report.markdown import joined_blocks, path
from app.service.report.parts import parts
from app.service.report.sections import (
    Story,
    asked,
    course,
    difference,
    draft_table,
    ending,
    fact_table,
    left_out,
    result,
    step_table,
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
        fact_table(story),
        asked(story),
        parts(story),
        gains(story),
        difference(story),
        draft_table(story),
        course(story),
        step_table(story),
        left_out(story),
    )
    return f"{joined_blocks(sections)}\n"
