"""Tables as GitHub reads them: a header, a row of dashes of the same width, and rows.

https://github.github.com/gfm/#tables-extension-
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, islice, pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.contract.validators import MarkdownValidator
from workers.validators.violation import Violation, shortened, violation_at

MarkdownFlaw = tuple[int, str, str]
"""Line (from 0), message, fix."""

PIPE = re.compile(r"(?<!\\)\|")
DASHES = re.compile(r"(?=[^|]*\|)\|?(?:[ \t]*:?-+:?[ \t]*\|)*+(?:[ \t]*:?-+:?[ \t]*)?")


def rows_of_other_widths(tokens: Sequence[Token], lines: Sequence[str]) -> Iterator[MarkdownFlaw]:
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


def tables_that_are_none(tokens: Sequence[Token]) -> Iterator[MarkdownFlaw]:
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


MAX_VIOLATIONS = 20
LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
ORNAMENT = " \t*_`#:"
EMPTY_LINK = re.compile(
    r"!?+\[[^\[\]\n]*+\]\(\s*+(?:<\s*>|#)?\s*+(?:\"[^\"\n]*\"\s*)?\)|(?<!!)\[\s*\]\([^()\s]*\)"
)


def check_markdown(validator: MarkdownValidator, draft: str) -> Iterator[Violation]:
    """Yield the headings that are missing, then the first places where the structure is broken.

    Structure is what CommonMark and GitHub's tables make of the draft.
    """
    page = _Page(draft)
    broken = chain(
        page.fences_without_end(), page.leaps(), page.broken_tables(), page.empty_links()
    )
    yield from page.missing(validator.headings)
    yield from islice(broken, MAX_VIOLATIONS)


class _Page:
    """A draft as its blocks; what is inside a line is read only where it is wanted."""

    def __init__(self, draft: str) -> None:
        self.draft = draft
        self.lines = LINE.findall(draft)
        self._starts = list(accumulate(map(len, self.lines), initial=0))
        self._tokens = _parser().parse(draft)

    def missing(self, wanted: Sequence[str]) -> Iterator[Violation]:
        there = {(level, _plain(text)) for _, level, text in self._headings()}
        texts = {text for _, text in there}
        for heading in wanted:
            level = len(heading) - len(heading.lstrip("#"))
            text = _plain(heading)
            if (level, text) not in there if level else text not in texts:
                at_level = f" at level {level}" if level and text in texts else ""
                yield Violation(
                    f"the heading {shortened(heading)!r} is missing{at_level}",
                    f"put in a section with the heading: {heading}",
                )

    def fences_without_end(self) -> Iterator[Violation]:
        for token in self._tokens:
            if token.type != "fence" or not token.map:
                continue
            first, end = token.map
            last = self.lines[end - 1].strip().lstrip("> \t")
            if end - first < 2 or set(last) != {token.markup[0]} or len(last) < len(token.markup):
                yield self._line(
                    first,
                    "a block of code begins and never ends",
                    f"close it with {token.markup} on a line of its own",
                )

    def leaps(self) -> Iterator[Violation]:
        for (_, before, _), (line, level, _) in pairwise(self._headings()):
            if level > before + 1:
                yield self._line(
                    line,
                    f"the level of headings leaps from {before} to {level}",
                    f"make it {'#' * (before + 1)}, or put in the level between",
                )

    def broken_tables(self) -> Iterator[Violation]:
        for line, message, fix in chain(
            rows_of_other_widths(self._tokens, self.lines), tables_that_are_none(self._tokens)
        ):
            yield self._line(line, message, fix)

    def empty_links(self) -> Iterator[Violation]:
        for token in self._tokens:
            if token.type != "inline" or not token.map or not EMPTY_LINK.search(token.content):
                continue
            start, end = (self._starts[line] for line in token.map)
            empty = _empty_links(token.content)
            for found in islice(EMPTY_LINK.finditer(self.draft, start, end), empty):
                yield violation_at(
                    self.draft,
                    found.start(),
                    "the link leads nowhere, or has no text,",
                    "give it a text and a destination, or remove it",
                    len(found[0]),
                )

    def _headings(self) -> Iterator[tuple[int, int, str]]:
        """Give line, level and text of every heading that stands in no list or quotation."""
        for token, content in pairwise(self._tokens):
            if token.type == "heading_open" and token.level == 0 and token.map:
                yield token.map[0], int(token.tag[1:]), content.content

    def _line(self, line: int, message: str, fix: str) -> Violation:
        return violation_at(
            self.draft, self._starts[line], message, fix, len(self.lines[line].rstrip("\r\n"))
        )


def _plain(heading: str) -> str:
    return " ".join(heading.strip(ORNAMENT).casefold().split())


def _empty_links(content: str) -> int:
    tokens: list[Token] = []
    parser = _parser()
    parser.inline.parse(content, parser, {}, tokens)
    links = [
        each.attrGet("href") in {"", "#"} or following.type == "link_close"
        for each, following in pairwise(tokens)
        if each.type == "link_open"
    ]
    images = [each.attrGet("src") == "" for each in tokens if each.type == "image"]
    return sum(links) + sum(images)


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table").disable("inline")
