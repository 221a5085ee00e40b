"""Characters, words and sentences are counted as the contract defines them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.contract.validators.text import LengthValidator
from workers.text.words import WORD, count_of_words, sentences, words
from workers.validators.text import check_length

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def split(text: str, by: str) -> list[str]:
    find = words if by == "words" else sentences
    return [text[start:end] for start, end in find(text)]


def said(text: str, **bounds: int) -> list[str]:
    validator = LengthValidator(kind="length", **bounds)  # type: ignore[arg-type]
    return [each.message for each in check_length(validator, text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's a well-known fact.", ["It's", "a", "well-known", "fact"]),
        ("It costs 1,250.50 euros, not 3.", ["It", "costs", "1,250.50", "euros", "not", "3"]),
        ("one,two;three -- four", ["one", "two", "three", "four"]),
        ("naïve cafe\u0301", ["naïve", "cafe\u0301"]),
        ("你好 world", ["你", "好", "world"]),
        ("2.5円のカード", ["2.5", "円", "の", "カ", "ー", "ド"]),
        ("AIで2枚", ["AI", "で", "2", "枚"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("... --- !!!", []),
        ("", []),
    ],
)
def test_splits_words(text: str, expected: list[str]) -> None:
    assert split(text, "words") == expected


@given(TEXT | st.text("字か1a., '\u3099\n", max_size=30))
def test_words_are_counted_as_they_are_split(text: str) -> None:
    assert count_of_words(text) == len(split(text, "words"))


def test_a_run_of_ideographs_is_counted_at_once() -> None:
    """A check of 200,000 of them, one by one, would need more time than it has."""
    assert len(WORD.findall("字" * 200_000)) == 1
    assert count_of_words("字" * 200_000) == 200_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith met J. K. Rowling.", ["Dr. Smith met J. K. Rowling."]),
        ("Use a tool (e.g. a saw). Then rest.", ["Use a tool (e.g. a saw).", "Then rest."]),
        ("See No. 5 and p. 7. He said no. Then?", ["See No. 5 and p. 7.", "He said no.", "Then?"]),
        ("Wir bieten z. B. Tee an, siehe Nr. 5 und Abs. 2.", None),
        ("Bzgl. Ihrer Frage: Die ehem. Kundin (geb. 1970) zahlt i.d.R. Raten, z.T. Zinsen.", None),
        ("Am 1. Januar begann das Jahr.", None),
        ("Im 19. Jahrhundert kostete es 3 Mio. Mark, am 12. 3. 1920 max. 5.", None),
        ("Jan. 5 is a holiday, says Roe v. Wade.", None),
        ("Er rief: „Ich komme.“ Dann ging er.", ["Er rief: „Ich komme.“", "Dann ging er."]),
        ("**Wichtig.** Bitte lesen.[1] Danke.", ["**Wichtig.**", "Bitte lesen.[1]", "Danke."]),
        ("He is in the U.S. He stays.", ["He is in the U.S.", "He stays."]),
        ("It was I. He got 5. Then?", ["It was I.", "He got 5.", "Then?"]),
        ("It costs 3.50 euros. Really.", ["It costs 3.50 euros.", "Really."]),
        (
            "At 5 p.m. he left. At 6 p.m. She came.",
            ["At 5 p.m. he left.", "At 6 p.m.", "She came."],
        ),
        ('"Go!" he said. He went...', ['"Go!"', "he said.", "He went..."]),
        ("A title\n\nA text\nin two lines.", ["A title", "A text\nin two lines."]),
        ("A title\r\n\r\nA text.\r\n", ["A title", "A text."]),
        ("1. Cut it.\n2. Glue it.", ["1. Cut it.", "2. Glue it."]),
        ("你好。再见。", ["你好。", "再见。"]),
        ("... !!! ?", []),
    ],
)
def test_splits_sentences(text: str, expected: list[str] | None) -> None:
    assert split(text, "sentences") == (expected if expected is not None else [text])


def test_says_how_much_too_long_a_draft_is() -> None:
    assert said("one two three", max_words=2) == ["the draft has 3 words, expected at most 2"]


def test_says_how_much_too_short_a_draft_is() -> None:
    assert said("One.", min_sentences=2) == ["the draft has 1 sentence, expected at least 2"]


def test_bounds_are_inclusive() -> None:
    assert said("one two", min_words=2, max_words=2, min_characters=7, max_characters=7) == []


def test_characters_are_code_points() -> None:
    assert said("𐍈é", min_characters=2, max_characters=2) == []


@given(TEXT, st.integers(0, 40), st.integers(0, 40))
def test_passes_exactly_when_the_count_is_within_the_bounds(text: str, one: int, two: int) -> None:
    least, most = sorted((one, two))
    passes = least <= len(split(text, "words")) <= most
    assert (said(text, min_words=least, max_words=most) == []) is passes


@given(TEXT)
def test_sentences_lie_in_order_and_hold_every_word(text: str) -> None:
    places = list(sentences(text))
    assert all(start < end for start, end in places)
    assert all(one[1] <= two[0] for one, two in pairwise(places))
    held = [each for start, end in places for each in split(text[start:end], "words")]
    assert held == split(text, "words")


def test_a_length_validator_needs_a_bound() -> None:
    with pytest.raises(ValidationError, match="at least one bound"):
        LengthValidator(kind="length")


def test_a_minimum_above_its_maximum_is_refused() -> None:
    with pytest.raises(ValidationError, match="min_words must be at most max_words"):
        LengthValidator(kind="length", min_words=3, max_words=2)
