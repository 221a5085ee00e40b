"""Texts that must not be there are found wherever they stand."""

from typing import Literal
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.validators.text import ExcludesValidator
from tests.validators import violations
from workers.validators.violation import MAX_VIOLATIONS, Violation

PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def folded(text: str) -> str:
    return normalize("NFC", text).casefold()


def found(
    draft: str, *texts: str, case_sensitive: bool = True, whole_words: bool = False
) -> list[Violation]:
    validator = ExcludesValidator(
        kind="excludes", texts=texts, case_sensitive=case_sensitive, whole_words=whole_words
    )
    return violations(validator, draft)


def test_points_at_every_place() -> None:
    hits = found("TODO: one. TODO: two.", "TODO")
    assert [(hit.span, hit.quote) for hit in hits] == [((0, 4), "TODO"), ((11, 15), "TODO")]
    assert all(hit.fix for hit in hits)


def test_case_matters_unless_it_is_said_not_to() -> None:
    assert found("todo", "TODO") == []
    assert len(found("todo", "TODO", case_sensitive=False)) == 1


@pytest.mark.parametrize(
    ("draft", "hits"), [("adjust", 0), ("just", 1), ("Oh, just so", 1), ("just2 just", 1)]
)
def test_whole_words_leaves_longer_words_alone(draft: str, hits: int) -> None:
    assert len(found(draft, "just", whole_words=True)) == hits


@pytest.mark.parametrize(("word", "text"), [("कम", "पानी की कमी है।"), ("cafe", "The cafe\u0301")])
def test_a_letter_belongs_to_its_word_with_its_marks(word: str, text: str) -> None:
    assert found(text, word, whole_words=True) == []


@pytest.mark.parametrize(
    ("draft", "word"),
    [
        ("私は東京に行く。", "東京"),
        ("このAIは速い。", "AI"),
        ("这个产品最好用", "最好"),
        ("ราคาถูกมาก", "ถูก"),
    ],
)
def test_a_word_is_whole_where_no_spaces_stand_between_words(draft: str, word: str) -> None:
    (hit,) = found(draft, word, whole_words=True)
    assert hit.quote == word


def test_a_character_that_folds_to_two_keeps_its_place() -> None:
    (hit,) = found("İİ ßß STRASSE: verboten", "VERBOTEN", case_sensitive=False)
    assert hit.quote == "verboten"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_letter_is_found_however_it_is_written(form: Literal["NFC", "NFD"]) -> None:
    draft = normalize(form, "\ufb01, Åße 각: Herr MÜLLER zahlt, e\u0331 Mu\u0301ller.")
    others: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
    for other in others:
        hits = found(draft, normalize(other, "müller"), case_sensitive=False, whole_words=True)
        assert [hit.quote for hit in hits] == [normalize(form, "MÜLLER")]
        assert [hit.quote for hit in found(draft, normalize(other, "각"))] == [
            normalize(form, "각")
        ]
    assert found(draft, "Muller") == []
    (hit,) = found(draft, "zahlt")
    assert hit.span is not None
    assert draft[slice(*hit.span)] == "zahlt"


@given(PLAIN, PLAIN, PLAIN.filter(bool))
def test_finds_what_was_put_in(before: str, after: str, text: str) -> None:
    before, text = f"{before}.", f"{text}."  # no mark joins a letter beside it
    assert any(hit.quote == text for hit in found(before + text + after, text))
    assert found(before + text + after, text.swapcase(), case_sensitive=False) or (
        folded(text.swapcase()) != folded(text)
    )


@given(PLAIN, PLAIN.filter(bool))
def test_a_draft_without_the_text_passes(draft: str, text: str) -> None:
    assert bool(found(draft, text)) is (normalize("NFC", text) in normalize("NFC", draft))


def test_reports_only_the_first_places() -> None:
    assert len(found("x" * 1000, "x")) == MAX_VIOLATIONS
