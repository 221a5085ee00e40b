"""The answer in a longer text: how it is found, and when two answers are the same."""

import re
from functools import lru_cache
from unicodedata import normalize

import re2

from app.contract.regexes import PatternError, compiled

LONGEST = 2_000
"""Characters at the end of a text in which its answer is looked for."""

MAX_MEMORY = 1 << 15
"""Bytes of a compiled pattern: with `LONGEST` it costs milliseconds at worst."""

QUOTES = "\"'`\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a"
MARKS = f" *,:;?\u00bf\u00a1{QUOTES}"
BEFORE = re.compile(rf"\A(?:[{MARKS}]|- )+")
AFTER = f"{MARKS}.\u3002\u3001"
MINUS = {"\u2212": "-", "\u2013": "-"}
THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,]|\.\d*,)")
NUMBER = re.compile(r"([+-]?)([$\u20ac\u00a3\u00a5]?)(0|[1-9]\d*|)(?:\.(\d*))?( ?%)?")
IN_BRACKETS = re.compile(r"\(?([^\s()]+)\)|\[?([^\s\[\]]+)\]")
EXCLAIMED = re.compile(rf"(?<=[^\W\d_]{{2}})[!{AFTER}]+\Z")
"""After a word; after a number or a single letter it may be a factorial."""


@lru_cache(maxsize=64)
def compile_answer(pattern: str) -> "re2._Regexp[str]":
    """Return the compiled pattern, or raise `PatternError`. Of several matches it finds the last.

    The pattern is in RE2 syntax and has exactly one group, which matches the answer.
    """
    alone = compiled(pattern, MAX_MEMORY, captures=True)
    if alone.groups != 1:
        raise PatternError(f"the pattern must have exactly one group, got {alone.groups}")
    return compiled(f"(?s:.*)(?:{pattern})", MAX_MEMORY, captures=True)


def answer_in(text: str, pattern: str | None) -> str | None:
    """Return the answer in a text, or None; without a pattern it is the whole text."""
    if pattern is None:
        return text
    found = compile_answer(pattern).search(text[-LONGEST:])
    return None if found is None else found[1]


def normalized(answer: str) -> str:
    """Return the normal form of an answer, by which two answers are compared; it may be empty.

    Unicode NFKC, without case, without white space, quotation marks and punctuation around it, and
    without brackets around a single word. Numbers are plain: `1,000` is `1000`, and an answer that
    is a number (with or without a currency or percent sign) has no trailing zeros: `2.50` is `2.5`.
    """
    text = " ".join(normalize("NFKC", answer).casefold().split())
    for sign, minus in MINUS.items():
        text = text.replace(sign, minus)
    text = THOUSANDS.sub(lambda found: found[0].replace(",", ""), _unwrapped(text))
    return _plain(text)


def _unwrapped(text: str) -> str:
    before = None
    while text != before:
        before = text
        text = EXCLAIMED.sub("", BEFORE.sub("", text).rstrip(AFTER))
        if bracketed := IN_BRACKETS.fullmatch(text):
            text = bracketed[1] or bracketed[2]
    return text


def _plain(text: str) -> str:
    found = NUMBER.fullmatch(text)
    if not found or not (found[3] or found[4]):
        return text
    sign, money, whole, rest, percent = (part or "" for part in found.groups())
    rest = rest.rstrip("0")
    number = (whole or "0") + (f".{rest}" if rest else "")
    return ("-" if sign == "-" and number != "0" else "") + money + number + percent.strip()
