"""What strategies are made of: propose a draft, and judge it."""

from collections.abc import Sequence

from app.contract.drafts import draft_of, sha256_of
from app.contract.judgement import Critique, Finding, OnFail
from workers.engine.asking import Unreadable, ask
from workers.engine.briefs import Brief, Judge, Revise, Task, Write
from workers.engine.moves import (
    Ask,
    Check,
    Draft,
    Play,
    Reply,
    Role,
    Scored,
    StepFailed,
    Stop,
    Together,
)
from workers.engine.prompts import render
from workers.engine.search import Search
from workers.engine.verdicts import below_floor, reader, total


async def propose(task: Task, search: Search) -> Draft:
    """Return the next draft: a revision of the best, the client's own, or a first one."""
    if search.base is not None:
        return await revise(task, search.base.scored, search.base.path, search.limits.threshold)
    if task.draft is not None:
        return Draft(task.draft, sha256_of(task.draft), is_reply=task.is_clients_draft)
    return _draft(await write(task))


async def write(task: Task) -> str:
    """Return a first text for a task."""
    return await ask(_question("draft", "generator", Write(task)), _text, "empty_draft")


async def revise(task: Task, scored: Scored, parent: str, threshold: float) -> Draft:
    """Return a revision that was asked to mend what failed."""
    failing = failures(task, scored, threshold)
    brief = Revise(task, scored.draft.text, failing, scored.critique, scored.findings)
    text = await ask(_question("revise", "generator", brief), _text, "empty_draft")
    return _draft(text, parent, failing)


async def judge(task: Task, draft: Draft) -> Scored:
    """Return the draft with its verdict: validators first, then the blind critic."""
    findings: tuple[Finding, ...] = ()
    if task.has_validators:
        findings = await Check("check", draft.text)
    question = _question("critique", "critic", Judge(task, draft.text))
    critique = await ask(question, reader(task.criteria, draft.text), "unreadable_critique")
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


async def surviving(path: str, parts: Sequence[Play[Reply]]) -> tuple[Reply | None, ...]:
    """Play parts side by side and return what each gave, None where one was refused.

    Raises the first refusal when there is nothing else.
    """
    refusals: dict[int, Stop | StepFailed] = {}

    async def kept(index: int, part: Play[Reply]) -> Reply | None:
        try:
            return await part
        except (Stop, StepFailed) as refusal:
            refusals[index] = refusal
            return None

    done = await Together(path, tuple(kept(*each) for each in enumerate(parts)))
    if len(refusals) == len(parts):
        raise refusals[0]
    return done


def failures(task: Task, scored: Scored, threshold: float) -> tuple[str, ...]:
    """Return what failed, in words for the reviser: validators, floors, then weak criteria."""
    lines = [_line(it) for it in scored.findings if it.on_fail is not OnFail.WARN]
    below = below_floor(scored.scores, task.criteria)
    weak = {it.criterion for it in scored.scores if it.score is not None and it.score < threshold}
    weak |= {criterion.name for criterion in below}
    for given in scored.scores:
        if given.criterion in weak:
            said = ": ".join(part for part in (given.criterion, given.reason) if part)
            lines.append(f"{said} (not met yet)")
    lines += [_line(it) for it in scored.critique.findings]
    return tuple(lines)


def _is_valid(findings: Sequence[Finding]) -> bool:
    return all(finding.on_fail is not OnFail.VETO for finding in findings)


def _line(finding: Finding) -> str:
    quoted = f' at "{finding.quote}"' if finding.quote else ""
    fix = f" Fix: {finding.fix}" if finding.fix else ""
    return f"{finding.kind}{quoted}: {finding.message}{fix}"


def _question(path: str, role: Role, brief: Brief) -> Ask:
    return Ask(path, role, brief, render(brief))


def _text(reply: str) -> str:
    text = draft_of(reply)
    if not text:
        raise Unreadable("it is empty")
    return text


def _draft(text: str, parent: str | None = None, asked: tuple[str, ...] = ()) -> Draft:
    return Draft(text, sha256_of(text), parent, asked)
