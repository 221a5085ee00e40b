"""Edits are applied strictly or not at all, and locked text stays whatever is made of the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.drafts import lacking, locked_in_order
from workers.engine.drafting import (
    CannotApply,
    SearchReplace,
    applied,
    between,
    in_place_of,
    restored,
)

TEXT = "We refund within 14 days. We refund cards.\nCash is not refunded.\n"
WORDS = st.lists(
    st.sampled_from(["we", "refund", "all", "cards", ",", " ", "\n"]), max_size=60
).map("".join)


def test_every_edit_is_applied_to_the_draft_as_it_was_given() -> None:
    edited = applied(
        TEXT, [SearchReplace("14 days", "30 days"), SearchReplace("Cash", "Money of 14 days")]
    )
    assert (
        edited.text
        == "We refund within 30 days. We refund cards.\nMoney of 14 days is not refunded.\n"
    )
    assert edited.applied == 2


def test_what_an_edit_quotes_and_leaves_as_it_is_counts_as_untouched() -> None:
    edited = applied("one two three four", [SearchReplace("one two three", "one 2 three")])
    assert edited.untouched == round(1 - 3 / 18, 6)


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ([], "there are no edits"),
        ([SearchReplace("in 15 days", "x")], "does not occur in the draft"),
        ([SearchReplace("", "x")], "does not occur in the draft"),
        ([SearchReplace("We refund", "We pay")], "more than once"),
        ([SearchReplace("cards", "cards")], "changes nothing"),
        ([SearchReplace("within 14", "in 3"), SearchReplace("14 days", "a week")], "overlap"),
    ],
)
def test_an_edit_that_does_not_do_what_it_says_is_refused(
    edits: list[SearchReplace], why: str
) -> None:
    with pytest.raises(CannotApply, match=why):
        applied(TEXT, edits)


def test_a_match_that_overlaps_itself_is_found_more_than_once() -> None:
    with pytest.raises(CannotApply, match="more than once"):
        applied("aaa", [SearchReplace("aa", "b")])


def test_an_edit_that_touches_locked_text_is_refused_and_one_beside_it_is_not() -> None:
    locked = ["14 days"]
    with pytest.raises(CannotApply, match="touches locked text"):
        applied(TEXT, [SearchReplace("within 14", "in 3")], locked)
    beside = applied(TEXT, [SearchReplace("within 14 days.", "in 14 days!")], locked)
    assert beside.text.startswith("We refund in 14 days! We")


@given(WORDS, WORDS)
def test_edits_between_two_texts_make_one_of_the_other(before: str, after: str) -> None:
    edits = between(before, after)
    if before and before != after:
        assert applied(before, edits).text == after
    else:
        assert edits == ()


@given(WORDS, WORDS, st.data())
def test_locked_text_stands_in_a_revision_whatever_it_says(
    before: str, after: str, data: st.DataObject
) -> None:
    ends = st.integers(0, len(before))
    cuts = data.draw(st.lists(st.tuples(ends, ends), max_size=4))
    texts = {before[min(cut) : max(cut)] for cut in cuts if cut[0] != cut[1]}
    locked = locked_in_order(before, [it for it in texts if before.find(it) == before.rfind(it)])
    assert lacking(restored(before, after, locked), locked) == ()


def test_only_the_differences_that_touch_lost_text_are_taken_back() -> None:
    before = "A one. B two. C three. D four."
    after = "A 1. B 2. C changed. D 4."
    assert restored(before, after, ["B", "C three", "D"]) == "A 1. B 2. C three. D 4."


def test_a_revision_that_keeps_what_is_locked_stays_as_it_is() -> None:
    assert restored("A one. B two.", "B two, A uno.", ["B two"]) == "B two, A uno."


def test_locked_texts_keep_their_order() -> None:
    before = "First A, and then B. Last C."
    assert lacking("First B, and then A. Last C.", ["A", "B"]) == ("B",)
    assert restored(before, "First B, and then A. Last D.", ["A", "B"]).startswith("First A")
    with pytest.raises(CannotApply, match="locked text"):
        applied(before, [SearchReplace("A, and then B", "B, and then A")], ["A", "B"])


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("One.\nTwo.\n", "One.\n2.", "One.\n2.\n"),
        ("One.\nTwo.", "One.\n2.\n\n", "One.\n2."),
        ("One.\r\nTwo.\r\n", "One.\n2.\nThree.", "One.\r\n2.\r\nThree.\r\n"),
        ("One.\nTwo.\r\nThree.\n", "1.\nTwo.\nThree.", "1.\nTwo.\r\nThree.\n"),
        ("One.  \nTwo.\n", "One.\n2.", "One.  \n2.\n"),
        ("\ufeff  One.\n", "1.", "\ufeff  1.\n"),
        ("\u3000One.", "1.", "\u30001."),
        ("Cafe\u0301.\nTwo.", "Caf\u00e9.\n2.", "Cafe\u0301.\n2."),
        ("  a = 1\n  b = 2\n", "a = 1\nb = 2", "a = 1\nb = 2\n"),  # dedented on purpose
        ("  a = 1\n", "    a = 2", "    a = 2\n"),
        ("One.\n", " \n", ""),
    ],
)
def test_around_its_changes_a_rewritten_text_is_byte_for_byte_as_before(
    before: str, after: str, kept: str
) -> None:
    assert in_place_of(before, after) == kept


@given(st.text(" \t\r\n\ufeffab.", max_size=40))
def test_a_text_that_is_returned_as_it_was_stays(text: str) -> None:
    returned = text.strip(" \t\r\n\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    assert in_place_of(text, returned) == (text if returned else "")


def test_an_edit_finds_words_over_lines_that_end_with_crlf() -> None:
    draft = "One.\r\nTwo.\r\nThree.\r\n"
    edited = applied(draft, [SearchReplace("One.\nTwo.", "One.\n2.\n2b.")])
    assert edited.text == "One.\r\n2.\r\n2b.\r\nThree.\r\n"


@pytest.mark.parametrize(
    ("draft", "search", "new", "made"),
    [
        (
            "Dear all,  \r\nwe pay.\r\nSoon.\r\n",
            "Dear all,  \nwe pay.\n",
            "Hello,  \nwe pay.\n",
            "Hello,  \r\nwe pay.\r\nSoon.\r\n",
        ),
        ("One.  \r\nTwo.\r\n", "One.  \nTwo.", "One.\nTwo.", "One.\r\nTwo.\r\n"),
        ("One.\r\nTwo.\n\nSix.", "One.\nTwo.\n\n", "One.\n2.\n\n", "One.\r\n2.\n\nSix."),
        ("One.\r\nTwo.\nSix.  x", "One.\nTwo.\nSix.  ", "Six.  \n2.", "Six.  \r\n2.x"),
    ],
)
def test_an_edit_joins_no_lines_and_keeps_blanks_as_it_has_them(
    draft: str, search: str, new: str, made: str
) -> None:
    assert applied(draft, [SearchReplace(search, new)]).text == made


LINES = st.lists(
    st.tuples(st.sampled_from(["", " ", "  "]), st.sampled_from(["\n", "\r\n", "\r"])),
    min_size=2,
    max_size=8,
)


@given(LINES, st.data())
def test_an_edit_of_a_word_changes_no_other_byte_whatever_lines_end_with(
    ends: list[tuple[str, str]], data: st.DataObject
) -> None:
    lines = [f"word {at}{blanks}{end}" for at, (blanks, end) in enumerate(ends)]
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first + 1, len(lines)))
    draft, word = "".join(lines), f"word {data.draw(st.integers(first, last - 1))}"
    search = "".join(lines[first:last]).replace("\r\n", "\n").replace("\r", "\n")
    edited = applied(draft, [SearchReplace(search, search.replace(word, "some"))])
    assert edited.text == draft.replace(word, "some")
