"""The HTML page of a report, made from its Markdown: self-contained, without scripts or links.

What is long is folded. On paper everything is open but what has the class `aside`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from html import escape
from importlib import resources
from itertools import groupby
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.html_page import html_page

UNUSED = ("link", "image", "autolink", "html_inline", "html_block", "reference", "lheading")
"""Rules that a report never needs: it contains no links and no HTML."""

ALWAYS_OPEN = {"The result", "The best draft so far", "Scores", "Changes", "Where the rest is"}
"""Sections that are not folded."""

OF_FOLDED = {"Iterations", "Scores"}
"""Sections whose subsections are folded, too."""

ASIDE = {"Steps", "The draft"}
"""What stays folded on paper."""

FEW = 5
"""Items of a list that are shown; if there are two more or above, those are folded."""

LINES = 55
"""Lines of a text that a page shows without a scroll bar, of 34 characters on a phone."""

SAME = 200
"""Characters of unchanged lines in a difference that are shown; longer ones are folded."""

WORD_PAIRS = 2_000_000
"""Maximum pairs of words to compare in one difference; lines after that are not marked by word."""

MARKS = {"+": "ins", "-": "del", "@": "at"}


def page_of(markdown: str, title: str, pictures: Iterable[str]) -> str:
    """Return the page; HTML in the Markdown is shown as text, and nothing in it is a link.

    The pictures are HTML, and take the places of the blocks marked as `chart`, in their order.
    """
    reader, env = _reader(), {"pictures": iter(pictures)}
    tokens = [*_folded(reader.parse(markdown, env))]
    body = reader.renderer.render(tokens, reader.options, env)
    return html_page(title, _style(), body)


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


def _folded(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens, with sections and long lists in elements that fold."""
    levels: list[int] = []
    section, is_folded, items, count = "", False, 0, 0
    for index, token in enumerate(tokens):
        match token.type:
            case "heading_open":
                level, title = int(token.tag[1]), tokens[index + 1].content
                while levels and levels[-1] >= level:
                    levels.pop()
                    yield _html("</details>\n")
                section = title if level == 2 else section
                is_folded = _is_folded(level, title, section)
                if is_folded:
                    levels.append(level)
                    yield _html(f"<details{_aside(title)}>\n<summary>")
            case "bullet_list_open":
                items, count = 0, _items_of(tokens, index)
            case "list_item_open":
                items += 1
                if items == FEW + 1 and count > FEW + 1:
                    yield _html(_more(count - FEW, section))
        yield token
        if token.type == "heading_close" and is_folded:
            yield _html("</summary>\n")
        elif token.type == "bullet_list_close" and count > FEW + 1:
            yield _html("</details>\n")
    for _ in levels:
        yield _html("</details>\n")


def _html(content: str) -> Token:
    return Token("html_block", "", 0, content=content)


def _is_folded(level: int, title: str, section: str) -> bool:
    match level:
        case 2:
            return title not in ALWAYS_OPEN
        case 3:
            return section in OF_FOLDED
        case _:
            return level == 4


def _aside(title: str) -> str:
    return ' class="aside"' if title in ASIDE else ""


def _items_of(tokens: Sequence[Token], index: int) -> int:
    """Return the number of items of the list that begins here; lists in a report have one level."""
    end = next(n for n in range(index, len(tokens)) if tokens[n].type == "bullet_list_close")
    return sum(it.type == "list_item_open" for it in tokens[index:end])


def _more(number: int, section: str) -> str:
    kind = ' class="aside"' if section == "Iterations" else ""
    return f"</ul>\n<details{kind}>\n<summary>{number:,} more</summary>\n<ul>\n"


def _fence(_self: Any, tokens: Sequence[Token], index: int, _options: Any, env: Any) -> str:
    token = tokens[index]
    if token.info == "chart":
        return str(next(env["pictures"]))
    return _difference(token.content) if token.info == "diff" else _block(token.content)


def _block(text: str) -> str:
    """Return a text with its lines; a long one scrolls, and the keyboard reaches it."""
    return f"<pre{_scrolls(text.splitlines())}><code>{escape(text)}</code></pre>\n"


def _scrolls(lines: Iterable[str]) -> str:
    is_long = sum(1 + len(line) // 34 for line in lines) > LINES
    return ' tabindex="0" role="group" aria-label="Long text"' if is_long else ""


def _difference(unified: str) -> str:
    """Return a difference in which changed words are marked and unchanged passages are folded.

    The two lines that name the texts, and notes on a last line without an end, are left out.
    """
    lines = [it for it in unified.removesuffix("\n").split("\n")[2:] if it[:1] != "\\"]
    words = _changed_words(lines)
    shown: list[str] = []
    pieces: list[str] = []
    at = 0
    for kind, group in groupby(lines, key=lambda line: line[:1]):
        run = [*group]
        if kind == " " and sum(map(len, run)) > SAME:
            pieces += [_piece(shown), _unchanged(run)]
            shown = []
        else:
            shown += (_line(line, words.get(at + n)) for n, line in enumerate(run))
        at += len(run)
    return "".join((*pieces, _piece(shown)))


def _piece(shown: Sequence[str]) -> str:
    return f"<pre{_scrolls(shown)}><code>{''.join(shown)}</code></pre>\n" if shown else ""


def _unchanged(run: Sequence[str]) -> str:
    text = escape("".join(f"{line}\n" for line in run))
    count = "1 unchanged line" if len(run) == 1 else f"{len(run)} unchanged lines"
    return (
        f'<details class="aside">\n<summary>{count}</summary>\n'
        f"<pre{_scrolls(run)}><code>{text}</code></pre>\n</details>\n"
    )


def _line(line: str, marked: str | None) -> str:
    """Return an added, removed or position line with its class, another one as it is."""
    kind = MARKS.get(line[:1])
    text = escape(line) if marked is None else line[:1] + marked
    return f'<span class="{kind}">{text}\n</span>' if kind else f"{text}\n"


def _changed_words(lines: Sequence[str]) -> dict[int, str]:
    """Return the HTML of removed and added lines that belong together, by their index."""
    marked: dict[int, str] = {}
    left, at = WORD_PAIRS, 0
    runs = [(kind, len([*group])) for kind, group in groupby(lines, key=lambda line: line[:1])]
    for (kind, size), following in zip(runs, [*runs[1:], ("", 0)], strict=True):
        if kind == "-" and following == ("+", size):
            for index in range(at, at + size):
                old, new = (
                    re.findall(r"\S+\s*|\s+", it[1:]) for it in (lines[index], lines[index + size])
                )
                left -= len(old) * len(new)
                if left >= 0:
                    marked[index], marked[index + size] = _by_word(old, new)
        at += size
    return marked


def _by_word(old: list[str], new: list[str]) -> tuple[str, str]:
    """Return both lines as HTML, with the words marked that the other one does not have."""
    removed, added = "", ""
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        before, after = escape("".join(old[i1:i2])), escape("".join(new[j1:j2]))
        is_same = kind == "equal"
        removed += before if is_same or not before else f"<del>{before}</del>"
        added += after if is_same or not after else f"<ins>{after}</ins>"
    return removed, added


def _table_open(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """Return a table that scrolls by itself where it is wider than the page."""
    end = next(n for n in range(index, len(tokens)) if tokens[n].type == "thead_close")
    columns = sum(it.type == "th_open" for it in tokens[index:end])
    scrolls = ' tabindex="0" role="group" aria-label="Wide table"' if columns > 3 else ""
    return f'<div class="wide"{scrolls}><table>\n'


def _table_close(_self: Any, _tokens: Any, _index: int, _options: Any, _env: Any) -> str:
    return "</table></div>\n"
