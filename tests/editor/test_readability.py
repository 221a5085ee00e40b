"""The formulas, against counts and figures worked out by hand."""

import pytest

from workers.text.document import Document
from workers.text.readability import (
    TextCounts,
    automated_readability_index,
    flesch_kincaid_grade,
    flesch_reading_ease,
    gunning_fog,
    smog,
    syllables,
)

TEN_SENTENCES = TextCounts(words=120, sentences=10, letters=564, syllables=180, long_words=12)


def test_counts_words_sentences_letters_and_syllables() -> None:
    text = "The cat sat. Another animal, e.g. a dog, did not sit at 10:30 on `mat.py`."
    assert TextCounts.of(Document(text).sentences) == TextCounts(
        words=14, sentences=2, letters=41, syllables=18, long_words=2
    )


def test_the_formulas_give_what_their_authors_published() -> None:
    assert flesch_reading_ease(TEN_SENTENCES) == pytest.approx(206.835 - 12.18 - 126.9)
    assert flesch_kincaid_grade(TEN_SENTENCES) == pytest.approx(4.68 + 17.7 - 15.59)
    assert gunning_fog(TEN_SENTENCES) == pytest.approx(0.4 * (12 + 10))
    assert smog(TEN_SENTENCES) == pytest.approx(1.0430 * 6 + 3.1291)
    assert automated_readability_index(TEN_SENTENCES) == pytest.approx(4.71 * 4.7 + 6 - 21.43)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "a I the made called asked they're don't through style filled strengths"),
        (2, "about table people quiet business wanted houses being maybe rhythm reset middle"),
        (3, "idea area created however radio reliable customer important united company"),
        (4, "information category experience January immediate automatic especially"),
        (5, "university communication immediately opportunity"),
    ],
)
def test_syllables_are_counted_as_they_are_spoken(count: int, words: str) -> None:
    expected = dict.fromkeys(words.split(), count) | {"reliable": 4}
    assert {word: syllables(word) for word in words.split()} == {
        word: expected[word] for word in words.split()
    }


def test_letters_without_a_vowel_are_spelled_out_and_compounds_add_up() -> None:
    assert syllables("html") == 4
    assert syllables("well-known") == 2
    assert syllables("x" * 500_000) >= 1
