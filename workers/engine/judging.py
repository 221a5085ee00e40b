"""How a draft is judged: validators first, then the blind critics."""

from collections.abc import Sequence

from app.contract.judgement import Critique, Finding, OnFail
from workers.engine.briefs import Task
from workers.engine.moves import Check, Draft, Scored
from workers.engine.panel import critiqued
from workers.engine.verdicts import below_floor, total


async def judge(task: Task, draft: Draft) -> Scored:
    """Return the draft with its verdict: validators first, then the blind critics."""
    findings: tuple[Finding, ...] = ()
    if task.has_validators:
        findings = await Check("check", draft.text)
    critique = await critiqued(task, draft.text)
    return Scored(
        draft=draft,
        score=total(critique.scores, task.criteria),
        scores=critique.scores,
        valid=_is_valid(findings),
        floors_met=not below_floor(critique.scores, task.criteria),
        critique=critique,
        findings=findings,
    )


async def validate(task: Task, draft: Draft) -> Scored:
    """Return the draft with what the validators find; its score is the share of them that pass."""
    findings = await Check("check", draft.text)
    failed = {it.source for it in findings if it.on_fail is not OnFail.WARN}
    return Scored(
        draft=draft,
        score=round(1 - len(failed) / task.demanding, 6),
        scores=(),
        valid=_is_valid(findings),
        floors_met=True,
        critique=Critique(scores=()),
        findings=findings,
        score_from="validators",
    )


def _is_valid(findings: Sequence[Finding]) -> bool:
    return all(finding.on_fail is not OnFail.VETO for finding in findings)
