"""Which criteria the editor measures, and how: what it could only guess at has no measure."""

import pytest

from app.contract.editor import Measure, MeasureKind, Scale, measure_for
from app.contract.judgement import QUALITY, Criterion


def length(
    minimum: int | None = None, maximum: int | None = None, scale: Scale = Scale.WORDS
) -> Measure:
    return Measure(kind=MeasureKind.LENGTH, scale=scale, minimum=minimum, maximum=maximum)


@pytest.mark.parametrize(
    ("name", "description", "kind"),
    [
        ("quality", "", MeasureKind.QUALITY),
        ("clarity", "", MeasureKind.READABILITY),
        ("readability", "Easy for a teenager.", MeasureKind.READABILITY),
        ("plain language", "", MeasureKind.READABILITY),
        ("conciseness", "", MeasureKind.CONCISENESS),
        ("brevity", "No padding.", MeasureKind.CONCISENESS),
        ("spelling", "", MeasureKind.SPELLING),
        ("grammar and typos", "", MeasureKind.SPELLING),
        ("sentence length", "", MeasureKind.SENTENCES),
        ("active_voice", "", MeasureKind.VOICE),
        ("tone", "Warm, plain, no jargon.", MeasureKind.JARGON),
        ("format", "The output is valid JSON.", MeasureKind.JSON),
        ("rule 7", "Avoids buzzwords.", MeasureKind.JARGON),
        ("rule 8", "Short sentences.", MeasureKind.SENTENCES),
        ("audience", "Easy to read for a teenager.", MeasureKind.READABILITY),
    ],
)
def test_a_criterion_is_read_by_its_name_and_then_by_its_description(
    name: str, description: str, kind: MeasureKind
) -> None:
    measure = measure_for(Criterion(name=name, description=description))
    assert measure is not None
    assert measure.kind is kind


def test_the_default_criterion_is_measured() -> None:
    assert measure_for(QUALITY) == Measure(kind=MeasureKind.QUALITY)


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("accuracy", "States only what policy.md says."),
        ("completeness", ""),
        ("tone", "Warm and friendly."),
        ("brand voice", ""),
        ("persuasion", "Convinces a sceptical reader."),
        ("quality", "The argument is convincing."),
        ("facts", "Every fact is clear and correct."),
        ("humour", ""),
        ("structure", "Has three parts."),
        ("audience", "Suits customers who read on a phone."),
    ],
)
def test_what_needs_understanding_has_no_measure(name: str, description: str) -> None:
    assert measure_for(Criterion(name=name, description=description)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("under 120 words", length(maximum=119)),
        ("at most 120 words", length(maximum=120)),
        ("No more than 1,500 characters", length(maximum=1500, scale=Scale.CHARACTERS)),
        ("120 words or fewer", length(maximum=120)),
        ("max 3 sentences", length(maximum=3, scale=Scale.SENTENCES)),
        ("a 50-word limit? fewer than 50 words", length(maximum=49)),
        ("at least 80 words", length(minimum=80)),
        ("more than 80 words", length(minimum=81)),
        ("between 80 and 120 words", length(80, 120)),
        ("80-120 words", length(80, 120)),
        ("exactly 100 words", length(100, 100)),
        ("about 100 words", length(90, 110)),
    ],
)
def test_a_length_is_read_with_its_bounds(text: str, expected: Measure) -> None:
    assert measure_for(Criterion(name="length", description=text)) == expected


@pytest.mark.parametrize("text", ["8th grade", "8th-grade reading level", "grade level of 8"])
def test_a_school_grade_is_an_upper_bound(text: str) -> None:
    expected = Measure(kind=MeasureKind.READABILITY, scale=Scale.GRADE, maximum=8)
    assert measure_for(Criterion(name="readability", description=text)) == expected


def test_a_bound_in_a_criterion_that_cannot_be_measured_does_not_make_it_measurable() -> None:
    asked = Criterion(name="accuracy", description="Repeats at most 3 sentences of policy.md.")
    assert measure_for(asked) is None
