"""The editor as critic: a verdict with findings that point to words of the draft."""

from collections.abc import Iterable, Sequence

from app.contract.editor import MeasureKind, measure_for
from app.contract.judgement import CriterionScore, Critique, Finding, Quotation, Span
from app.contract.requests import Criterion
from workers.models.editor.assessment import RELEVANT, Assessed, assess, counted
from workers.models.editor.document import Document
from workers.models.editor.issues import Issue, Kind
from workers.models.editor.json_text import Flaw, flaw_of, looks_like_json
from workers.models.editor.scoring import Analysis

MOST_FINDINGS = 40
"""Findings in a verdict, the worst first; the weaknesses say how many there are in all."""

LONGEST_QUOTE = 200

MOST_EVIDENCE = 3
"""Quotations that show what a score was lost for, the worst first."""


def judged(draft: str, criteria: Sequence[Criterion]) -> Critique:
    """Return the verdict on a draft; criteria that cannot be measured on it have score None."""
    if looks_like_json(draft):
        return _judged_json(draft, criteria)
    analysis = Analysis(Document(draft))
    assessed = [assess(analysis, criterion, measure_for(criterion)) for criterion in criteria]
    ranked = _ranked(analysis, assessed)
    found = {kind: len(analysis.of(kind)) for kind in Kind if kind in {it.kind for it, _ in ranked}}
    return Critique(
        scores=tuple(_score(it, _evidence(draft, analysis, it)) for it in assessed),
        strengths=tuple(_strengths(analysis, assessed)),
        weaknesses=tuple(f"{counted(analysis, kind)}." for kind in found),
        suggestions=tuple(_suggestions(ranked)),
        findings=tuple(_finding(draft, issue, name) for issue, name in ranked[:MOST_FINDINGS]),
    )


def worth(analysis: Analysis, assessed: Iterable[Assessed]) -> dict[Kind, float]:
    """Return by kind how much the issues that can be mended take off the weighted total."""
    gains = {kind: analysis.score_without(kind) - analysis.score(kind) for kind in Kind}
    total = dict.fromkeys(Kind, 0.0)
    for kind, _, share in _shares(assessed):
        total[kind] += share * gains[kind]
    return total


def _shares(assessed: Iterable[Assessed]) -> list[tuple[Kind, str, float]]:
    """Return each kind that counts for a measured criterion, with its name and how much."""
    return [
        (kind, it.criterion.name, it.criterion.weight * share)
        for it in assessed
        if it.measure is not None and it.score is not None
        for kind, share in RELEVANT[it.measure.kind].items()
    ]


def _ranked(analysis: Analysis, assessed: Sequence[Assessed]) -> list[tuple[Issue, str]]:
    """Return the issues that count for a criterion with its name, the worst first."""
    shares = _shares(assessed)
    named = {
        kind: max((share, name) for k, name, share in shares if k is kind) for kind, _, _ in shares
    }
    lost = {kind: (1 - analysis.score(kind)) * share for kind, (share, _) in named.items()}
    each = {kind: lost[kind] / max(1, len(analysis.of(kind))) for kind in lost}
    issues = [issue for issue in analysis.issues if issue.kind in named]
    issues.sort(key=lambda it: (-each[it.kind] * it.cost, it.start, it.end))
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
    issues.sort(key=lambda it: (-it.cost * shares[it.kind], it.start))
    return tuple(_quotation(draft, issue.start, issue.end) for issue in issues[:MOST_EVIDENCE])


def _quotation(draft: str, start: int, end: int) -> Quotation:
    end = min(end, start + LONGEST_QUOTE)
    return Quotation(quote=draft[start:end], span=Span(start=start, end=end))


def _strengths(analysis: Analysis, assessed: Sequence[Assessed]) -> list[str]:
    kinds = {kind for kind, _, _ in _shares(assessed)}
    clean = [kind for kind in Kind if kind in kinds and analysis.score(kind) >= 0.999]
    said = [f"There are {counted(analysis, kind)}." for kind in clean]
    if Kind.SENTENCES in kinds and analysis.reading_ease >= 60:
        said.append("It is plain English by Flesch Reading Ease.")
    return said


def _suggestions(ranked: Sequence[tuple[Issue, str]]) -> list[str]:
    """Return one suggestion for each kind, made of its worst finding."""
    first: dict[Kind, Issue] = {}
    for issue, _ in ranked:
        first.setdefault(issue.kind, issue)
    return [
        f"{issue.message} {issue.fix}" if issue.fix else issue.message for issue in first.values()
    ]


def _finding(draft: str, issue: Issue, criterion: str) -> Finding:
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
    flaw = flaw_of(draft)
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
    names = [it.criterion for it in scores if it.reason == reason]
    return Critique(
        scores=tuple(scores),
        strengths=("It is valid JSON.",) if flaw is None else (),
        weaknesses=() if flaw is None else ("It is not valid JSON.",),
        findings=(_flawed(draft, flaw, names[0]),) if flaw and names else (),
    )


def _flawed(draft: str, flaw: Flaw, criterion: str) -> Finding:
    start = min(flaw.position, max(0, len(draft) - 1))
    return Finding(
        source="critic",
        kind=criterion,
        message=f"The text is not JSON from here: {flaw.message}",
        fix="Repair the syntax and keep every value.",
        span=Span(start=start, end=min(len(draft), start + 1)),
        quote=draft[start : start + 1] or None,
    )
