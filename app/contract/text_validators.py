"""Validators of texts: how long they are, what stands in them."""

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from app.contract.validator import Validator

Count = Annotated[int, Field(ge=0, le=1_000_000)]
Unit = Literal["characters", "words", "sentences"]
UNITS: tuple[Unit, ...] = get_args(Unit)
Measure = Literal["reading_ease", "grade", "sentence_words"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
Ease = Annotated[float, Field(ge=-500, le=130)]
Grade = Annotated[float, Field(ge=-5, le=100)]
Mean = Annotated[float, Field(gt=0, le=1_000)]
Texts = tuple[Annotated[str, Field(min_length=1, max_length=2_000)], ...]


class LengthValidator(Validator):
    """Bounds on characters, words and sentences, each inclusive.

    A character is a Unicode code point. A word is a run of letters, digits and marks, held together
    by single apostrophes, hyphens, dots and commas inside it; each ideograph and kana is a word. A
    sentence ends at `.`, `!`, `?` or `…` before white space, not after an abbreviation, or at an
    empty line, and holds a word.
    """

    kind: Literal["length"]
    min_characters: Count | None = None
    max_characters: Count | None = None
    min_words: Count | None = None
    max_words: Count | None = None
    min_sentences: Count | None = None
    max_sentences: Count | None = None

    @model_validator(mode="after")
    def _bounds_can_be_met(self) -> Self:
        bounds = [self.bounds(unit) for unit in UNITS]
        if all(bound is None for pair in bounds for bound in pair):
            raise ValueError("give at least one bound, such as max_words")
        for unit, (least, most) in zip(UNITS, bounds, strict=True):
            if least is not None and most is not None and least > most:
                raise ValueError(f"min_{unit} is greater than max_{unit}")
        return self

    def bounds(self, unit: Unit) -> tuple[int | None, int | None]:
        """Return the least and the most of a unit that are allowed; `None` is no bound."""
        return getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}")


class ContainsValidator(Validator):
    """Every one of `texts` stands in the draft."""

    kind: Literal["contains"]
    texts: Texts = Field(min_length=1, max_length=100)
    case_sensitive: bool = True


class ExcludesValidator(Validator):
    """None of `texts` stands in the draft."""

    kind: Literal["excludes"]
    texts: Texts = Field(min_length=1, max_length=100)
    case_sensitive: bool = True
    whole_words: bool = Field(
        False, description="`just` is then not found in `adjust`: no letter or digit beside it."
    )


class RegexValidator(Validator):
    """The draft matches (or does not match) a pattern in RE2 syntax, anywhere in the draft."""

    kind: Literal["regex"]
    pattern: str = Field(min_length=1, max_length=1_000)
    expect: Literal["match", "no_match"] = "match"
    case_sensitive: bool = True


class ReadabilityValidator(Validator):
    """Bounds on how hard an English draft is to read, each inclusive.

    `reading_ease` is Flesch's (60 to 70 is plain English), `grade` Flesch and Kincaid's US school
    year, `sentence_words` the mean length of a sentence. Code, links and numbers are not read.
    """

    kind: Literal["readability"]
    min_reading_ease: Ease | None = None
    max_reading_ease: Ease | None = None
    min_grade: Grade | None = None
    max_grade: Grade | None = None
    min_sentence_words: Mean | None = None
    max_sentence_words: Mean | None = None

    @model_validator(mode="after")
    def _bounds_can_be_met(self) -> Self:
        bounds = [self.bounds(measure) for measure in MEASURES]
        if all(bound is None for pair in bounds for bound in pair):
            raise ValueError("give at least one bound, such as max_grade")
        for measure, (least, most) in zip(MEASURES, bounds, strict=True):
            if least is not None and most is not None and least > most:
                raise ValueError(f"min_{measure} is greater than max_{measure}")
        return self

    def bounds(self, measure: Measure) -> tuple[float | None, float | None]:
        """Return the least and the most of a measure that are allowed; `None` is no bound."""
        return getattr(self, f"min_{measure}"), getattr(self, f"max_{measure}")


class SpellingValidator(Validator):
    """No word of an English draft is a known misspelling, or is there twice in a row.

    Known are some 85,000 misspellings that can only mean one word, and wrong articles. Code, links,
    quotations and names are left alone.
    """

    kind: Literal["spelling"]
    allow: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(
        (), max_length=1_000, description="Words that are right here, in any case."
    )
