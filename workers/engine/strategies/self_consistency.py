"""Answer several times at once and return the answer that most samples give."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator

from app.contract.drafts import sha256_of
from app.contract.judgement import CriterionScore, Critique, Finding, OnFail
from app.contract.limits import Limits
from app.contract.status import StopReason
from app.contract.strategies.reasoning import SelfConsistencyStrategy, answer_in, normalized
from workers.engine.asking import ask, question
from workers.engine.drafting import propose
from workers.engine.judging import check, corrected, skipped_in
from workers.engine.moves import Draft, Scored, Stopped, play_parts, within
from workers.engine.prompt_requests import Task
from workers.engine.prompts.drafting import CLOSES, OPENS, Solve
from workers.engine.prompts.verification import Vote
from workers.engine.replies import ReplyModel, ReplyReader, Unreadable
from workers.engine.reviewing import ReviewPolicy
from workers.engine.search import Outcome, Search

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


def _no_boolean(said: Any) -> Any:
    if isinstance(said, bool):
        raise ValueError("a group has a number")  # noqa: TRY004 - pydantic
    return said


class _GroupOfEach(ReplyModel):
    """The number of a group by answer, `a1` and so on, or lists of answers."""

    groups: dict[str, Annotated[int, BeforeValidator(_no_boolean)]] | list[list[int]]


async def sampled(task: Task, draft: Draft, pattern: str | None) -> Sample:
    """Validate a draft and extract its answer; a vetoed draft has no vote."""
    findings: tuple[Finding, ...] = ()
    if task.has_validators:
        checked = await check(task, draft.text)
        draft, findings = corrected(draft, checked), checked.findings
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
            groups = await ask(asked, groups_in(len(votes)), "unreadable_vote")
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
        caveats=skipped_in(sample.findings),
        score_from="agreement",
    )


def _is_vetoed(findings: Sequence[Finding]) -> bool:
    return any(finding.on_fail is OnFail.VETO for finding in findings)


def groups_in(count: int) -> Callable[[ReplyReader], tuple[Group, ...]]:
    def read(reply: ReplyReader) -> tuple[Group, ...]:
        groups = _groups(reply)
        numbers = sorted(number for group in groups for number in group)
        if numbers != list(range(1, count + 1)):
            raise Unreadable(f"every number from 1 to {count} must be in exactly one group")
        return tuple(tuple(number - 1 for number in sorted(group)) for group in groups if group)

    return read


def _groups(reply: ReplyReader) -> list[list[int]]:
    if reply.is_strict:
        return reply.read_as(_Groups).groups
    said = reply.read_as(_GroupOfEach).groups
    if isinstance(said, list):
        return said
    members: dict[int, list[int]] = {}
    for answer, group in said.items():
        number = answer.casefold().removeprefix("answer").strip(" _").removeprefix("a")
        if not number.isdecimal():
            raise Unreadable(f"{answer[:80]!r} is no answer: expected a1, a2 and so on")
        members.setdefault(group, []).append(int(number))
    return list(members.values())


async def self_consistency(task: Task, limits: Limits, plan: SelfConsistencyStrategy) -> Outcome:
    """Draw n samples at once; the most frequent answer wins, the first one in a tie.

    Self-consistency (arXiv:2203.11171); where answers are prose a critic groups them (Universal
    Self-Consistency, arXiv:2311.17311). The score of a sample is the share of the samples made that
    agree with it. It costs n calls, and one more for a critic's vote.
    """
    task = replace(task, criteria=())
    with Search.of(task, limits) as search:
        paths = search.side_by_side(plan.n)
        drawn = await play_parts(
            "samples", [within(at, _sample(task, search, plan)) for at in paths]
        )
        made = [sample for sample in drawn.replies if sample is not None]
        groups = await voted(task, made, asks_critic=plan.vote == "judge")
        verdicts = iter(_verdicts(made, groups, plan.n))
        await search.sampled(
            [None if sample is None else next(verdicts) for sample in drawn.replies]
        )
        while search.wish is not None:
            draft = await within(search.upcoming, propose(task, search))
            await search.judged(await within(search.upcoming, afterwards(task, draft)))
        search.settle(drawn.unless_stopped(StopReason.COMPLETED))
    return replace(search.outcome(), caveats=drawn.left_out(paths))


def review_policy(_plan: SelfConsistencyStrategy) -> ReviewPolicy:
    """Validate drafts that a reviewer asks for; they take no part in the vote."""
    return ReviewPolicy(afterwards)


async def _sample(task: Task, search: Search, plan: SelfConsistencyStrategy) -> Sample:
    first = None if task.engine_version == 1 else partial(solved, plan.answer)
    task = replace(task, is_sampled=True)
    return await sampled(task, await propose(task, search, first), plan.answer)


async def solved(pattern: str | None, task: Task) -> Draft:
    """Let a model reason, and return the text that it marks as its answer.

    Reasoning before an answer is what makes samples worth a vote (arXiv:2203.11171).
    """
    asked = question("draft", "generator", Solve(task, pattern))
    text = await ask(asked, marked_in, "empty_draft")
    return Draft(text, sha256_of(text), is_reply=False)


def marked_in(reply: ReplyReader) -> str:
    """Return the text between the last marks in a reply. Raises `Unreadable` without one."""
    before, closes, _ = reply.raw.rpartition(CLOSES)
    _, opens, text = before.rpartition(OPENS)
    if not (opens and closes):
        reply.text()  # a refusal is said to be one
        raise Unreadable(f"the answer does not stand between {OPENS} and {CLOSES}")
    return ReplyReader(text, reply.asked).text()


def _verdicts(
    made: Sequence[Sample], groups: Sequence[tuple[int, ...]], asked: int
) -> list[Scored]:
    agreeing = {number: len(group) for group in groups for number in group}
    missing = asked - len(made)
    return [
        scored(sample, agreeing.get(number, 0), len(made), missing)
        for number, sample in enumerate(made)
    ]
