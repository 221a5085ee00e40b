"""Markdown (CommonMark with GitHub's tables) in which markup in texts of clients is escaped.

Every text of a client, a model or a tool goes through `plain`, `path` or `fenced`. The rest of a
report is text of this server.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TypeVar

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


def escaped(text: str, most: int = LONGEST) -> str:
    """Return a text on one line, with all markup of Markdown escaped."""
    line = on_one_line(truncated(text, most))
    marked = _MARKUP.sub(lambda found: f"\\{found[0]}", line)
    return _START.sub(lambda it: f"{it[0]}\\" if it[0].isdigit() else f"\\{it[0]}", marked)


def path(name: str) -> str:
    """Return a path or key as code; with other characters than those of paths, as plain text."""
    return f"`{name}`" if _PATH.fullmatch(name) and name.strip() == name else escaped(name)


def code_block(text: str, language: str = "text") -> str:
    """Return a text as a code block, with its lines unchanged, in a fence that it cannot close."""
    text = legible(text.replace("\r\n", "\n").replace("\r", "\n"))
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already; an empty one is shown as a dash.

    Rows after the first 500 are counted only.
    """
    shown, left = _first(rows, ROWS)
    lines = [_row(head), "|" + " --- |" * len(head), *map(_row, shown)]
    return "\n".join(lines) + (f"\n\n{left:,} further rows are not shown." if left else "")


def bullet_list(items: Iterable[str], most: int = ROWS) -> str:
    """Return items that are Markdown already as a list; those after `most` are counted only."""
    shown, left = _first(items, most)
    more = [f"{left:,} further ones are not shown."] if left else []
    return "\n".join(f"- {item}" for item in (*shown, *more))


def joined_blocks(blocks: Iterable[str]) -> str:
    """Return blocks one after another; empty ones are left out."""
    return "\n\n".join(block for block in blocks if block)


def under(heading: str, *blocks: str) -> str:
    """Return blocks below a heading, and nothing at all when every one of them is empty."""
    content = joined_blocks(blocks)
    return f"{heading}\n\n{content}" if content else ""


def truncated(text: str, most: int = LONGEST) -> str:
    """Return a text, or its beginning and the number of omitted characters."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]} … ({left:,} more characters)"


def _first(items: Iterable[Item], most: int) -> tuple[list[Item], int]:
    """Return the items that are shown, and the number of the others."""
    rest = iter(items)
    return [*islice(rest, most)], sum(1 for _ in rest)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell or NOTHING for cell in cells) + " |"
