"""The validators of document formats other than JSON: YAML, TOML, XML and Markdown."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, chain, islice, pairwise
from unicodedata import normalize
from xml.parsers import expat

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from yaml import CSafeLoader, events

from app.contract.drafts import BYTE_ORDER_MARK
from app.contract.validators.formats import (
    MarkdownValidator,
    TomlValidator,
    XmlValidator,
    YamlValidator,
)
from workers.text.edits import Edit
from workers.validators.violation import (
    HIDES_OTHERS,
    MAX_DEPTH,
    Body,
    Violation,
    abbreviated,
    offset_of,
    violation_at,
)

OWN_TAGS = "tag:yaml.org,2002:"
KNOWN_TAGS = frozenset({
    "binary", "bool", "float", "int", "map", "merge", "null", "omap", "pairs", "seq", "set", "str",
    "timestamp", "value",
})  # fmt: skip
YAML_FIX = "start over: answer with one YAML document and nothing else"


@dataclass
class _Collection:
    """A mapping or sequence that is open; a mapping's nodes are key and value in turn."""

    is_mapping: bool
    nodes: int = 0
    keys: set[tuple[str, str]] = field(default_factory=set)


def check_yaml(validator: YamlValidator, draft: str) -> Iterator[Violation]:
    """Yield the first syntax error, and before it what readers reject or read differently.

    The events of the parser are enough for that: nothing is constructed, so no alias is expanded.
    """
    body = Body(draft)
    try:
        for at, length, message, fix in _yaml_flaws(body.text):
            yield body.violation(at, f"the draft is not YAML: {message}", fix, length)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.problem, error.context) if part)
        message = f"the draft is not YAML: {abbreviated(said, 200)}"
        fix = "correct the syntax there; quote values with `: `, ` #` or a sign at the start"
        yield body.violation(mark.index if mark else 0, message, fix, weight=HIDES_OTHERS)
    except yaml.reader.ReaderError as error:
        message = f"the draft is not YAML: {error.reason}"
        at = body.text.find(chr(error.character))  # libyaml's position counts bytes
        yield body.violation(at, message, "remove it", weight=HIDES_OTHERS)


def _yaml_flaws(body: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield offset, length, message and fix of flaws that the syntax allows."""
    open_ones: list[_Collection] = []
    anchors: set[str] = set()
    is_empty = True
    for event in yaml.parse(body, Loader=CSafeLoader):
        if isinstance(event, events.DocumentStartEvent):
            anchors.clear()
        if isinstance(event, events.CollectionEndEvent):
            open_ones.pop()
        if not isinstance(event, events.NodeEvent):
            continue
        if isinstance(event, events.ScalarEvent) and not (open_ones or event.value):
            continue  # nothing between two marks of documents
        is_empty = False
        assert event.start_mark
        assert event.end_mark
        at, length = event.start_mark.index, event.end_mark.index - event.start_mark.index
        for message, fix in _node_flaws(event, open_ones, anchors):
            yield at, length, message, fix
        if isinstance(event, events.CollectionStartEvent):
            open_ones.append(_Collection(isinstance(event, events.MappingStartEvent)))
            if len(open_ones) > MAX_DEPTH:
                yield at, 1, f"it is nested more than {MAX_DEPTH} levels deep", "nest it less"
                return
    if is_empty:
        yield 0, 0, "it contains no document", YAML_FIX


def _node_flaws(
    event: events.NodeEvent, open_ones: list[_Collection], anchors: set[str]
) -> Iterator[tuple[str, str]]:
    tag = getattr(event, "tag", None) or ""
    if isinstance(event, events.AliasEvent):
        if event.anchor not in anchors:
            yield f"the alias *{event.anchor} has no anchor before it", "write the value out"
    elif event.anchor:
        anchors.add(event.anchor)
    if tag.startswith(OWN_TAGS) and tag.removeprefix(OWN_TAGS) not in KNOWN_TAGS:
        yield (
            f"safe readers do not support the tag !!{tag.removeprefix(OWN_TAGS)}",
            "remove the tag",
        )
    if open_ones:
        yield from _repeated_keys(event, open_ones[-1])
    elif isinstance(event, events.ScalarEvent):
        yield "expected a mapping or a sequence, got a single value", YAML_FIX


RESOLVER = yaml.resolver.Resolver()


def _repeated_keys(event: events.NodeEvent, inside: _Collection) -> Iterator[tuple[str, str]]:
    inside.nodes += 1
    if not (inside.is_mapping and inside.nodes % 2 and isinstance(event, events.ScalarEvent)):
        return
    tag: str = event.tag or RESOLVER.resolve(  # type: ignore[no-untyped-call]
        yaml.ScalarNode, event.value, event.implicit
    )
    key = (tag, event.value)
    # Several merge keys in one mapping are common, and harmless.
    if key in inside.keys and not tag.endswith(":merge"):
        yield (
            f"the mapping has the key {abbreviated(event.value)!r} twice",
            "keep one of the two, or rename one",
        )
    inside.keys.add(key)


PLACE = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)\Z")
TOML_FIX = "correct the syntax there; answer with one TOML document and nothing else"


def check_toml(validator: TomlValidator, draft: str) -> Iterator[Violation]:
    """Yield the first error (TOML 1.0), which may be a duplicate key or table."""
    body = Body(draft)
    try:
        tomllib.loads(body.text)
    except tomllib.TOMLDecodeError as error:
        # Only Python 3.14 and newer have the position as attributes too.
        said = str(error)
        place = PLACE.search(said)
        at = len(body.text)
        if place and place["line"]:
            at = offset_of(body.text, int(place["line"]), int(place["column"]))
        yield body.violation(at, f"the draft is not TOML: {PLACE.sub('', said)}", TOML_FIX)
    except RecursionError:
        yield Violation(
            f"the draft is not readable TOML: it is nested far more than {MAX_DEPTH} levels deep",
            "nest it less",
        )
    except ValueError:
        yield Violation(
            "the draft is not readable TOML: an integer has more than 4,300 digits",
            "write a smaller number, or a string",
        )
    else:
        if not body.text.strip():
            yield Violation("the draft is empty", TOML_FIX)


# A DTD ends the parse before it can declare anything, so there is no entity to expand or fetch.


XML_FIX = "correct the markup there; answer with one XML document and nothing else"


class _HasDtd(Exception):
    pass


def check_xml(validator: XmlValidator, draft: str) -> Iterator[Violation]:
    """Yield the first error (XML 1.0, Namespaces in XML 1.0); a DOCTYPE is an error too."""
    body = Body(draft)
    data = body.text.encode()
    # The declaration names the encoding of a file; a draft is text.
    parser = expat.ParserCreate("utf-8", namespace_separator=" ")
    parser.StartDoctypeDeclHandler = _refuse_dtd
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        at = len(data[: parser.ErrorByteIndex].decode(errors="ignore"))
        message = f"the draft is not well-formed XML: {expat.ErrorString(error.code)}"
        yield body.violation(at, message, XML_FIX)
    except _HasDtd:
        yield body.violation(
            body.text.find("<!DOCTYPE"),
            "the draft has a document type declaration, which could define entities",
            "remove the DOCTYPE; write characters out instead of entities",
            len("<!DOCTYPE"),
        )


def _refuse_dtd(*_declared: object) -> None:
    raise _HasDtd


MarkdownFlaw = tuple[int, str, str]
"""Line (from 0), message, fix."""

# GitHub defines tables: a header row, a delimiter row of the same width, and rows.
# https://github.github.com/gfm/#tables-extension-
PIPE = re.compile(r"(?<!\\)\|")
DASHES = re.compile(r"(?=[^|]*\|)(?=[^-]*-)\|?(?:[ \t]*:?-+:?[ \t]*\|)*+(?:[ \t]*:?-+:?[ \t]*)?")


def rows_of_other_widths(tokens: Sequence[Token], lines: Sequence[str]) -> Iterator[MarkdownFlaw]:
    """Yield every row that has more or fewer cells than its header."""
    for at, width in row_widths(tokens):
        cells = _cells(lines[at].lstrip("> \t"))
        if cells != width:
            yield (
                at,
                f"the row has {_counted(cells)} under a header of {width}",
                f"give it {_counted(width)}; a | within a cell is written \\|",
            )


def row_widths(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the line of every row under a header, and the number of the header's cells."""
    width = 0
    for token in tokens:
        if token.type == "thead_open":
            width = 0
        elif token.type == "th_open":
            width += 1
        elif token.type == "tr_open" and token.map and width:
            yield token.map[0], width


def tables_that_are_none(tokens: Sequence[Token]) -> Iterator[MarkdownFlaw]:
    """Yield every paragraph that looks like a table but is not valid as one."""
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
                f"the delimiter row has {_counted(under)} under a header of {header}",
                "give both rows the same number of cells",
            )
        elif dashes == 0 and len(rows) > 1:
            yield first, "the table has no header", "add a header row above the delimiter row"
        elif len(rows) > 1 and all(row.startswith("|") for row in rows):
            yield (
                first,
                "the table has no delimiter row under its header",
                f"add under the first row: |{' --- |' * _cells(rows[0])}",
            )


def _cells(row: str) -> int:
    row = row.strip()
    inner = row.removeprefix("|")
    return len(PIPE.findall(inner)) + (not re.search(r"(?<!\\)\|\Z", inner))


def _counted(cells: int) -> str:
    return f"{cells} cell{'' if cells == 1 else 's'}"


LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
ORNAMENT = " \t*_`#:"
SHOWN = ("text", "text_special", "code_inline")
EMPTY_LINK = re.compile(
    r"!?+\[[^\[\]\n]*+\]\(\s*+(?:<\s*>|#)?\s*+(?:\"[^\"\n]*\"\s*)?\)|(?<!!)\[\s*\]\([^()\s]*\)"
)


def check_markdown(validator: MarkdownValidator, draft: str) -> Iterator[Violation]:
    """Yield missing headings, then the places with an invalid structure.

    CommonMark with GitHub's tables defines the structure.
    """
    page = _Page(draft)
    yield from page.missing(validator.headings)
    yield from page.fences_without_end()
    yield from page.leaps()
    yield from page.broken_tables()
    yield from page.empty_links()


def fix_markdown(validator: MarkdownValidator, draft: str) -> Iterator[Edit]:
    """Yield the end of a code block that has none, and the cells that a table row lacks.

    A reader sees the same as before: both are what CommonMark and GitHub make of such a page.
    """
    page = _Page(draft)
    yield from page.ends_of_fences()
    yield from page.cells_that_lack()


class _Page:
    """A draft as blocks; inline content is parsed only where it is needed."""

    def __init__(self, draft: str) -> None:
        self.draft = draft
        self.lines = LINE.findall(draft)
        self._starts = list(accumulate(map(len, self.lines), initial=0))
        self._tokens = _parser().parse(draft.removeprefix(BYTE_ORDER_MARK))

    def missing(self, wanted: Sequence[str]) -> Iterator[Violation]:
        there = {(level, _plain(text)) for _, level, text in self._headings()}
        texts = {text for _, text in there}
        for heading in wanted:
            level = len(heading) - len(heading.lstrip("#"))
            text = _plain(heading)
            if (level, text) not in there if level else text not in texts:
                at_level = f" at level {level}" if level and text in texts else ""
                yield Violation(
                    f"the heading {abbreviated(heading)!r} is missing{at_level}",
                    f"add a section with the heading: {heading}",
                )

    def fences_without_end(self) -> Iterator[Violation]:
        for token in self._tokens:
            if token.type != "fence" or not token.map:
                continue
            if self._is_open(token):
                yield self._line(
                    token.map[0],
                    "the code block is never closed",
                    f"close it with {token.markup} on a line of its own",
                )

    def ends_of_fences(self) -> Iterator[Edit]:
        """Yield the closing line of the code block that runs to the end of the page."""
        for token in self._tokens:
            if token.type == "fence" and token.level == 0 and token.map and self._is_open(token):
                end = len(self.draft)
                line_end = "\r\n" if "\r\n" in self.draft else "\n"
                is_ended = self.draft.endswith("\n")
                yield Edit(end, end, token.markup if is_ended else line_end + token.markup)

    def cells_that_lack(self) -> Iterator[Edit]:
        """Yield empty cells for the rows that are shorter than their header."""
        for at, width in row_widths(self._tokens):
            row = self.lines[at].rstrip()
            cells = _cells(row.lstrip("> \t"))
            if cells < width:
                end = self._starts[at] + len(row)
                closing = 0 if re.search(r"(?<!\\)\|\Z", row) else 1
                yield Edit(end, end, " |" * (width - cells + closing))

    def _is_open(self, token: Token) -> bool:
        assert token.map
        first, end = token.map
        last = self.lines[end - 1].strip().lstrip("> \t")
        mark = token.markup
        return end - first < 2 or set(last) != {mark[0]} or len(last) < len(mark)

    def leaps(self) -> Iterator[Violation]:
        for (_, before, _), (line, level, _) in pairwise(self._headings()):
            if level > before + 1:
                yield self._line(
                    line,
                    f"the heading level jumps from {before} to {level}",
                    f"make it {'#' * (before + 1)}, or add the level between",
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
                    "the link has no destination or no text",
                    "add a text and a destination, or remove it",
                    len(found[0]),
                )

    def _headings(self) -> Iterator[tuple[int, int, str]]:
        """Yield line, level and text of every heading outside lists and quotations."""
        for token, content in pairwise(self._tokens):
            if token.type == "heading_open" and token.level == 0 and token.map:
                yield token.map[0], int(token.tag[1:]), content.content

    def _line(self, line: int, message: str, fix: str) -> Violation:
        return violation_at(
            self.draft, self._starts[line], message, fix, len(self.lines[line].rstrip("\r\n"))
        )


def _plain(heading: str) -> str:
    """Return the words of a heading as they are shown."""
    shown = "".join(
        token.content for token in _inline(heading.strip("# \t")) if token.type in SHOWN
    )
    return " ".join(normalize("NFC", shown).strip(ORNAMENT).casefold().split())


def _inline(content: str) -> list[Token]:
    tokens: list[Token] = []
    parser = _parser()
    parser.inline.parse(content, parser, {}, tokens)
    return tokens


def _empty_links(content: str) -> int:
    tokens = _inline(content)
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
