"""When two answers are the same, and where a text gives its answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.regexes import PatternError
from app.contract.strategies.reasoning import LONGEST, answer_in, compile_answer, normalized

SAME = [
    ("42", "42.0", " **42**. ", "\uff14\uff12", "`42`", "42.000", '"42"'),
    ("1000", "1,000", "1,000.00", "1000."),
    ("$2.50", "$2.5", "$2.50."),
    ("50%", "50 %", "50.0%"),
    ("-5", "\u22125", "-5.0"),
    ("0.5", ".5", "0.50"),
    ("B", "(b)", "B)", "[B].", "b."),
    ("Paris", "paris!", "\u201cParis.\u201d", "  PARIS\n"),
    ("1,000 apples", "1000 Apples."),
    ("[0, 1]", "[0,  1]"),
]
OTHERS = [
    ("5!", "5"),
    ("-5", "5"),
    ("50%", "50"),
    ("$5", "5"),
    ("Python 3.10", "Python 3.1"),
    ("(0, 1)", "[0, 1]"),
    ("C#", "C"),
    ("007", "7"),
    ("0.5", "5"),
]


@pytest.mark.parametrize("answers", SAME, ids=lambda it: it[0])
def test_these_are_the_same(answers: tuple[str, ...]) -> None:
    assert len({normalized(it) for it in answers}) == 1


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_these_are_not(one: str, other: str) -> None:
    assert normalized(one) != normalized(other)


@given(st.text(max_size=40) | st.text('ab01.,()[] -%$!*"', max_size=20))
def test_normalizing_twice_changes_nothing_more(answer: str) -> None:
    assert normalized(normalized(answer)) == normalized(answer)


@given(st.integers(-(10**9), 10**9))
def test_a_number_with_separators_and_zeros_is_the_same_number(number: int) -> None:
    assert normalized(f"{number:,}.00") == normalized(str(number)) == str(number)


def test_of_several_matches_the_last_is_the_answer() -> None:
    text = "First I thought the answer is 4.\nNo: the answer is 5. Done."
    assert answer_in(text, r"answer is (\d+)") == "5"
    assert answer_in(text, r"(?i)ANSWER is (\d+)") == "5"
    assert answer_in(text, r"result is (\d+)") is None
    assert answer_in(text, None) == text


def test_only_the_end_of_a_text_is_searched() -> None:
    assert answer_in("answer: 4" + " " * LONGEST, r"answer: (\d)") is None


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"answer", "exactly one group, got 0"),
        (r"(a)(b)", "exactly one group, got 2"),
        (r"(a", "RE2"),
        (r"a)(b", "RE2"),
        (r"(?=(a))", "RE2"),
        (r"((?:a{1,100}){1,100})", "RE2"),
        (r"(\pL{1,300})", "too large"),
    ],
)
def test_a_pattern_that_finds_no_answer_is_refused(pattern: str, words: str) -> None:
    with pytest.raises(PatternError, match=words):
        compile_answer(pattern)
