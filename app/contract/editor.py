"""What `offline:editor` can measure, so that the API can reject what it cannot.

The words of a criterion's name and description decide. A criterion that asks for something else,
such as facts, warmth or completeness, has no measure; its score is `null`.
"""

import re
from enum import StrEnum

from pydantic import Field

from app.contract import Contract
from app.contract.judgement import QUALITY, Criterion

EDITOR = "offline:editor"
"""The name of the built-in editor: no language model, no key, no network."""


class MeasureKind(StrEnum):
    """Everything that the editor measures."""

    QUALITY = "quality"
    READABILITY = "readability"
    CONCISENESS = "conciseness"
    LENGTH = "length"
    SPELLING = "spelling"
    SENTENCES = "sentences"
    VOICE = "voice"
    JARGON = "jargon"
    JSON = "json"


class Scale(StrEnum):
    """What a bound counts. A grade is a US school year (Kincaid et al. 1975)."""

    WORDS = "words"
    CHARACTERS = "characters"
    SENTENCES = "sentences"
    GRADE = "grade"


class Measure(Contract):
    """A measure of the editor for one criterion; the bounds are inclusive."""

    kind: MeasureKind
    scale: Scale | None = None
    minimum: int | None = Field(None, ge=0)
    maximum: int | None = Field(None, ge=0)


_NUMBER = r"(?P<n>\d{1,3}(?:,\d{3})+|\d+)"
_UNIT = r"[ -]*(?P<unit>words?|characters?|chars|sentences?)\b"
_AT_MOST = (
    r"at most|not? more than|no longer than|not exceed(?:ing)?|up to|within|max(?:imum)?(?: of)?"
    r"|limit(?:ed)?(?: of| to)?"
)
_BOUNDS = (
    (rf"\bbetween {_NUMBER}(?: words| characters| sentences)? and (?P<m>\d[\d,]*){_UNIT}", "range"),
    (rf"\b{_NUMBER} ?(?:-|\u2013|to) ?(?P<m>\d[\d,]*){_UNIT}", "range"),
    (
        rf"\b(?:at least|no(?:t)? fewer than|no less than|minimum(?: of)?) {_NUMBER}{_UNIT}",
        ">=",
    ),
    (rf"\b{_NUMBER}{_UNIT} (?:or more|at least|minimum)", ">="),
    (rf"\b(?:{_AT_MOST}) {_NUMBER}{_UNIT}", "<="),
    (rf"\b(?:under|below|fewer than|less than|shorter than) {_NUMBER}{_UNIT}", "<"),
    (rf"\b(?:over|more than|above|longer than) {_NUMBER}{_UNIT}", ">"),
    (rf"\b{_NUMBER}{_UNIT} (?:or (?:fewer|less)|at most|max(?:imum)?)\b", "<="),
    (rf"\bexactly {_NUMBER}{_UNIT}", "="),
    (rf"\b(?:about|around|roughly|approximately) {_NUMBER}{_UNIT}", "~"),
)
_GRADE = re.compile(
    r"\b(?:(?P<a>\d{1,2})(?:st|nd|rd|th)[ -]grade|grade(?: level)?(?: of)? (?P<b>\d{1,2}))\b"
)

_JSON = re.compile(r"\bjson\b")
_NOT_MEASURED = re.compile(
    r"accura|\bfact|\btru(?:e|th)|faithful|complete(?:ness)?\b|relevan|coheren|logic|argument|persua"
    r"|convinc|empath|warm|friendl|polite|kind\b|creativ|original|humou?r|funny|formal|\btone\b"
    r"|voice of|bias|safe|consisten|structur|organi[sz]|evidence|cit(?:e|ation)|legal|complian"
    r"|brand|seo\b|on-topic"
)
_MEASURED: tuple[tuple[MeasureKind, str], ...] = (
    (
        MeasureKind.SPELLING,
        r"spell|typo|grammar|proofread|misspel|punctuation|mechanics|repeated words",
    ),
    (MeasureKind.VOICE, r"active voice|passive|^voice$|active verbs"),
    (MeasureKind.SENTENCES, r"short sentences?|sentence length|long sentences?|run-?on"),
    (MeasureKind.JARGON, r"jargon|buzzwords?|clich[eé]|corporate.?speak|officialese|legalese"),
    (
        MeasureKind.CONCISENESS,
        r"concis|brevity|\bbrief|wordi|wordy|succinct|verbos|\bterse|to the point|padding|filler",
    ),
    (
        MeasureKind.READABILITY,
        (
            r"clarity|\bclear|readab|\breads? (?:well|easily)|\beas(?:y|ier) to (?:read|follow)"
            r"|^reading$|\breading (?:ease|level|age)|plain|simpl|understandab|flesch"
        ),
    ),
    (
        MeasureKind.QUALITY,
        r"quality|overall|\bstyle\b|\bwriting\b|well.?written|polish|\bediting\b",
    ),
)


def measure_for(criterion: Criterion) -> Measure | None:
    """Return how the editor measures the criterion, or None if it cannot.

    The name decides. If it matches no measure, the description decides, which then must not ask for
    anything that cannot be measured.
    """
    name, description = criterion.name.lower().replace("_", " "), criterion.description.lower()
    if _JSON.search(f"{name} {description}"):
        return Measure(kind=MeasureKind.JSON)
    if name == QUALITY.name and criterion.description in {"", QUALITY.description}:
        return Measure(kind=MeasureKind.QUALITY)
    return _of_prose(name, description)


def _of_prose(name: str, description: str) -> Measure | None:
    bounded = _bounds(f"{name} {description}")
    named = _kind(name)
    if bounded and (named is not None or "length" in name or not _NOT_MEASURED.search(name)):
        return bounded
    if named is not None and (named is not MeasureKind.QUALITY or not _asks_for_more(description)):
        return Measure(kind=named)
    if named is not None:
        return None
    said = _kind(description)
    if "tone" in name and said is MeasureKind.JARGON:
        return Measure(kind=MeasureKind.JARGON)
    if said is None or _asks_for_more(f"{name} {description}"):
        return None
    return Measure(kind=said)


def _kind(words: str) -> MeasureKind | None:
    """Return the first kind that the words ask for."""
    return next((kind for kind, pattern in _MEASURED if re.search(pattern, words)), None)


def _asks_for_more(words: str) -> bool:
    return _NOT_MEASURED.search(words) is not None


def _bounds(words: str) -> Measure | None:
    """Return the first bound that is spelled out, such as "under 120 words" or "8th grade"."""
    if grade := _GRADE.search(words):
        return Measure(
            kind=MeasureKind.READABILITY, scale=Scale.GRADE, maximum=int(grade["a"] or grade["b"])
        )
    for pattern, relation in _BOUNDS:
        if found := re.search(pattern, words):
            return _length(found, relation)
    return None


def _length(found: re.Match[str], relation: str) -> Measure:
    scale = next(scale for scale in Scale if scale.value.startswith(found["unit"][:4]))
    n = int(found["n"].replace(",", ""))
    low, high = {
        "<=": (None, n),
        "<": (None, max(0, n - 1)),
        ">=": (n, None),
        ">": (n + 1, None),
        "=": (n, n),
        "~": (n * 9 // 10, -(-n * 11 // 10)),
    }.get(relation, (n, n))
    if relation == "range":
        high = int(found["m"].replace(",", ""))
    return Measure(kind=MeasureKind.LENGTH, scale=scale, minimum=low, maximum=high)
