"""From a criterion to its score, the reason for it, and the kinds of issues that count for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp

from app.contract.editor import Measure, MeasureKind, Scale
from app.contract.requests import QUALITY, Criterion
from workers.models.editor.issues import Kind
from workers.models.editor.scoring import WEIGHTS, Analysis
from workers.validators.words import sentences, words

RELEVANT: Mapping[MeasureKind, Mapping[Kind, float]] = {
    MeasureKind.QUALITY: {kind: weight for kind, weight in WEIGHTS.items() if kind},
    MeasureKind.READABILITY: {Kind.SENTENCES: 0.5, Kind.WORDINESS: 0.3, Kind.JARGON: 0.2},
    MeasureKind.CONCISENESS: {Kind.WORDINESS: 1.0},
    MeasureKind.LENGTH: {},
    MeasureKind.SPELLING: {Kind.SPELLING: 1.0},
    MeasureKind.SENTENCES: {Kind.SENTENCES: 1.0},
    MeasureKind.VOICE: {Kind.VOICE: 1.0},
    MeasureKind.JARGON: {Kind.JARGON: 1.0},
    MeasureKind.JSON: {},
}
"""How much an issue of each kind counts for a measure."""

NAMES = {
    Kind.SPELLING: ("spelling or punctuation slip", "spelling and punctuation slips"),
    Kind.WORDINESS: ("wordy phrase", "wordy phrases"),
    Kind.SENTENCES: ("long sentence", "long sentences"),
    Kind.VOICE: ("passive sentence", "passive sentences"),
    Kind.JARGON: ("piece of jargon or officialese", "pieces of jargon or officialese"),
}


@dataclass(frozen=True, slots=True)
class Assessed:
    """A criterion with its measure, its score (None: not measurable here) and the reason."""

    criterion: Criterion
    measure: Measure | None
    score: float | None
    reason: str


def assess(analysis: Analysis, criterion: Criterion, measure: Measure | None) -> Assessed:
    """Return how far a text that is no JSON meets a criterion."""
    if measure is None:
        reason = "Not measured: this editor counts and compares words, it does not understand them."
        return Assessed(criterion, None, None, reason)
    if measure.kind is MeasureKind.LENGTH:
        return Assessed(criterion, measure, *_length(analysis.document.text, measure))
    if measure.kind is MeasureKind.JSON:
        return Assessed(criterion, measure, 0.0, "It is not JSON.")
    if not analysis.is_readable:
        return Assessed(criterion, measure, None, "Not measured: there is no English prose in it.")
    score, reason = _OF_PROSE[measure.kind](analysis, measure)
    if measure.kind is MeasureKind.QUALITY and criterion.description in {"", QUALITY.description}:
        reason += " Measured as writing alone: whether it does what the task asks is not measured."
    return Assessed(criterion, measure, round(min(1.0, max(0.0, score)), 4), reason)


def counted(analysis: Analysis, kind: Kind) -> str:
    """Return how many issues of a kind there are, in words."""
    count = len(analysis.of(kind))
    singular, plural = NAMES[kind]
    return f"{count or 'no'} {singular if count == 1 else plural}"


def _quality(analysis: Analysis, _: Measure) -> tuple[float, str]:
    found = ", ".join(counted(analysis, kind) for kind in Kind)
    return analysis.quality, f"{found[0].upper()}{found[1:]}. {_reading(analysis)}"


def _readability(analysis: Analysis, measure: Measure) -> tuple[float, str]:
    if measure.scale is Scale.GRADE and measure.maximum is not None:
        over = max(0.0, analysis.grade - measure.maximum)
        return exp(-over / 4), f"{_reading(analysis)} Asked for is grade {measure.maximum}."
    reason = f"{counted(analysis, Kind.SENTENCES).capitalize()}. {_reading(analysis)}"
    return 0.6 * analysis.readability + 0.4 * analysis.score(Kind.SENTENCES), reason


def _by_kind(kind: Kind) -> Callable[[Analysis, Measure], tuple[float, str]]:
    def score(analysis: Analysis, _: Measure) -> tuple[float, str]:
        found = counted(analysis, kind)
        return analysis.score(
            kind
        ), f"{found[0].upper()}{found[1:]} in {analysis.counts.words} words."

    return score


_OF_PROSE: Mapping[MeasureKind, Callable[[Analysis, Measure], tuple[float, str]]] = {
    MeasureKind.QUALITY: _quality,
    MeasureKind.READABILITY: _readability,
    MeasureKind.CONCISENESS: _by_kind(Kind.WORDINESS),
    MeasureKind.SPELLING: _by_kind(Kind.SPELLING),
    MeasureKind.SENTENCES: _by_kind(Kind.SENTENCES),
    MeasureKind.VOICE: _by_kind(Kind.VOICE),
    MeasureKind.JARGON: _by_kind(Kind.JARGON),
}


def _reading(analysis: Analysis) -> str:
    return (
        f"Flesch Reading Ease {analysis.reading_ease:.0f}, school grade {analysis.grade:.1f},"
        f" {analysis.counts.words_per_sentence:.0f} words a sentence."
    )


def _length(text: str, measure: Measure) -> tuple[float, str]:
    """Return 1 within the bounds; each tenth of a bound above or below it takes a fifth off."""
    count = {
        Scale.CHARACTERS: len(text),
        Scale.SENTENCES: sum(1 for _ in sentences(text)),
    }.get(measure.scale or Scale.WORDS, sum(1 for _ in words(text)))
    bounds = [f"at least {measure.minimum}"] if measure.minimum is not None else []
    bounds += [f"at most {measure.maximum}"] if measure.maximum is not None else []
    over = count - measure.maximum if measure.maximum is not None else 0
    short = measure.minimum - count if measure.minimum is not None else 0
    off = max(0, over) / max(1, measure.maximum or 1) + max(0, short) / max(1, measure.minimum or 1)
    scale = measure.scale or Scale.WORDS
    return round(0.8 ** (10 * off), 4), f"{count} {scale.value}; asked for {' and '.join(bounds)}."
