"""How a draft is judged: validators first, then the blind critics."""

from collections.abc import Sequence

from app.contract.edits import lacking
from app.contract.judgement import Critique, Finding, OnFail
from workers.engine.briefs import Task
from workers.engine.moves import Check, Draft, Scored
from workers.engine.panel import critiqued
from workers.engine.verdicts import below_floor, total

LOCKED = "locked"
"""The source of what is found when locked text is gone; no validator counts it."""


async def judge(task: Task, draft: Draft) -> Scored:
    """Return the draft with its verdict: validators first, then the blind critics."""
    findings = await _checked(task, draft.text)
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
    findings = await _checked(task, draft.text)
    demanded = (it for it in findings if it.on_fail is not OnFail.WARN)
    failed = {it.source for it in demanded if it.source != LOCKED}
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


async def _checked(task: Task, draft: str) -> tuple[Finding, ...]:
    """Return what validators find, and which locked texts are gone."""
    gone = tuple(_gone(it) for it in lacking(draft, task.locked))
    if not task.has_validators:
        return gone
    return (*await Check("check", draft), *gone)


def _gone(locked: str) -> Finding:
    return Finding(
        source=LOCKED,
        kind=LOCKED,
        message=f"locked text is gone or changed: {locked[:200]}",
        fix="keep it as it is in the client's draft",
        on_fail=OnFail.VETO,
    )


def _is_valid(findings: Sequence[Finding]) -> bool:
    return all(finding.on_fail is not OnFail.VETO for finding in findings)
