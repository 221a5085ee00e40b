"""Texts taken apart into sections and joined again, byte for byte."""

import time
from pydoc_data.topics import topics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.drafts import locked_spans
from app.contract.sections import LONGEST_PART, MOST_SECTIONS, items_of, parts_of, split

UNDER_A_HEADING = st.sampled_from(
    [
        "A paragraph\nof two lines.",
        "    indented code\n\n    # with a blank line\n",
        "```sh\n# no heading\n\n## nor this\n```",
        "~~~\n# a fence of another kind\n~~~",
        "- tight\n- list\n  - inner",
        "1. loose\n\n   # a heading of the item\n\n2. list",
        "* item\n\n      code of the item",
        "| a | b |\n|---|---|\n| # | 2 |",
        "<div>\n# raw\n</div>",
        "<!--\n\n# a comment\n\n-->",
        "> # quoted\n> text",
        "#no heading",
        "### A heading below",
        "Another below\n---",  # of level 2 by its underline, where it is the first of its kind
        "***",
        "[a]: /url 'title'",
        "\tcode after a tab",
        "Trailing blanks  \n\n\n",
        "\u00a0no-break space\u2028 and a separator\x0c",
    ]
)
BLOCKS = st.one_of(
    UNDER_A_HEADING,
    st.sampled_from(["# One", "## Two ##", "Three\n===", "---\nfront: matter\n---", "", " "]),
    st.text(alphabet="ab#-`~>|*1.[]<! \t\n\r", max_size=40),
)
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Any blocks, with any number of blank lines between them."""
    blocks = draw(st.lists(BLOCKS, max_size=12))
    gaps = draw(st.lists(st.sampled_from(["\n", "\n\n", "\n\n\n", "\n \n"]), min_size=12))
    front = draw(st.sampled_from(["", "---\ntitle: A\n---\n", "+++\ntitle = 1\n+++\n\n", "\n\n"]))
    text = front + "".join(it for pair in zip(blocks, gaps, strict=False) for it in pair)
    text = text.replace("\n", draw(LINE_ENDS))
    return text.rstrip("\r\n") if draw(st.booleans()) else text


@given(documents(), st.integers(1, 40))
def test_what_was_split_is_joined_byte_for_byte(text: str, most: int) -> None:
    sections = split(text, most)
    assert sections.joined(sections.texts) == text
    assert 1 <= len(sections.texts) <= most
    assert len(sections.texts) == 1 or all(it and it == it.strip() for it in sections.texts)


@given(documents(), st.data())
def test_what_is_around_a_changed_section_stays_byte_for_byte(
    text: str, data: st.DataObject
) -> None:
    sections = split(text)
    changed = data.draw(st.integers(0, len(sections.texts) - 1))
    texts = [*sections.texts]
    texts[changed] = "Changed."
    pairs = [*zip(sections.gaps, sections.texts, strict=False)]
    before = "".join(gap + section for gap, section in pairs[:changed]) + sections.gaps[changed]
    after = text[len(before) + len(sections.texts[changed]) :]
    assert sections.joined(texts) == f"{before}Changed.{after}"


@given(st.lists(st.lists(UNDER_A_HEADING, min_size=1), min_size=2, max_size=6), LINE_ENDS)
def test_a_heading_goes_with_what_is_under_it(chapters: list[list[str]], line_end: str) -> None:
    written = [
        "\n\n".join([f"# Chapter {number}", *blocks]) for number, blocks in enumerate(chapters, 1)
    ]
    text = "\n\n".join(written).replace("\n", line_end)
    assert list(split(text).texts) == [it.replace("\n", line_end).strip() for it in written]


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("# T\n\n## A\n\n### A1\n\nx\n\n## B\n\ny", ["# T\n\n## A\n\n### A1\n\nx", "## B\n\ny"]),
        ("# T\n\nintro\n\n## A\n\nx\n\n## B", ["# T\n\nintro", "## A\n\nx", "## B"]),
        ("before\n\n# A\n\nx\n\ny", ["before", "# A\n\nx\n\ny"]),
        ("# T\n\n- a\n\n  more\n- b", ["# T\n\n- a\n\n  more", "- b"]),
        ("A\n===\n\nx\n\nB\n===\n\ny", ["A\n===\n\nx", "B\n===\n\ny"]),
        ("one\n\n```\na\n\nb\n```\n\ntwo", ["one\n\n```\na\n\nb\n```", "two"]),
        ("```\n# a\n```\n\n~~~\n# b\n~~~", ["```\n# a\n```\n\n~~~\n# b\n~~~"]),
        ("---\na: 1\n---\n\n# A\n\nx\n\n# B\n\ny\n", ["# A\n\nx", "# B\n\ny"]),
        ("    code\n\nprose\n\nmore", ["code", "prose", "more"]),
        ("one line", ["one line"]),
        (" \n", [" \n"]),
    ],
)
def test_sections_begin_at_headings_else_at_items_else_at_paragraphs(
    text: str, sections: list[str]
) -> None:
    assert list(split(text).texts) == sections


def test_no_section_begins_within_a_text_that_is_kept_whole() -> None:
    text = "# A\n\nx\n\n# B\n\ny\n\n# C\n\nz"
    sections = split(text, kept_whole=("x\n\n# B",))
    assert list(sections.texts) == ["# A\n\nx\n\n# B\n\ny", "# C\n\nz"]
    assert sections.joined(sections.texts) == text


def test_front_matter_whose_end_is_locked_is_in_the_first_section() -> None:
    front, rest = "---\ntitle: Refunds\n---\n# Refunds", "\n\nWe pay.\n\n# Returns\n\nSend it."
    locked = ("title: Refunds\n---\n# Refunds",)
    assert split(front + rest, 9, locked).texts == (f"{front}\n\nWe pay.", "# Returns\n\nSend it.")
    assert split(f"{front}\n\nWe pay.\n", 9, locked).texts == (f"{front}\n\nWe pay.",)
    assert parts_of(f"{front}\n\nWe pay.", locked).texts == (f"{front}\n\nWe pay.",)


def test_a_byte_order_mark_hides_neither_front_matter_nor_the_first_heading() -> None:
    text = "# One\n\nA.\n\n# Two\n\nB.\n\nC."
    assert split(f"\ufeff{text}").texts == ("\ufeff# One\n\nA.", "# Two\n\nB.\n\nC.")
    assert split(f"\ufeff---\na: 1\n---\n{text}").texts == split(text).texts


@given(documents(), st.data())
def test_no_section_and_no_part_begins_within_a_locked_text_and_none_is_lost(
    text: str, data: st.DataObject
) -> None:
    places = st.integers(0, len(text))
    early = st.tuples(st.integers(0, min(30, len(text))), places)
    drawn = data.draw(st.lists(st.tuples(places, places) | early, max_size=3))
    locked = tuple(words for pair in drawn if (words := text[slice(*sorted(pair))].strip()))
    spans = locked_spans(text, locked)
    for sections in (split(text, 40, locked), parts_of(text, locked)):
        assert sections.joined(sections.texts) == text
        start = 0
        for gap, section in zip(sections.gaps, sections.texts, strict=False):
            start += len(gap)
            assert not any(span.start < start < span.end for span in spans)
            start += len(section)
        assert not any(gap.strip() for gap in sections.gaps[1:])


@pytest.mark.parametrize(
    ("outline", "items"),
    [
        ("- Dawn: it begins.\n- Dusk: it ends.", ["Dawn: it begins.", "Dusk: it ends."]),
        (
            "Here it is:\n\n1. Dawn\n   - early\n2) Dusk\n\nTell me more.",
            ["Dawn\n   - early", "Dusk"],
        ),
        ("# Outline\n\n* Dawn\n* Dusk", ["Dawn", "Dusk"]),
        ("My outline.\n\n## Dawn\n\n- early\n\n## Dusk", ["## Dawn\n\n- early", "## Dusk"]),
        ("Dawn.\n\nDusk.", ["Dawn.", "Dusk."]),
        ("Dawn.", ["Dawn."]),
    ],
)
def test_the_items_of_an_outline_are_its_headings_else_its_lists(
    outline: str, items: list[str]
) -> None:
    assert list(items_of(outline)) == items


def test_neighbours_share_a_section_where_there_would_be_too_many() -> None:
    text = "\n\n".join(f"# {number}\n\nx" for number in range(1, 2 * MOST_SECTIONS + 2))
    found = split(text)
    assert MOST_SECTIONS / 2 < len(found.texts) <= MOST_SECTIONS
    assert found.texts[0].startswith("# 1\n\nx\n\n# 2")


def test_a_changed_section_has_the_line_ends_of_the_text() -> None:
    text = "# A\r\n\r\nx\r\n\r\n# B\r\n\r\ny\r\n"
    assert split(text).joined(["# A\n\nnew", "# B\r\n\r\ny"]) == text.replace("x", "new")


HOSTILE = {
    "items": "- a\n",
    "quoted lists": "- > a\n",
    "nested quotes": ">" * 20 + "a\n",
    "nested items": "- " * 19 + "a\n",
    "stairs": "".join("  " * n + "- a\n" for n in range(20)),
    "rules": "---\n",
    "definitions": "[a]: <\n",
    "one long line": "[",
    "quotes in one line": "> ",
    "lists in one line": "- ",
    "cells": "|",
    "no blank line": "a line of ordinary words that has no blank line after it\n",
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_a_hostile_text_takes_time_in_proportion_to_its_length(shape: str) -> None:
    text = (HOSTILE[shape] * 200_000)[:200_000]
    started = time.process_time()
    found = split(text)
    assert time.process_time() - started < 6
    assert found.joined(found.texts) == text


EVERYTHING = "\n\n".join(topics.values())


def test_a_long_text_is_cut_where_parts_may_begin_and_joined_byte_for_byte() -> None:
    found = parts_of(f"---\ntitle: Help\n---\n\n{EVERYTHING}\n")
    assert found.gaps[0] == "---\ntitle: Help\n---\n\n"
    assert found.joined(found.texts) == f"---\ntitle: Help\n---\n\n{EVERYTHING}\n"
    sizes = [len(text) for text in found.texts]
    assert max(sizes) <= LONGEST_PART
    assert min(sizes[:-1]) > 0.4 * LONGEST_PART
    assert [text[:20] for text in found.texts[:2]] == [
        'The "assert" stateme',
        "Customizing attribut",
    ]


def test_no_part_begins_within_a_locked_text_or_a_fence() -> None:
    locked = EVERYTHING[15_000:25_000]
    code = "```\n" + "# no heading\n\n" * 700 + "```\n"
    text = EVERYTHING[:40_000] + "\n" + code + EVERYTHING[40_000:]
    found = parts_of(text, (locked,))
    assert any(locked in part for part in found.texts)
    assert any("```\n# no" in part and part.count("```") == 2 for part in found.texts)


@pytest.mark.parametrize("shape", [*HOSTILE.values(), "\n", "x", " \u3002", "```\n", "\U0001f600"])
def test_parts_of_a_hostile_text_are_bounded_and_joined_byte_for_byte(shape: str) -> None:
    text = "a" + (shape * 400_000)[:400_000] + "z"
    found = parts_of(text)
    assert found.joined(found.texts) == text
    assert max(map(len, found.texts)) <= LONGEST_PART
    assert len(found.texts) <= 2 * len(text) // LONGEST_PART + 1
