"""The editor as reviser: it fixes the worst kinds of issues, and only those with a safe edit."""

from collections.abc import Sequence
from typing import Any

from app.contract.editor import MeasureKind, measure_for
from app.contract.judgement import Criterion, Finding
from workers.editor.critic import Assessed, assess, worth
from workers.editor.rules import Analysis
from workers.text.document import Document
from workers.text.edits import IssueKind, with_edits
from workers.text.json_documents import enclosed, looks_like_json, repaired

SHARE = 0.4
"""A revision fixes the worst kinds of issues until it has this share of the possible gain."""

JSON_KINDS = {"json", "json_schema"}

SMALL = 0.03
"""A possible gain this small is taken in one revision."""


def revised(
    draft: str,
    criteria: Sequence[Criterion],
    findings: Sequence[Finding] = (),
    schemas: Sequence[Any] = (),
) -> str:
    """Return the draft with the worst of its issues fixed, or unchanged when none can be.

    The same draft, criteria and findings always give the same text. Numbers, names, negations,
    quotations, links, code and the structure of the page stay as they are.
    """
    if looks_like_json(draft):
        return repaired(draft, schemas) or draft
    if schemas or any(finding.kind in JSON_KINDS for finding in findings):
        return enclosed(draft, schemas) or draft
    measures = [(criterion, measure_for(criterion)) for criterion in criteria]
    if any(measure and measure.kind is MeasureKind.JSON for _, measure in measures):
        return enclosed(draft) or draft
    analysis = Analysis(Document(draft))
    if not analysis.is_readable:
        return draft
    assessed = [assess(analysis, criterion, measure) for criterion, measure in measures]
    kinds = _worst(analysis, assessed, wants_less=_is_too_long(assessed, findings))
    if not kinds:
        return draft
    chosen = [issue for kind in kinds for issue in analysis.of(kind) if issue.edit]
    return with_edits(analysis.document, [issue.edit for issue in chosen if issue.edit])


def _worst(
    analysis: Analysis, assessed: Sequence[Assessed], *, wants_less: bool
) -> list[IssueKind]:
    """Return the kinds of issues to fix now, the worst first."""
    gains = worth(analysis, assessed)
    if wants_less and any(issue.edit for issue in analysis.of(IssueKind.WORDINESS)):
        gains[IssueKind.WORDINESS] = max(1.0, 2 * max(gains.values()))
    ranked = sorted((kind for kind in IssueKind if gains[kind] > 0), key=lambda kind: -gains[kind])
    total = sum(gains.values())
    taken: list[IssueKind] = []
    for kind in ranked:
        if (
            taken
            and total > SMALL
            and sum(gains[kind_taken] for kind_taken in taken) >= SHARE * total
        ):
            break
        taken.append(kind)
    return taken


def _is_too_long(assessed: Sequence[Assessed], findings: Sequence[Finding]) -> bool:
    """Return whether a criterion or a validator asks for a shorter text."""
    return any(
        "at most" in finding.message for finding in findings if finding.kind == "length"
    ) or any(
        each_assessed.measure is not None
        and each_assessed.measure.kind is MeasureKind.LENGTH
        and each_assessed.measure.maximum is not None
        and each_assessed.score is not None
        and each_assessed.score < 1
        for each_assessed in assessed
    )
