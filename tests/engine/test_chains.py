"""Chains of numbered steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.strategies.reasoning import NotAChain, chain_of, steps_from

TEXT = "We count:\n\n1. Two apples.\n   - red ones\n2. 3.5 pears, 4. maybe\n\n3.\tFive in all."
LINES = st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=12).filter(
    lambda it: not it[:1].isdigit()
)


def test_a_step_begins_with_its_number_at_the_start_of_a_line() -> None:
    chain = chain_of(TEXT)
    assert chain.before(1) == "We count:\n\n"
    assert chain.before(2) == "We count:\n\n1. Two apples.\n   - red ones\n"
    assert TEXT[chain.starts[1] : chain.ends(2)] == "2. 3.5 pears, 4. maybe\n\n"
    assert chain.ends(3) == len(TEXT)
    assert [chain.step_at(place) for place in chain.starts] == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("No steps at all.", 'begins with "1. "'),
        ("2. Two.\n3. Three.", "where step 1 is expected"),
        ("1. One.\n3. Three.", "where step 2 is expected"),
        ("1. One.\n2. Two.\n2. Again.", "where step 3 is expected"),
        ("1) One.\n1.5 is a number.", 'begins with "1. "'),
    ],
)
def test_what_does_not_count_is_no_chain(text: str, words: str) -> None:
    with pytest.raises(NotAChain, match=words):
        chain_of(text)


def test_what_stands_before_the_first_step_asked_for_is_dropped() -> None:
    assert steps_from("Here you are:\n1. a\n2. b\n3. c", 2) == "2. b\n3. c"
    assert steps_from("3. c\n4. d", 3) == "3. c\n4. d"


@pytest.mark.parametrize("text", ["1. a\n2. b", "3. c\n5. e", "text", "3. c\n1. a"])
def test_steps_that_do_not_count_from_there_are_refused(text: str) -> None:
    with pytest.raises(NotAChain):
        steps_from(text, 3)


@given(LINES, st.lists(st.lists(LINES, min_size=1, max_size=3), min_size=1, max_size=6))
def test_preamble_and_steps_are_the_whole_text(preamble: str, steps: list[list[str]]) -> None:
    numbered = [f"{n}. " + "\n".join(lines) for n, lines in enumerate(steps, 1)]
    text = "\n".join([preamble, *numbered])
    chain = chain_of(text)
    pieces = [text[start : chain.ends(n)] for n, start in enumerate(chain.starts, 1)]
    assert chain.before(1) + "".join(pieces) == text
    assert pieces == [*(f"{step}\n" for step in numbered[:-1]), numbered[-1]]
