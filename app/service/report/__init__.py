"""The report of one refinement for people: as Markdown, or as a self-contained HTML page."""

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any, Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.service.report.gains import gains
from app.service.report.markdown import joined, path
from app.service.report.parts import parts
from app.service.report.sections import (
    Story,
    asked,
    course,
    difference,
    ending,
    iterations,
    result,
    steps,
    story_of,
)

ReportFormat = Literal["md", "html"]

__all__ = ["ReportFormat", "Story", "markdown_of", "report_of", "story_of"]


def report_of(story: Story, format_: ReportFormat) -> str:
    """Return the report; the HTML page is made from the Markdown and is self-contained."""
    markdown = markdown_of(story)
    return markdown if format_ == "md" else page_of(markdown, f"Refinement {story.snapshot.id}")


def markdown_of(story: Story) -> str:
    """Return the report in CommonMark with tables; markup in texts of clients is escaped."""
    sections = (
        f"# Refinement {path(story.snapshot.id)}",
        ending(story),
        result(story),
        asked(story),
        parts(story),
        gains(story),
        difference(story),
        iterations(story),
        course(story),
        steps(story),
    )
    return f"{joined(sections)}\n"


UNUSED = ("link", "image", "autolink", "html_inline", "html_block", "reference", "lheading")
"""Rules that a report never needs: it contains no links and no HTML."""

MARKS = {"+": "ins", "-": "del", "@": "at"}

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
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


def page_of(markdown: str, title: str) -> str:
    """Return the page; HTML in the Markdown is shown as text, and nothing in it is a link."""
    return PAGE.format(title=escape(title), style=_style(), body=_reader().render(markdown))


@cache
def _style() -> str:
    return (resources.files(__package__) / "page.css").read_text("utf-8")


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table")
    reader.disable(list(UNUSED))
    reader.add_render_rule("fence", _fence)
    reader.add_render_rule("table_open", _table_open)
    reader.add_render_rule("table_close", _table_close)
    return reader


def _fence(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    token = tokens[index]
    if token.info != "diff":
        return f"<pre><code>{escape(token.content)}</code></pre>\n"
    lines = token.content.removesuffix("\n").split("\n")
    shown = "".join(_changed(number, f"{line}\n") for number, line in enumerate(lines))
    return f"<pre><code>{shown}</code></pre>\n"


def _changed(number: int, line: str) -> str:
    """Mark an added, removed or position line of a diff; the first two lines name the texts."""
    kind = "at" if number < 2 else MARKS.get(line[:1])
    text = escape(line)
    return f'<span class="{kind}">{text}</span>' if kind else text


def _table_open(_self: Any, _tokens: Any, _index: int, _options: Any, _env: Any) -> str:
    return '<div class="wide"><table>\n'


def _table_close(_self: Any, _tokens: Any, _index: int, _options: Any, _env: Any) -> str:
    return "</table></div>\n"
