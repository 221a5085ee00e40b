"""Judges a draft: validators first, then the critics, whose opinions are merged."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from statistics import median
from typing import TypeVar

from app.contract.criteria import Criterion
from app.contract.critics import CRITIC, PanelMember
from app.contract.drafts import lacking
from app.contract.judgement import CriterionScore, Critique, Finding, OnFail
from workers.engine.asking import ask, question
from workers.engine.drafting import part_replies
from workers.engine.moves import Check, Draft, Scored, Together
from workers.engine.prompt_requests import Task
from workers.engine.prompts.judging import Judge
from workers.engine.verdicts import MOST_EVIDENCE, MOST_LINES, below_floor, reader, total

CritiqueLine = TypeVar("CritiqueLine")


async def critiqued(task: Task, draft: str) -> Critique:
    """Return the merged critique of all critics, asked at once and independently.

    A panel after PoLL (arXiv:2404.18796), with roles as in ChatEval (arXiv:2308.07201); samples as
    in self-consistency (arXiv:2203.11171). A sample that fails is left out; a critic without any
    sample fails the step, because every requested critic must answer.
    """
    panel: tuple[PanelMember | None, ...] = task.critics.panel or (None,)
    if len(panel) == 1:
        return merged(await _sampled(task, draft, panel[0]), task.criteria)
    opinions = await Together(CRITIC, tuple(_sampled(task, draft, it) for it in panel))
    return merged(tuple(chain.from_iterable(opinions)), task.criteria)


def merged(opinions: Sequence[Critique], criteria: Sequence[Criterion]) -> Critique:
    """Return the opinions as one: the median of each criterion, and the findings of all."""
    if len(opinions) == 1:
        return opinions[0]
    return Critique(
        scores=tuple(_middle(it.name, opinions) for it in criteria),
        strengths=_distinct([it.strengths for it in opinions], _words),
        weaknesses=_distinct([it.weaknesses for it in opinions], _words),
        suggestions=_distinct([it.suggestions for it in opinions], _words),
        findings=_distinct([it.findings for it in opinions], _place),
    )


async def _sampled(task: Task, draft: str, member: PanelMember | None) -> tuple[Critique, ...]:
    """Return the opinions of one critic, one for each sample."""
    path = "critique" if member is None else f"critique/{member.name}"
    later = (f"{path}/{number}" for number in range(2, task.critics.samples + 1))
    samples = [_opinion(at, task, draft, member) for at in (path, *later)]
    if len(samples) == 1:
        return (await samples[0],)
    return tuple(it for it in await part_replies(path, samples) if it is not None)


async def _opinion(path: str, task: Task, draft: str, member: PanelMember | None) -> Critique:
    asked = question(path, "critic", Judge(task, draft, member))
    by = CRITIC
    if member is not None:
        asked, by = replace(asked, member=member.name), member.seat
    return await ask(asked, reader(task.criteria, draft, by), "unreadable_critique")


def _middle(criterion: str, opinions: Sequence[Critique]) -> CriterionScore:
    """Return the median of the measured scores, with the reason of the nearest score."""
    given = [score for it in opinions for score in it.scores if score.criterion == criterion]
    measured = [it for it in given if it.score is not None]
    scores = [it.score for it in given if it.score is not None]
    middle = round(median(scores), 6) if scores else None

    def far(it: CriterionScore) -> tuple[float, float]:
        score = it.score or 0.0
        return (round(abs(score - (middle or 0.0)), 9), score)

    return CriterionScore(
        criterion=criterion,
        score=middle,
        reason=min(measured or given[:1], key=far).reason,
        evidence=_distinct([it.evidence for it in given], lambda it: it, MOST_EVIDENCE),
        unsupported=sum(it.unsupported for it in given),
        spread=round(max(scores) - min(scores), 6) if len(scores) > 1 else None,
    )


def _distinct(
    said: Iterable[Sequence[CritiqueLine]],
    same: Callable[[CritiqueLine], Hashable],
    most: int = MOST_LINES,
) -> tuple[CritiqueLine, ...]:
    """Return the lines without duplicates: the first line of each critic, then the second, ..."""
    found: dict[Hashable, CritiqueLine] = {}
    for line in chain.from_iterable(zip_longest(*said)):
        if line is not None:
            found.setdefault(same(line), line)
    return tuple(found.values())[:most]


def _words(line: str) -> str:
    return " ".join(line.casefold().split())


def _place(finding: Finding) -> Hashable:
    """Return what identifies a finding: its criterion and span, or its message without a span."""
    if finding.span is not None:
        return (finding.kind, finding.span)
    return (finding.kind, _words(finding.message))


LOCKED = "locked"
"""The source of findings about missing locked text; it does not count as a validator."""


async def judge(task: Task, draft: Draft) -> Scored:
    """Judge a draft: validators first, then the blind critics."""
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
    """Judge a draft by validators alone; its score is the share of them that pass."""
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
    """Return the findings of the validators, and those about missing locked text."""
    gone = tuple(_gone(it) for it in lacking(draft, task.locked))
    if not task.has_validators:
        return gone
    return (*await Check("check", draft), *gone)


def _gone(locked: str) -> Finding:
    return Finding(
        source=LOCKED,
        kind=LOCKED,
        message=f"locked text is missing or changed: {locked[:200]}",
        fix="restore it as it is in the client's draft",
        on_fail=OnFail.VETO,
    )


def _is_valid(findings: Sequence[Finding]) -> bool:
    return all(finding.on_fail is not OnFail.VETO for finding in findings)
