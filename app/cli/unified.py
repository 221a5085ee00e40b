"""A unified diff in colour, with the words that changed standing out."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import groupby

from rich.text import Text

from app.cli.words import plain

WORD = re.compile(r"\s+|\S+")
MAX_PAIRS = 4_000_000
"""Pairs of words that are compared; above it, changed lines are coloured as a whole."""

HEADER = re.compile(r"(---|\+\+\+|@@) ")


def coloured(unified: str) -> Iterator[Text]:
    """Yield the lines: removed ones red, added ones green; the characters are the diff's own."""
    blocks = [(sign, list(block)) for sign, block in groupby(_lines(unified), _sign)]
    for position, (sign, block) in enumerate(blocks):
        before = blocks[position - 1] if position else ("", [])
        after = blocks[position + 1] if position + 1 < len(blocks) else ("", [])
        if sign == "-":
            yield from _changed("-", block, after[1] if after[0] == "+" else [], "red")
        elif sign == "+":
            yield from _changed("+", block, before[1] if before[0] == "-" else [], "green")
        else:
            yield from (plain(line, "cyan" if sign == "@" else "") for line in block)


def _lines(unified: str) -> list[str]:
    return unified.removesuffix("\n").split("\n")


def _sign(line: str) -> str:
    return "@" if HEADER.match(line) else line[:1] if line[:1] in "-+" else " "


def _changed(sign: str, block: list[str], other: list[str], colour: str) -> Iterator[Text]:
    """The lines of one side, what the other side has not standing out."""
    words, others = (WORD.findall("\n".join(line[1:] for line in side)) for side in (block, other))
    text = Text(style=colour)
    if not others or len(words) * len(others) > MAX_PAIRS:
        text.append_text(plain("".join(words)))
    else:
        matcher = SequenceMatcher(None, words, others, autojunk=False)
        for tag, start, end, _, _ in matcher.get_opcodes():
            style = "" if tag == "equal" else f"bold reverse {colour}"
            text.append_text(plain("".join(words[start:end]), style))
    yield from (Text.assemble((sign, colour), line) for line in text.split("\n", allow_blank=True))
