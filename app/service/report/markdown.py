"""Markdown (CommonMark with GitHub's tables) in which markup in texts of clients is escaped.

The template escapes every value but a `Markup`, which only the functions here return. The rest of
a report is text of this server.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

from markupsafe import Markup

from app.legible import legible, on_one_line

NOTHING = "\N{EN DASH}"
LONGEST = 2_000
"""Maximum characters of a text within a line, and of a quoted answer; the rest is cut off."""

ROWS = 500
"""Maximum rows of a table, and items of a list."""

Item = TypeVar("Item")

_MARKUP = re.compile(r"[\\`*_{}\[\]<>#|~&!$]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_START = re.compile(r"\A([-+=]|\d{1,9}(?=[.)]))")
_PATH = re.compile(r"[A-Za-z0-9_./ -]+")


def finalized(value: object) -> Markup:
    """Return a value of the template as Markdown: a text escaped, None as nothing."""
    if isinstance(value, Markup):
        return value
    return Markup("") if value is None else escaped(str(value))


def escaped(text: str) -> Markup:
    """Return a text on one line, with all markup of Markdown escaped."""
    line = on_one_line(truncated(text))
    marked = _MARKUP.sub(lambda sign: f"\\{sign[0]}", line)
    return Markup(
        _START.sub(lambda start: f"{start[0]}\\" if start[0].isdigit() else f"\\{start[0]}", marked)
    )


def path(name: str) -> Markup:
    """Return a path or key as code; with other characters than those of paths, as plain text."""
    is_path = _PATH.fullmatch(name) and name.strip() == name
    return Markup(f"`{name}`") if is_path else escaped(name)


def code_block(text: str, language: str = "text") -> Markup:
    """Return a text as a code block, with its lines unchanged, in a fence that it cannot close."""
    text = legible(text.replace("\r\n", "\n").replace("\r", "\n"))
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if not text or text.endswith("\n") else "\n"
    return Markup(f"{fence}{language}\n{text}{end}{fence}")


def table(
    head: Sequence[str],
    rows: Iterable[Item],
    caller: Callable[[Item], str],
    *,
    under: str = "",
) -> Markup:
    """Return a table below a heading, or nothing without rows.

    `caller` returns the cells of a row as Markdown, one a line; an empty one is shown as a dash.
    Rows after the first 500 are counted only.
    """
    shown, left = _first(rows, ROWS)
    cells = (str(caller(row)).removesuffix("\n").split("\n") for row in shown)
    lines = [_row(head), "|" + " --- |" * len(head), *map(_row, cells)]
    more = f"{left:,} further rows are not shown." if left else ""
    return _blocks(under, "\n".join(lines), more) if shown else Markup("")


def bullet_list(
    items: Iterable[Item],
    caller: Callable[[Item], str],
    *,
    under: str = "",
    most: int = ROWS,
) -> Markup:
    """Return a list below a heading, or nothing without items.

    `caller` returns an item as Markdown; those after `most` are counted only.
    """
    shown, left = _first(items, most)
    lines = [f"- {caller(item).strip()}" for item in shown]
    more = [f"- {left:,} further ones are not shown."] if left else []
    return _blocks(under, "\n".join((*lines, *more))) if shown else Markup("")


def _blocks(*blocks: str) -> Markup:
    return Markup("".join(f"{block}\n\n" for block in blocks if block))


def truncated(text: str, most: int = LONGEST) -> str:
    """Return a text, or its beginning and the number of omitted characters."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]} … ({left:,} more characters)"


def _first(items: Iterable[Item], most: int) -> tuple[list[Item], int]:
    """Return the items that are shown, and the number of the others."""
    rest = iter(items)
    return [*islice(rest, most)], sum(1 for _ in rest)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.strip() or NOTHING for cell in cells) + " |"
