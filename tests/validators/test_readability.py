"""How hard a draft is to read stays within its bounds."""

import pytest
from pydantic import ValidationError

from app.contract.validators.text import ReadabilityValidator
from workers.validators.running import compile_validators
from workers.validators.text import check_readability
from workers.validators.violation import Violation

EASY = "The cat sat on the mat. It saw a dog. The dog ran off."
HARD = (
    "Notwithstanding considerable organisational difficulties, the administration nevertheless"
    " anticipates comprehensive implementation of transformational initiatives throughout the"
    " subsequent financial period. It waits."
)


def found(draft: str, **bounds: float) -> list[Violation]:
    validator = ReadabilityValidator.model_validate({"kind": "readability", **bounds})
    return list(check_readability(validator, draft))


def test_an_easy_text_passes() -> None:
    assert found(EASY, min_reading_ease=60, max_grade=6, max_sentence_words=10) == []


def test_measures_by_the_formulas() -> None:
    # 14 words, 14 syllables, 3 sentences
    (ease,) = found(EASY, max_reading_ease=100)
    assert "Flesch reading ease is 117.5, expected at most 100" in ease.message
    (grade,) = found(EASY, min_grade=0)
    assert "grade is -2.0" in grade.message
    (mean,) = found(EASY, max_sentence_words=4)
    assert "is 4.7, expected at most 4" in mean.message


def test_a_hard_text_points_at_its_longest_sentence() -> None:
    hits = found(HARD, min_reading_ease=30, max_grade=12)
    assert len(hits) == 2
    for hit in hits:
        assert hit.span == (0, HARD.index(" It waits."))
        assert "line 1, column 1, which has 18 words" in hit.fix


def test_code_is_not_read() -> None:
    assert found(f"{EASY}\n\n```\n{HARD * 9}\n```\n", max_grade=6) == []


@pytest.mark.parametrize("draft", ["", "```\ncode\n```", "1 2 3"])
def test_a_draft_without_prose_does_not_pass(draft: str) -> None:
    (hit,) = found(draft, max_grade=9)
    assert "no sentence to measure" in hit.message


@pytest.mark.parametrize("bounds", [{}, {"min_grade": 9, "max_grade": 8}])
def test_bounds_that_nothing_can_meet_are_refused(bounds: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=r"at least one bound|must be at most"):
        found(EASY, **bounds)


@pytest.mark.long
@pytest.mark.parametrize("draft", ["x" * 200_000, '"' * 200_000, "a. " * 66_000, "[" * 200_000])
async def test_hostile_text_comes_to_an_end(draft: str) -> None:
    validator = ReadabilityValidator(kind="readability", max_grade=0)
    assert len(await compile_validators([validator]).run(draft)) <= 1
