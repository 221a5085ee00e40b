"""Validators of texts: their length, what they contain, readability and spelling."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, Field, model_validator

from app.contract.regexes import compile_pattern, instructions_of
from app.contract.validators import Regex, Validator, quoted_list

Count = Annotated[int, Field(ge=0, le=1_000_000)]
Unit = Literal["characters", "words", "sentences"]
UNITS: tuple[Unit, ...] = get_args(Unit)
ReadabilityMeasure = Literal["reading_ease", "grade", "sentence_words"]
MEASURES: tuple[ReadabilityMeasure, ...] = get_args(ReadabilityMeasure)
Ease = Annotated[float, Field(ge=-500, le=130)]
Grade = Annotated[float, Field(ge=-5, le=100)]
MeanWords = Annotated[float, Field(gt=0, le=1_000)]
Texts = tuple[Annotated[str, Field(min_length=1, max_length=2_000)], ...]


class _Bounded(BaseModel):
    """What validators have in common that bound figures from below and from above."""

    figures: ClassVar[Mapping[str, str]]
    """What can be bounded, in words, by the ends of the names of two fields."""
    example: ClassVar[str]

    @model_validator(mode="after")
    def _bounds_can_be_met(self) -> Self:
        pairs = {name: self.bounds(name) for name in self.figures}
        if all(bound is None for pair in pairs.values() for bound in pair):
            raise ValueError(f"at least one bound is required, such as {self.example}")
        for name, (least, most) in pairs.items():
            if least is not None and most is not None and least > most:
                raise ValueError(f"min_{name} must be at most max_{name}")
        return self

    def bounds(self, name: str) -> tuple[float | None, float | None]:
        """Return the minimum and the maximum of a figure; `None` means no bound."""
        return getattr(self, f"min_{name}"), getattr(self, f"max_{name}")

    def in_words(self) -> str:
        words = (_bounded(*self.bounds(name), what) for name, what in self.figures.items())
        return f"has {', '.join(filter(None, words))}"


def _bounded(least: float | None, most: float | None, what: str) -> str:
    given = (
        f"at least {least}" if least is not None else "",
        f"at most {most}" if most is not None else "",
    )
    bounds = " and ".join(filter(None, given))
    return bounds and f"{bounds} {what}"


class LengthValidator(_Bounded, Validator):
    """Bounds on characters, words and sentences, each inclusive.

    A character is a Unicode code point. A word is a run of letters, digits and marks, joined by
    single apostrophes, hyphens, dots and commas inside it; each ideograph and kana is a word. A
    sentence ends at `.`, `!`, `?` or `…` before white space, not after an abbreviation, or at an
    empty line, and contains a word.
    """

    kind: Literal["length"]
    min_characters: Count | None = None
    max_characters: Count | None = None
    min_words: Count | None = None
    max_words: Count | None = None
    min_sentences: Count | None = None
    max_sentences: Count | None = None

    figures: ClassVar[Mapping[str, str]] = {unit: unit for unit in UNITS}
    example: ClassVar[str] = "max_words"

    def bounds(self, name: str) -> tuple[int | None, int | None]:
        return getattr(self, f"min_{name}"), getattr(self, f"max_{name}")

    def is_quick(self, draft: str) -> bool:
        """Return whether counting takes a few milliseconds: 300 ns per character (measured)."""
        return len(draft) <= 10_000


class ContainsValidator(Validator):
    """The draft contains all of `texts`."""

    kind: Literal["contains"]
    texts: Texts = Field(min_length=1, max_length=100)
    case_sensitive: bool = True

    def in_words(self) -> str:
        case = "" if self.case_sensitive else " in any letter case"
        return f"contains{case} {quoted_list(self.texts)}"

    def is_quick(self, draft: str) -> bool:
        """Return whether the search is quick: 1 ns per text and character (measured)."""
        return len(draft) * (len(self.texts) + 1) <= 1_000_000


class ExcludesValidator(Validator):
    """The draft contains none of `texts`."""

    kind: Literal["excludes"]
    texts: Texts = Field(min_length=1, max_length=100)
    case_sensitive: bool = True
    whole_words: bool = Field(
        False, description="Match whole words only, so that `just` is not found in `adjust`."
    )
    replacements: dict[str, Annotated[str, Field(max_length=2_000)]] = Field(
        {}, description="What to write instead of a text, for `on_fail: fix`: one for each of them."
    )

    @model_validator(mode="after")
    def _replacements_are_of_texts(self) -> Self:
        if unknown := [text for text in self.replacements if text not in self.texts]:
            raise ValueError(f"a replacement of what is not in texts: {unknown[0]!r}")
        compared = str if self.case_sensitive else str.casefold
        for new in self.replacements.values():
            written = (new, new[:1].upper() + new[1:])  # as that of a text with a capital is
            if any(compared(text) in compared(form) for text in self.texts for form in written):
                raise ValueError(f"the replacement {new!r} contains a forbidden text")
        return self

    def can_fix(self) -> bool:
        """Texts are replaced if each of them has a replacement."""
        return set(self.texts) <= self.replacements.keys()

    def in_words(self) -> str:
        whole = " as whole words" if self.whole_words else ""
        case = "" if self.case_sensitive else ", in any letter case"
        return f"contains nowhere{whole}{case} {quoted_list(self.texts)}"

    def is_quick(self, draft: str) -> bool:
        """Return whether the search is quick: 300 ns per character (measured)."""
        return len(draft) * (len(self.texts) + 1) <= 50_000


class RegexValidator(Validator):
    """The draft matches (or does not match) a pattern in RE2 syntax, anywhere in the draft."""

    kind: Literal["regex"]
    pattern: str = Field(min_length=1, max_length=1_000)
    expect: Literal["match", "no_match"] = "match"
    case_sensitive: bool = True

    def in_words(self) -> str:
        verb = "matches" if self.expect == "match" else "matches nowhere"
        case = "" if self.case_sensitive else ", without regard to case"
        return f"{verb} the regular expression (RE2{case}) {self.pattern}"

    def regexes(self) -> Mapping[str, Regex]:
        return {"/pattern": Regex(self.pattern, self.case_sensitive)}

    def is_quick(self, draft: str) -> bool:
        """Return whether RE2 is quick at its slowest: 9 ns per character and instruction."""
        compiled = compile_pattern(self.pattern, case_sensitive=self.case_sensitive)
        return len(draft) * instructions_of(compiled) <= 500_000


class ReadabilityValidator(_Bounded, Validator):
    """Bounds on the readability of an English draft, each inclusive.

    `reading_ease` is Flesch's (60 to 70 is plain English), `grade` Flesch and Kincaid's US school
    year, `sentence_words` the mean length of a sentence. Code, links and numbers are ignored.
    """

    kind: Literal["readability"]
    min_reading_ease: Ease | None = None
    max_reading_ease: Ease | None = None
    min_grade: Grade | None = None
    max_grade: Grade | None = None
    min_sentence_words: MeanWords | None = None
    max_sentence_words: MeanWords | None = None

    figures: ClassVar[Mapping[str, str]] = {
        "reading_ease": "as Flesch reading ease",
        "grade": "as Flesch-Kincaid grade",
        "sentence_words": "words to a sentence on average",
    }
    example: ClassVar[str] = "max_grade"


class SpellingValidator(Validator):
    """No word of an English draft is a known misspelling, or repeated.

    Known are some 85,000 misspellings that can only mean one word, and wrong articles. Code, links,
    quotations and names are left alone.
    """

    kind: Literal["spelling"]
    allow: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(
        (), max_length=1_000, description="Words to accept, in any letter case."
    )

    def in_words(self) -> str:
        words = "has no misspelt and no repeated word"
        return f"{words}; accepted are {', '.join(self.allow)}" if self.allow else words

    def can_fix(self) -> bool:
        """A misspelling that can only mean one word is replaced by it."""
        return True
