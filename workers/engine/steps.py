"""What strategies are made of: propose a draft, and play parts side by side."""

from collections.abc import Sequence

from app.contract.drafts import draft_of, sha256_of
from app.contract.judgement import Finding, OnFail
from workers.engine.asking import Unreadable, ask
from workers.engine.briefs import Brief, Revise, Task, Write
from workers.engine.moves import (
    Ask,
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
from workers.engine.verdicts import below_floor


async def propose(task: Task, search: Search) -> Draft:
    """Return the next draft: a revision of the best, the client's own, or a first one."""
    if search.base is not None:
        return await revise(task, search.base.scored, search.base.path, search.limits.threshold)
    if task.draft is not None:
        return Draft(task.draft, sha256_of(task.draft), is_reply=task.is_clients_draft)
    return _draft(await write(task))


async def write(task: Task) -> str:
    """Return a first text for a task."""
    return await ask(question("draft", "generator", Write(task)), _text, "empty_draft")


async def revise(task: Task, scored: Scored, parent: str, threshold: float) -> Draft:
    """Return a revision that was asked to mend what failed."""
    failing = failures(task, scored, threshold)
    brief = Revise(task, scored.draft.text, failing, scored.critique, scored.findings)
    text = await ask(question("revise", "generator", brief), _text, "empty_draft")
    return _draft(text, parent, failing)


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


def _line(finding: Finding) -> str:
    quoted = f' at "{finding.quote}"' if finding.quote else ""
    fix = f" Fix: {finding.fix}" if finding.fix else ""
    return f"{finding.kind}{quoted}: {finding.message}{fix}"


def question(path: str, role: Role, brief: Brief) -> Ask:
    return Ask(path, role, brief, render(brief))


def _text(reply: str) -> str:
    text = draft_of(reply)
    if not text:
        raise Unreadable("it is empty")
    return text


def _draft(text: str, parent: str | None = None, asked: tuple[str, ...] = ()) -> Draft:
    return Draft(text, sha256_of(text), parent, asked)
