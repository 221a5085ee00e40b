"""The editor as critic: scores by criterion with reasons, comparisons, and checklists."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp

from app.contract.editor import Measure, MeasureKind, Scale, measure_for
from app.contract.judgement import (
    QUALITY,
    Criterion,
    CriterionScore,
    Critique,
    Finding,
    Quotation,
    Span,
)
from workers.editor.rules import FEWEST_JUDGED, WEIGHTS, Analysis
from workers.engine.judging import total
from workers.text.document import Document
from workers.text.edits import IssueKind, TextIssue
from workers.text.json_documents import JsonFlaw, json_flaw, looks_like_json
from workers.text.words import count_of_words, sentences

RELEVANT: Mapping[MeasureKind, Mapping[IssueKind, float]] = {
    MeasureKind.QUALITY: {kind: weight for kind, weight in WEIGHTS.items() if kind},
    MeasureKind.READABILITY: {
        IssueKind.SENTENCES: 0.5,
        IssueKind.WORDINESS: 0.3,
        IssueKind.JARGON: 0.2,
    },
    MeasureKind.CONCISENESS: {IssueKind.WORDINESS: 1.0},
    MeasureKind.LENGTH: {},
    MeasureKind.SPELLING: {IssueKind.SPELLING: 1.0},
    MeasureKind.SENTENCES: {IssueKind.SENTENCES: 1.0},
    MeasureKind.VOICE: {IssueKind.VOICE: 1.0},
    MeasureKind.JARGON: {IssueKind.JARGON: 1.0},
    MeasureKind.JSON: {},
}
"""How much an issue of each kind counts for a measure."""

NAMES = {
    IssueKind.SPELLING: ("spelling or punctuation slip", "spelling and punctuation slips"),
    IssueKind.WORDINESS: ("wordy phrase", "wordy phrases"),
    IssueKind.SENTENCES: ("long sentence", "long sentences"),
    IssueKind.VOICE: ("passive sentence", "passive sentences"),
    IssueKind.JARGON: ("piece of jargon or officialese", "pieces of jargon or officialese"),
}


@dataclass(frozen=True, slots=True)
class Assessed:
    """A criterion with its measure, its score (None: not measurable here) and the reason."""

    criterion: Criterion
    measure: Measure | None
    score: float | None
    reason: str


def assess(analysis: Analysis, criterion: Criterion, measure: Measure | None) -> Assessed:
    """Return how well a text that is not JSON meets a criterion."""
    if measure is None:
        reason = "Not measured: this editor counts and compares words, it does not understand them."
        return Assessed(criterion, None, None, reason)
    if measure.kind is MeasureKind.LENGTH:
        return Assessed(criterion, measure, *_length(analysis.document.text, measure))
    if measure.kind is MeasureKind.JSON:
        return Assessed(criterion, measure, 0.0, "It is not JSON.")
    if not analysis.is_readable:
        return Assessed(criterion, measure, None, "Not measured: the text has no English prose.")
    score, reason = _OF_PROSE[measure.kind](analysis, measure)
    if measure.kind is MeasureKind.QUALITY and criterion.description in {"", QUALITY.description}:
        reason += " Measured as writing alone: whether it does what the task asks is not measured."
    return Assessed(criterion, measure, round(min(1.0, max(0.0, score)), 4), reason)


def counted_issues(analysis: Analysis, kind: IssueKind) -> str:
    """Return how many issues of a kind there are, in words."""
    count = len(analysis.of(kind))
    singular, plural = NAMES[kind]
    return f"{count or 'no'} {singular if count == 1 else plural}"


def _quality(analysis: Analysis, _: Measure) -> tuple[float, str]:
    found = ", ".join(counted_issues(analysis, kind) for kind in IssueKind)
    return analysis.quality, f"{found[0].upper()}{found[1:]}. {_reading(analysis)}"


def _readability(analysis: Analysis, measure: Measure) -> tuple[float, str]:
    if measure.scale is Scale.GRADE and measure.maximum is not None:
        over = max(0.0, analysis.grade - measure.maximum)
        return exp(-over / 4), f"{_reading(analysis)} Expected at most grade {measure.maximum}."
    reason = f"{counted_issues(analysis, IssueKind.SENTENCES).capitalize()}. {_reading(analysis)}"
    return 0.6 * analysis.readability + 0.4 * analysis.score(IssueKind.SENTENCES), reason


def _by_kind(kind: IssueKind) -> Callable[[Analysis, Measure], tuple[float, str]]:
    def score(analysis: Analysis, _: Measure) -> tuple[float, str]:
        found = counted_issues(analysis, kind)
        return analysis.score(
            kind
        ), f"{found[0].upper()}{found[1:]} in {analysis.counts.words} words."

    return score


_OF_PROSE: Mapping[MeasureKind, Callable[[Analysis, Measure], tuple[float, str]]] = {
    MeasureKind.QUALITY: _quality,
    MeasureKind.READABILITY: _readability,
    MeasureKind.CONCISENESS: _by_kind(IssueKind.WORDINESS),
    MeasureKind.SPELLING: _by_kind(IssueKind.SPELLING),
    MeasureKind.SENTENCES: _by_kind(IssueKind.SENTENCES),
    MeasureKind.VOICE: _by_kind(IssueKind.VOICE),
    MeasureKind.JARGON: _by_kind(IssueKind.JARGON),
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
    }.get(measure.scale or Scale.WORDS, count_of_words(text))
    bounds = [f"at least {measure.minimum}"] if measure.minimum is not None else []
    bounds += [f"at most {measure.maximum}"] if measure.maximum is not None else []
    over = count - measure.maximum if measure.maximum is not None else 0
    short = measure.minimum - count if measure.minimum is not None else 0
    off = max(0, over) / max(1, measure.maximum or 1) + max(0, short) / max(1, measure.minimum or 1)
    scale = measure.scale or Scale.WORDS
    return round(0.8 ** (10 * off), 4), f"{count} {scale.value}, expected {' and '.join(bounds)}."


MOST_FINDINGS = 40
"""Findings in a verdict, the worst first; the weaknesses say how many there are in all."""

LONGEST_QUOTE = 200

MOST_EVIDENCE = 3
"""Quotations that show what a score was lost for, the worst first."""


NOT_OF_A_SAMPLE = "Not measured: only parts of the text were read. A validator can count all of it."


def judged(draft: str, criteria: Sequence[Criterion], *, is_sample: bool = False) -> Critique:
    """Return the verdict on a draft; criteria that cannot be measured on it have score None.

    A sample of a draft does not show how long that is.
    """
    if looks_like_json(draft):
        return _judged_json(draft, criteria)
    analysis = Analysis(Document(draft))
    measures = [(criterion, measure_for(criterion)) for criterion in criteria]
    assessed = [
        Assessed(criterion, measure, None, NOT_OF_A_SAMPLE)
        if is_sample and measure is not None and measure.kind is MeasureKind.LENGTH
        else assess(analysis, criterion, measure)
        for criterion, measure in measures
    ]
    scored = (
        assessed
        if analysis.says_enough
        else [_unscored(each_assessed) for each_assessed in assessed]
    )
    ranked = _ranked(analysis, assessed)
    found = {
        kind: len(analysis.of(kind))
        for kind in IssueKind
        if kind in {issue_kind.kind for issue_kind, _ in ranked}
    }
    return Critique(
        scores=tuple(_score(assessed, _evidence(draft, analysis, assessed)) for assessed in scored),
        strengths=tuple(_strengths(analysis, scored)),
        weaknesses=tuple(f"{counted_issues(analysis, kind)}." for kind in found),
        suggestions=tuple(_suggestions(ranked)),
        findings=tuple(_finding(draft, issue, name) for issue, name in ranked[:MOST_FINDINGS]),
    )


def _unscored(assessed: Assessed) -> Assessed:
    """Return what a text that says too little meets: its length only."""
    if assessed.score is None or (
        assessed.measure and assessed.measure.kind in (MeasureKind.LENGTH, MeasureKind.JSON)
    ):
        return assessed
    reason = f"Not measured: a text of fewer than {FEWEST_JUDGED} different words says too little."
    return replace(assessed, score=None, reason=reason)


def worth(analysis: Analysis, assessed: Iterable[Assessed]) -> dict[IssueKind, float]:
    """Return by kind how much the issues that have an edit take off the weighted total."""
    gains = {kind: analysis.score_without(kind) - analysis.score(kind) for kind in IssueKind}
    total = dict.fromkeys(IssueKind, 0.0)
    for kind, _, share in _shares(assessed):
        total[kind] += share * gains[kind]
    return total


def _shares(assessed: Iterable[Assessed]) -> list[tuple[IssueKind, str, float]]:
    """Return each kind that counts for a measured criterion, its name, and the kind's weight."""
    return [
        (kind, each_assessed.criterion.name, each_assessed.criterion.weight * share)
        for each_assessed in assessed
        if each_assessed.measure is not None and each_assessed.score is not None
        for kind, share in RELEVANT[each_assessed.measure.kind].items()
    ]


def _ranked(analysis: Analysis, assessed: Sequence[Assessed]) -> list[tuple[TextIssue, str]]:
    """Return the issues that count for a criterion, with the criterion's name, the worst first."""
    shares = _shares(assessed)
    named = {
        kind: max((share, name) for k, name, share in shares if k is kind) for kind, _, _ in shares
    }
    lost = {kind: (1 - analysis.score(kind)) * share for kind, (share, _) in named.items()}
    each = {kind: lost[kind] / max(1, len(analysis.of(kind))) for kind in lost}
    issues = [issue for issue in analysis.issues if issue.kind in named]
    issues.sort(key=lambda issue: (-each[issue.kind] * issue.cost, issue.start, issue.end))
    return [(issue, named[issue.kind][1]) for issue in issues]


def _score(assessed: Assessed, evidence: tuple[Quotation, ...] = ()) -> CriterionScore:
    return CriterionScore(
        criterion=assessed.criterion.name,
        score=assessed.score,
        reason=assessed.reason,
        evidence=evidence,
    )


def _evidence(draft: str, analysis: Analysis, assessed: Assessed) -> tuple[Quotation, ...]:
    """Return the words that most of a criterion's score was lost for."""
    shares = {kind: share for kind, _, share in _shares([assessed])}
    issues = [issue for issue in analysis.issues if issue.kind in shares]
    issues.sort(key=lambda issue: (-issue.cost * shares[issue.kind], issue.start))
    return tuple(_quotation(draft, issue.start, issue.end) for issue in issues[:MOST_EVIDENCE])


def _quotation(draft: str, start: int, end: int) -> Quotation:
    end = min(end, start + LONGEST_QUOTE)
    return Quotation(quote=draft[start:end], span=Span(start=start, end=end))


def _strengths(analysis: Analysis, assessed: Sequence[Assessed]) -> list[str]:
    kinds = {kind for kind, _, _ in _shares(assessed)}
    clean = [kind for kind in IssueKind if kind in kinds and analysis.score(kind) >= 0.999]
    said = [f"There are {counted_issues(analysis, kind)}." for kind in clean]
    if IssueKind.SENTENCES in kinds and analysis.reading_ease >= 60:
        said.append("It is plain English by Flesch Reading Ease.")
    return said


def _suggestions(ranked: Sequence[tuple[TextIssue, str]]) -> list[str]:
    """Return one suggestion for each kind, made of its worst finding."""
    first: dict[IssueKind, TextIssue] = {}
    for issue, _ in ranked:
        first.setdefault(issue.kind, issue)
    return [
        f"{issue.message} {issue.fix}" if issue.fix else issue.message for issue in first.values()
    ]


def _finding(draft: str, issue: TextIssue, criterion: str) -> Finding:
    quoted = _quotation(draft, issue.start, issue.end)
    return Finding(
        source="critic",
        kind=criterion,
        message=issue.message,
        fix=issue.fix,
        span=quoted.span,
        quote=quoted.quote,
    )


def _judged_json(draft: str, criteria: Sequence[Criterion]) -> Critique:
    flaw = json_flaw(draft)
    score = 1.0 if flaw is None else round(flaw.read / 2, 4)
    reason = "It parses as JSON." if flaw is None else f"It does not parse: {flaw.message}"
    scores = []
    for criterion in criteria:
        measure = measure_for(criterion)
        if measure is not None and measure.kind in {MeasureKind.JSON, MeasureKind.QUALITY}:
            scores.append(CriterionScore(criterion=criterion.name, score=score, reason=reason))
        elif measure is not None and measure.kind is MeasureKind.LENGTH:
            scores.append(_score(assess(Analysis(Document(draft)), criterion, measure)))
        else:
            unmeasured = "Not measured: the draft is JSON, not prose."
            scores.append(CriterionScore(criterion=criterion.name, score=None, reason=unmeasured))
    names = [score.criterion for score in scores if score.reason == reason]
    return Critique(
        scores=tuple(scores),
        strengths=("It is valid JSON.",) if flaw is None else (),
        weaknesses=() if flaw is None else ("It is not valid JSON.",),
        findings=(_flawed(draft, flaw, names[0]),) if flaw and names else (),
    )


def _flawed(draft: str, flaw: JsonFlaw, criterion: str) -> Finding:
    start = min(flaw.position, max(0, len(draft) - 1))
    return Finding(
        source="critic",
        kind=criterion,
        message=f"The text is not JSON from here: {flaw.message}",
        fix="Repair the syntax and keep every value.",
        span=Span(start=start, end=min(len(draft), start + 1)),
        quote=draft[start : start + 1] or None,
    )


SAME = 1e-6


def preference(a: str, b: str, criteria: Sequence[Criterion]) -> str | None:
    """Return which text scores higher, as JSON; None if no criterion can be measured on both.

    A criterion that can be measured on only one of them is ignored.
    """
    verdicts = [judged(a, criteria), judged(b, criteria)]
    measured = set.intersection(*(_measured(verdict) for verdict in verdicts))
    common = [criterion for criterion in criteria if criterion.name in measured]
    scores = [
        total([s for s in verdict.scores if s.criterion in measured], common)
        for verdict in verdicts
    ]
    if scores[0] is None or scores[1] is None:
        return None
    gain = scores[0] - scores[1]
    better = "tie" if abs(gain) <= SAME else "A" if gain > 0 else "B"
    names = ", ".join(criterion.name for criterion in common)
    reason = f"A measures {scores[0]:g} and B {scores[1]:g} on {names}."
    return json.dumps({"reason": reason, "better": better})


def _measured(verdict: Critique) -> set[str]:
    return {score.criterion for score in verdict.scores if score.score is not None}


PROSE = (
    Criterion(name="clarity", description="Is it clear and easy to read?"),
    Criterion(name="conciseness", description="Is it concise, without padding?"),
    Criterion(name="spelling", description="Is it free of spelling mistakes?"),
    Criterion(name="active voice", description="Is it written in active voice?"),
    Criterion(name="jargon", description="Is it free of jargon?"),
)
VALID_JSON = Criterion(name="valid json", description="Is it valid JSON?")

MOST_READ = 2_000
"""Characters of a task that are searched for a bound."""


def checklist(instruction: str | None, draft: str | None) -> tuple[Criterion, ...]:
    """Return five or six criteria, all of which the editor can measure."""
    task = (instruction or "")[:MOST_READ]
    measure = measure_for(Criterion(name="length", description=task))
    if looks_like_json(draft or "") or (measure and measure.kind is MeasureKind.JSON):
        return (VALID_JSON, *PROSE)
    if measure and measure.scale is Scale.GRADE:
        question = f"Can it be read at grade {measure.maximum}?"
        return (Criterion(name="reading grade", description=question), *PROSE)
    if measure and measure.kind is MeasureKind.LENGTH:
        return (Criterion(name="length", description=_length_criterion(measure)), *PROSE)
    return PROSE


def _length_criterion(measure: Measure) -> str:
    """Return a question from which the same measure can be read."""
    low, high, scale = measure.minimum, measure.maximum, measure.scale
    if low is not None and high is not None:
        return f"Is it between {low} and {high} {scale} long?"
    bound = f"at least {low}" if low is not None else f"at most {high}"
    return f"Has it {bound} {scale}?"
