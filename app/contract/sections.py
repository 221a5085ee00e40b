"""The sections of a text, by the blocks that a Markdown parser finds, and how they are joined."""

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice, pairwise

from markdown_it import MarkdownIt

from app.contract.drafts import BYTE_ORDER_MARK, locked_spans
from app.contract.judgement import Span
from app.contract.values import value

MOST_SECTIONS = 100
"""Sections of a text at most: neighbours share one where there would be more."""

MOST_LINES = 10_000
"""Lines of a text that is split. One that has more, of a few characters each, is one section: the
parser takes time in proportion to them, half a second for so many at worst."""

LONGEST_PART = 20_000
"""Characters of a part at most of a text that is too long for one prompt; the shortest part has
half of them, but for the last one and those next to locked passages."""

NEWLINE = re.compile(r"\r\n?|\n")
FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
BREAKS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?=#{1,6}[ \t]|\S[^\n]*\n(?:={3,}|-{3,}|\*{3,}|~{3,})[ \t\r]*$)",
        r"\n[ \t\r]*\n",
        r"\n",
        r"[.!?]\s|[\u3002\uff01\uff1f]",
        r"\s",
    )
)
"""Where parts may begin, in this order: at a heading, a paragraph, a line, a sentence, a word."""
MARKS = ("---", "+++")
"""What YAML and TOML stand between at the very beginning of a text."""

STANDING_ALONE = frozenset({"paragraph", "heading", "bullet_list", "ordered_list", "blockquote"})
"""Blocks that begin a section; code, tables, HTML and rules go with the block before them."""

LISTED = frozenset({"bullet_list", "ordered_list", "list_item"})
MARK = re.compile(r"\A(?:[-*+]|\d{1,9}[.)])[ \t]+")
"""Of an item in a list."""

PARSER = MarkdownIt("commonmark").enable("table").disable("reference")
"""Link definitions are paragraphs to it: they stay where they stand."""


@value(slots=True)
class Sections:
    """A text taken apart: `gaps[0] + texts[0] + gaps[1] + ... + gaps[-1]` is the text.

    The white space around sections is in the gaps, since a model's reply has none around it; so is
    front matter.
    """

    texts: tuple[str, ...]
    gaps: tuple[str, ...]

    def joined(self, texts: Sequence[str]) -> str:
        """Return the text with these sections; what did not change stays byte for byte.

        In a text whose lines end with CR LF those of a changed section do as well.
        """
        every = (*self.gaps, *self.texts)
        has_returns = any("\r" in text for text in every)
        ends = {found[0] for text in every * has_returns for found in NEWLINE.finditer(text)}
        is_crlf = ends == {"\r\n"}
        placed = [
            NEWLINE.sub("\r\n", new) if is_crlf and new != old else new
            for old, new in zip(self.texts, texts, strict=True)
        ]
        return "".join(gap + section for gap, section in zip(self.gaps, (*placed, ""), strict=True))


@value(slots=True)
class _Block:
    """A block at the top level of a text, or an item of a list there."""

    line: int
    kind: str
    level: int
    """The level of a heading; 0 for anything else."""


@lru_cache(maxsize=1)  # an estimate counts the sections of one draft several times
def split(text: str, most: int = MOST_SECTIONS, kept_whole: tuple[str, ...] = ()) -> Sections:
    """Split a text into at most `most` sections; joined they are the text, byte for byte.

    No section begins within a text that is `kept_whole`.

    They begin at the headings of the highest level that occurs twice, counting those above it, at
    list items, or at paragraphs: the first of these that yields two sections counts. A heading goes
    with what is under it. If none does, the text is one section.
    """
    lines = [0, *(newline.end() for newline in NEWLINE.finditer(text))]
    first = _after_front_matter(text, lines)
    body = text[lines[first] :].removeprefix(BYTE_ORDER_MARK)
    starts = [0] if len(lines) > MOST_LINES else _starts(body)
    whole = locked_spans(text, kept_whole)
    places = [lines[first + start] for start in starts]
    places[0] = 0 if _within(places[0], whole) else places[0]
    places = [place for place in places if not _within(place, whole)]
    size = -(-len(places) // most)
    return _cut(text, places[::size])


@lru_cache(maxsize=1)
def parts_of(text: str, kept_whole: tuple[str, ...] = ()) -> Sections:
    """Cut a long text into parts of at most `LONGEST_PART` characters, in time in proportion to it.

    A part ends where the next one may begin, as late as it can. No part begins within a text that
    is `kept_whole` or, if there is another place, within a fence of code.
    """
    head = [*islice(NEWLINE.finditer(text[:LONGEST_PART]), MOST_LINES)]
    lines = [0, *(newline.end() for newline in head)]
    first = SOMETHING.search(text, lines[_after_front_matter(text, lines)])
    whole = locked_spans(text, kept_whole)
    starts = [first.start() if first and not _within(first.start(), whole) else 0]
    while len(text) - starts[-1] > LONGEST_PART:
        end = _end_of_part(text, starts[-1], whole)
        following = SOMETHING.search(text, end)
        if following is None:
            break
        starts.append(following.start())
    return _cut(text, starts)


SOMETHING = re.compile(r"\S")


def _end_of_part(text: str, start: int, whole: Sequence[Span]) -> int:
    most = start + LONGEST_PART
    fences = [found.start() for found in FENCE.finditer(text, start, most)]
    for rank, breaks in enumerate(BREAKS):
        found = (each.end() for each in breaks.finditer(text, start + LONGEST_PART // 2, most))
        places = [
            place
            for place in found
            if (rank > 1 or bisect(fences, place) % 2 == 0) and not _within(place, whole)
        ]
        if places:
            return places[-1]
    kept = _within(most, whole)
    if kept is None:
        return most
    return kept.start if kept.start > start else kept.end


def _within(place: int, whole: Sequence[Span]) -> Span | None:
    return next((span for span in whole if span.start < place < span.end), None)


def items_of(outline: str) -> tuple[str, ...]:
    """Return the items of an outline, without the marks of a list and what is said around them.

    They are its sections if it has two headings, else the items of its lists, else its paragraphs.
    """
    texts = split(outline).texts
    if len(texts) == 1 and outline.count("\n") > MOST_LINES:
        return texts
    blocks = _blocks(outline)
    if sum(block.level > 0 for block in blocks) > 1:
        return texts if blocks[0].level else texts[1:]
    lines = [0, *(newline.end() for newline in NEWLINE.finditer(outline)), len(outline)]
    ends = [*(block.line for block in blocks[1:]), len(lines) - 1]
    items = [
        outline[lines[block.line] : lines[end]].strip()
        for block, end in zip(blocks, ends, strict=False)
        if block.kind in LISTED
    ]
    return tuple(MARK.sub("", item) for item in items) or texts


def _after_front_matter(text: str, lines: Sequence[int]) -> int:
    """Return the line after the front matter; 0 without any, or with nothing after it."""
    mark = text[: lines[1]].removeprefix(BYTE_ORDER_MARK).rstrip() if len(lines) > 2 else ""
    if mark not in MARKS or not text[lines[1] : lines[2]].strip():
        return 0
    for number, (start, end) in enumerate(pairwise(lines[1:]), 2):
        if text[start:end].rstrip() == mark:
            return number if text[end:].strip() else 0
    return 0


def _cut(text: str, starts: Sequence[int]) -> Sections:
    """Cut a text at these positions, and take the white space off each section."""
    texts, gaps = [], []
    gap = text[: starts[0]]
    for start, end in zip(starts, (*starts[1:], len(text)), strict=True):
        piece = text[start:end]
        bare = piece.strip() or piece
        before = piece.index(bare)
        texts.append(bare)
        gaps.append(gap + piece[:before])
        gap = piece[before + len(bare) :]
    return Sections(tuple(texts), (*gaps, gap))


def _starts(text: str) -> list[int]:
    """Return the lines at which sections begin; the first section has all that is before it too."""
    blocks = _blocks(text)
    for begins in _ways(blocks):
        starts = _with_their_headings(blocks, begins)
        if len(starts) > 1:
            return [0, *starts[1:]]
    return [0]


def _blocks(text: str) -> tuple[_Block, ...]:
    """Return the blocks in their order, one for a line: of a list and its first item, the list."""
    found: dict[int, _Block] = {}
    for token in PARSER.block.parse(NEWLINE.sub("\n", text), PARSER, {}, []) or []:
        kind = token.type.removesuffix("_open")
        if token.map is not None and (
            token.level == 0 or (token.level == 1 and kind == "list_item")
        ):
            level = int(token.tag[1]) if kind == "heading" else 0
            found.setdefault(token.map[0], _Block(token.map[0], kind, level))
    return tuple(found.values())


def _ways(blocks: Sequence[_Block]) -> Iterator[frozenset[int]]:
    """Yield the lines at which sections may begin, one way after the other."""
    for level in sorted({block.level for block in blocks if block.level}):
        headings = frozenset(block.line for block in blocks if 0 < block.level <= level)
        if len(headings) > 1:
            yield headings
    yield frozenset(block.line for block in blocks if block.level)
    yield frozenset(block.line for block in blocks if block.kind in {*STANDING_ALONE, "list_item"})


def _with_their_headings(blocks: Sequence[_Block], begins: frozenset[int]) -> list[int]:
    """Return the lines at which sections begin: none between a heading and what is under it."""
    starts: list[int] = []
    above = 0  # the level of the last heading, while the section has nothing but headings
    for block in blocks:
        is_under = above > 0 and (not block.level or block.level > above)
        is_start = not starts or (block.line in begins and not is_under)
        if is_start:
            starts.append(block.line)
        above = block.level if is_start or above else 0
    return starts
