"""The sections of a text: what a part of it can be written or replaced by itself."""

import re

HEADING = re.compile(r"(?m)^(?=#{1,6} )")
ITEM = re.compile(r"(?m)^(?=(?:[-*+]|\d{1,3}[.)]) )")
PARAGRAPH = re.compile(r"\n\s*\n")
MOST_SECTIONS = 30


def sections_of(text: str) -> tuple[str, ...]:
    """Return the sections of a text in their order: by headings, top-level items or paragraphs.

    The first way that gives at least two counts. More than `MOST_SECTIONS` are too small to be
    written by themselves: the text is then one section.
    """
    for boundary in (HEADING, ITEM, PARAGRAPH):
        found = tuple(part.strip() for part in boundary.split(text) if part.strip())
        if 2 <= len(found) <= MOST_SECTIONS:
            return found
    return (text,)
