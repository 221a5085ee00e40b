"""Tables as GitHub reads them: a header, a row of dashes of the same width, and rows.

https://github.github.com/gfm/#tables-extension-
"""

import re
from collections.abc import Iterator, Sequence

from markdown_it.token import Token

Flaw = tuple[int, str, str]
"""Line (from 0), message, fix."""

PIPE = re.compile(r"(?<!\\)\|")
DASHES = re.compile(r"(?=[^|]*\|)\|?(?:[ \t]*:?-+:?[ \t]*\|)*+(?:[ \t]*:?-+:?[ \t]*)?")


def rows_of_other_widths(tokens: Sequence[Token], lines: Sequence[str]) -> Iterator[Flaw]:
    """Yield every row whose cells are not as many as those of its header."""
    width = 0
    for token in tokens:
        if token.type == "thead_open":
            width = 0
        elif token.type == "th_open":
            width += 1
        elif token.type == "tr_open" and token.map and width:
            cells = _cells(lines[token.map[0]].lstrip("> \t"))
            if cells != width:
                yield (
                    token.map[0],
                    f"the row has {_counted(cells)} under a header of {width}",
                    f"give it {_counted(width)}; a | within a cell is written \\|",
                )


def tables_that_are_none(tokens: Sequence[Token]) -> Iterator[Flaw]:
    """Yield every paragraph that was meant to be a table."""
    for token in tokens:
        if token.type != "inline" or not token.map or "|" not in token.content:
            continue
        rows = [row.strip() for row in token.content.split("\n")]
        dashes = next((at for at, row in enumerate(rows) if DASHES.fullmatch(row)), None)
        first = token.map[0]
        if dashes:
            header, under = _cells(rows[dashes - 1]), _cells(rows[dashes])
            yield (
                first + dashes,
                f"the row of dashes has {_counted(under)} under a header of {header}",
                "give both rows the same number of cells",
            )
        elif dashes == 0 and len(rows) > 1:
            yield first, "the table has no header", "put a header row above the row of dashes"
        elif len(rows) > 1 and all(row.startswith("|") for row in rows):
            yield (
                first,
                "the table has no row of dashes under its header",
                f"put under the first row: |{' --- |' * _cells(rows[0])}",
            )


def _cells(row: str) -> int:
    row = row.strip()
    inner = row.removeprefix("|")
    return len(PIPE.findall(inner)) + (not re.search(r"(?<!\\)\|\Z", inner))


def _counted(cells: int) -> str:
    return f"{cells} cell{'' if cells == 1 else 's'}"
