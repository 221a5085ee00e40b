"""Agreement of samples: the answer of each, groups of equal answers, and their shares."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.contract.judgement import CriterionScore, Critique, Finding, OnFail
from app.contract.strategies.answers import answer_in, normalized
from workers.engine.asking import ReplyModel, Unreadable, ask, question, read_as
from workers.engine.moves import Check, Draft, Scored, Stopped
from workers.engine.prompt_requests import Task
from workers.engine.prompts.verification import Vote

SOURCE = "agreement"
SHOWN = 200
"""Characters of an answer shown with its share."""

Group = tuple[int, ...]
"""Indices of samples, from 0, with the same answer."""

NO_ANSWER = Finding(
    source=SOURCE,
    kind="answer",
    message="no answer found in the draft",
    fix="state the answer at the end, in the form that was asked for",
    on_fail=OnFail.VETO,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One draft, its findings, and the answer it votes for; None if it has no vote."""

    draft: Draft
    findings: tuple[Finding, ...]
    answer: str | None


class _Groups(ReplyModel):
    groups: list[list[int]]


async def sampled(task: Task, draft: Draft, pattern: str | None) -> Sample:
    """Validate a draft and extract its answer; a vetoed draft has no vote."""
    findings: tuple[Finding, ...] = ()
    if task.has_validators:
        findings = await Check("check", draft.text)
    answer = answer_in(draft.text, pattern)
    if answer is None or not normalized(answer):
        findings, answer = (*findings, NO_ANSWER), None
    return Sample(draft, findings, None if _is_vetoed(findings) else answer)


async def voted(task: Task, samples: Sequence[Sample], *, asks_critic: bool) -> tuple[Group, ...]:
    """Return the groups of samples that agree, compared exactly or grouped by a critic.

    If the refinement is stopped before the critic is asked, answers are compared exactly: equal
    answers agree in any case. Raises `StepError` when the critic's groups stay unreadable.
    """
    votes = [number for number, sample in enumerate(samples) if sample.answer is not None]
    answers = [samples[number].answer or "" for number in votes]
    if asks_critic and len(votes) > 1:
        asked = question("vote", "critic", Vote(task, tuple(answers)))
        try:
            groups = await ask(asked, _grouped(len(votes)), "unreadable_vote")
        except Stopped:
            groups = same(answers)
    else:
        groups = same(answers)
    return tuple(tuple(votes[place] for place in group) for group in groups)


def same(answers: Sequence[str]) -> tuple[Group, ...]:
    """Return the indices of answers, grouped by equality after normalization."""
    groups: dict[str, list[int]] = {}
    for place, answer in enumerate(answers):
        groups.setdefault(normalized(answer), []).append(place)
    return tuple(map(tuple, groups.values()))


def scored(sample: Sample, agreeing: int, made: int, missing: int) -> Scored:
    """Return a sample scored by the share of samples made that agree with it, itself included.

    A vetoed sample agrees with none. A single sample has no other to agree with: its score is null.
    """
    shown = "" if sample.answer is None else f": {' '.join(sample.answer.split())[:SHOWN]}"
    lacking = f" ({missing} more could not be made)" if missing else ""
    share = None if made < 2 else round(agreeing / made, 6)
    return _scored(sample, share, f"{agreeing} of {made} samples{lacking}{shown}")


async def afterwards(task: Task, draft: Draft) -> Scored:
    """Validate a draft that a reviewer requested after the vote; its score is null."""
    sample = await sampled(task, draft, None)
    return _scored(sample, None, "written after the vote, for a reviewer")


def _scored(sample: Sample, share: float | None, reason: str) -> Scored:
    return Scored(
        draft=sample.draft,
        score=share,
        scores=(CriterionScore(criterion=SOURCE, score=share, reason=reason),),
        valid=not _is_vetoed(sample.findings),
        floors_met=True,
        critique=Critique(scores=()),
        findings=sample.findings,
        score_from="agreement",
    )


def _is_vetoed(findings: Sequence[Finding]) -> bool:
    return any(finding.on_fail is OnFail.VETO for finding in findings)


def _grouped(count: int) -> Callable[[str], tuple[Group, ...]]:
    def read(reply: str) -> tuple[Group, ...]:
        groups = read_as(_Groups, reply).groups
        numbers = sorted(number for group in groups for number in group)
        if numbers != list(range(1, count + 1)):
            raise Unreadable(f"every number from 1 to {count} must be in exactly one group")
        return tuple(tuple(number - 1 for number in sorted(group)) for group in groups if group)

    return read
