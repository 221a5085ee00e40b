"""Texts of others as they may be shown: they change nothing that stands beside them.

A terminal would obey control characters, and both a terminal and a browser those that override the
direction of text.
"""

import re

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def legible(text: str) -> str:
    """Return a text in which such characters are replaced; line ends and tabs stay."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def on_one_line(name: str) -> str:
    """Return a name in which such characters are replaced, and which cannot begin a new line."""
    return " ".join(legible(name).split())
