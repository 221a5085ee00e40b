"""Answer several times and return the answer that most samples give."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict

from app.contract.judgement import CriterionScore, Finding, OnFail
from app.contract.limits import Limits
from app.contract.status import StopReason
from app.contract.strategies.reasoning import SelfConsistencyStrategy, answer_in, normalized
from app.contract.values import value
from workers.engine.asking import ask, question
from workers.engine.drafting import heeded, propose
from workers.engine.judging import corrected_draft, validator_findings
from workers.engine.moves import (
    Draft,
    PartResults,
    Refusal,
    Scored,
    Stopped,
    is_valid,
    play_parts,
    within,
)
from workers.engine.prompts import CLOSES, OPENS, Solve, Task
from workers.engine.replies.reader import ReplyModel, ReplyReader, Unreadable, score_of
from workers.engine.reviewing import ReviewPolicy
from workers.engine.search import Outcome, Search
from workers.engine.verification import Vote, Weigh

SOURCE = "agreement"
SHOWN = 200
"""Characters of an answer shown with its share."""

MOST_REASONING = 6_000
"""Characters at the end of a sample's reasoning that a critic reads to weigh its answer."""

Group = tuple[int, ...]
"""Indices of samples, from 0, with the same answer."""

NO_ANSWER = Finding(
    source=SOURCE,
    kind="answer",
    message="no answer found in the draft",
    fix="state the answer at the end, in the form that was asked for",
    on_fail=OnFail.VETO,
)


@value(slots=True)
class Sample:
    """One draft, its findings, and the answer it votes for; None if it has no vote."""

    draft: Draft
    findings: tuple[Finding, ...]
    answer: str | None
    reasoning: str = ""
    """What the model thought before it answered, if it is known."""


def _no_boolean(said: Any) -> Any:
    if isinstance(said, bool):
        raise ValueError("a group has a number")  # noqa: TRY004 - pydantic
    return said


class _AnyObject(ReplyModel):
    model_config = ConfigDict(extra="allow")


class _GroupOfEach(ReplyModel):
    """The number of a group by answer, `a1` and so on, or lists of answers."""

    groups: dict[str, Annotated[int, BeforeValidator(_no_boolean)]] | list[list[int]]


async def sampled(task: Task, draft: Draft, pattern: str | None) -> Sample:
    """Validate a draft and extract its answer; a vetoed draft has no vote."""
    findings: tuple[Finding, ...] = ()
    if task.scopes:
        checked = await validator_findings(task, draft.text)
        draft, findings = corrected_draft(draft, checked), checked.findings
    answer = answer_in(draft.text, pattern)
    if answer is None or not normalized(answer):
        findings, answer = (*findings, NO_ANSWER), None
    return Sample(draft, findings, answer if is_valid(findings) else None)


def still_to_draw(samples: Sequence[Sample], left: int, threshold: float) -> int:
    """Return the fewest samples after which the vote may be decided; 0 if it is.

    `left` more can be drawn. It is decided when they can change neither the answer nor whether its
    share reaches the threshold: so no answer and no verdict differ from those of all samples.
    """
    answers = [sample.answer for sample in samples if sample.answer is not None]
    sizes = [len(group) for group in same(answers)]
    leading = max(sizes, default=0)
    leader = sizes.index(leading) if sizes else 0
    planned = len(samples) + left
    for more in range(left):
        most, rest = leading + more, left - more
        # In a tie the answer that was given first wins, so only an earlier one wins with as many.
        others = [size + (at < leader) for at, size in enumerate(sizes) if at != leader]
        is_ahead = max(others, default=0) + rest <= most
        passes = round(most / planned, 6) >= threshold
        fails = round((most + rest) / planned, 6) < threshold
        if is_ahead and (passes or fails) and len(samples) + more > 1:
            return more
    return left


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


@value(slots=True)
class Tally:
    """The result of a vote over the samples made; `missing` more failed, `spared` were not needed.

    `weights` are how likely a critic thinks the answer of each group, in the order of the groups.
    """

    groups: Sequence[Group]
    made: int
    missing: int = 0
    spared: int = 0
    weights: Sequence[float] | None = None

    def share_of(self, group: int) -> float:
        """Return the share of samples in a group, weighed if there are weights."""
        if self.weights is None or not any(self.weights):
            return len(self.groups[group]) / self.made
        votes = [
            len(group) * weight for group, weight in zip(self.groups, self.weights, strict=True)
        ]
        voted = sum(map(len, self.groups)) / self.made  # vetoed samples count as votes for nothing
        return votes[group] / sum(votes) * voted

    def scored(self, number: int, sample: Sample) -> Scored:
        """Return a sample scored by the share of samples that agree with it, itself included.

        A vetoed sample agrees with none. A single one has no other to agree with: its score is
        null.
        """
        group = next((at for at, members in enumerate(self.groups) if number in members), None)
        agreeing = 0 if group is None else len(self.groups[group])
        share = 0.0 if group is None else round(self.share_of(group), 6)
        shown = "" if sample.answer is None else f": {' '.join(sample.answer.split())[:SHOWN]}"
        lacking = f" ({self.missing} more could not be made)" if self.missing else ""
        lacking += f" ({self.spared} more could not change it)" if self.spared else ""
        weighed = ""
        if group is not None and self.weights is not None:
            weighed = f", thought right with {self.weights[group]:.2f}"
        return _scored(
            sample,
            None if self.made < 2 else share,
            f"{agreeing} of {self.made} samples{lacking}{weighed}{shown}",
        )


async def weighed(
    task: Task, samples: Sequence[Sample], groups: Sequence[Group]
) -> tuple[float, ...] | None:
    """Return how likely a critic thinks each group's answer, from the reasoning of its first one.

    None if there is nothing to choose between, or if the refinement is stopped before. Raises
    `StepError` when the weights stay unreadable.
    """
    if len(groups) < 2:
        return None
    first = [samples[group[0]] for group in groups]
    answers = tuple([sample.answer or "" for sample in first])
    reasoning = tuple([sample.reasoning for sample in first])
    asked = question("weigh", "critic", Weigh(task, answers, reasoning))
    try:
        return await ask(asked, weights_in(len(groups)), "unreadable_vote")
    except Stopped:
        return None


def weights_in(count: int) -> Callable[[ReplyReader], tuple[float, ...]]:
    """Return a function that reads a weight for each of `count` answers."""

    def read(reply: ReplyReader) -> tuple[float, ...]:
        said = reply.read_as(_AnyObject).model_extra or {}
        weights = [score_of(said.get(f"a{number}")) for number in range(1, count + 1)]
        if None in weights:
            raise Unreadable(f"say of each answer from a1 to a{count} how likely it is right")
        return tuple(weight for weight in weights if weight is not None)

    return read


async def afterwards(task: Task, draft: Draft) -> Scored:
    """Validate a draft that a reviewer requested after the vote; its score is null."""
    sample = await sampled(task, draft, None)
    return _scored(sample, None, "written after the vote, for a reviewer")


def _scored(sample: Sample, share: float | None, reason: str) -> Scored:
    scores = (CriterionScore(criterion=SOURCE, score=share, reason=reason),)
    return Scored(sample.draft, share, scores, score_from="agreement").found(sample.findings)


def groups_in(count: int) -> Callable[[ReplyReader], tuple[Group, ...]]:
    """Return a function that reads groups in which each of `count` answers stands once."""

    def read(reply: ReplyReader) -> tuple[Group, ...]:
        groups = _groups(reply)
        numbers = sorted(number for group in groups for number in group)
        if numbers != list(range(1, count + 1)):
            raise Unreadable(f"every number from 1 to {count} must be in exactly one group")
        return tuple(tuple(number - 1 for number in sorted(group)) for group in groups if group)

    return read


def _groups(reply: ReplyReader) -> list[list[int]]:
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
    """Draw up to n samples; the most frequent answer wins, the first one in a tie.

    Self-consistency (arXiv:2203.11171); where answers are prose a critic groups them (Universal
    Self-Consistency, arXiv:2311.17311); weighed, a critic says of each answer how likely it is
    right (as the voting verifier of arXiv:2206.02336). The score of a sample is the share of the
    samples made that agree with it. Compared exactly, as many are drawn side by side as may decide
    the vote, then others while they may change it. It costs up to n calls, one more for a critic's
    vote and one for weights.
    """
    task = replace(task, criteria=())
    with Search.of(task, limits) as search:
        search.is_last = True
        paths = search.side_by_side(plan.n)
        drawn = await _drawn(task, search, plan, paths)
        made = [sample for sample in drawn.replies if sample is not None]
        groups = await voted(task, made, asks_critic=plan.vote == "judge")
        weights = await weighed(task, made, groups) if plan.weigh else None
        spared = len(paths) - len(drawn.replies)
        tally = Tally(groups, len(made), plan.n - spared - len(made), spared, weights)
        verdicts = iter([tally.scored(number, sample) for number, sample in enumerate(made)])
        await search.sampled(
            [None if sample is None else next(verdicts) for sample in drawn.replies]
        )
        await heeded(task, search, afterwards)
        search.settle(drawn.unless_stopped(StopReason.COMPLETED))
    return replace(search.outcome(), caveats=drawn.left_out(paths[: len(drawn.replies)]))


async def _drawn(
    task: Task, search: Search, plan: SelfConsistencyStrategy, paths: Sequence[str]
) -> PartResults[Sample]:
    """Draw the samples of these iterations; if the plan allows it, only as many as decide."""

    async def draw(which: Sequence[str], at: str) -> PartResults[Sample]:
        return await play_parts(at, [within(path, _sample(task, search, plan)) for path in which])

    all_at_once = not plan.stop_early or plan.weigh or plan.vote == "judge"
    if all_at_once:
        return await draw(paths, "samples")
    drawn: PartResults[Sample] = PartResults((), ())
    while not drawn.were_stopped:
        made = [sample for sample in drawn.replies if sample is not None]
        done = len(drawn.replies)
        more = still_to_draw(made, len(paths) - done, search.limits.threshold)
        which = paths[done : done + more]
        if not which:
            break
        try:
            drawn += await draw(which, f"samples/{done + 1}" if done else "samples")
        except Refusal as refusal:
            if not made:
                raise
            drawn += PartResults((None,) * more, (refusal,) * more)
    return drawn


def review_policy(_plan: SelfConsistencyStrategy) -> ReviewPolicy:
    """Validate drafts that a reviewer asks for; they take no part in the vote."""
    return ReviewPolicy(afterwards)


async def _sample(task: Task, search: Search, plan: SelfConsistencyStrategy) -> Sample:
    thoughts: list[str] = []
    first = partial(solved, plan.answer, thoughts.append)
    task = replace(task, is_sampled=True)
    sample = await sampled(task, await propose(task, search, first), plan.answer)
    return replace(sample, reasoning="".join(thoughts[-1:]))


async def solved(pattern: str | None, keep: Callable[[str], None], task: Task) -> Draft:
    """Let a model reason, and return the text that it marks as its answer; `keep` the reasoning.

    Reasoning before an answer is what makes samples worth a vote (arXiv:2203.11171).
    """
    asked = question("draft", "generator", Solve(task, pattern))
    reasoning, text = await ask(asked, _reasoned_in, "empty_draft")
    keep(reasoning[-MOST_REASONING:])
    return Draft(text)


def _reasoned_in(reply: ReplyReader) -> tuple[str, str]:
    return reply.raw.rpartition(CLOSES)[0].rpartition(OPENS)[0].strip(), last_marked_text(reply)


def last_marked_text(reply: ReplyReader) -> str:
    """Return the text between the last marks in a reply. Raises `Unreadable` without one."""
    before, closes, _ = reply.raw.rpartition(CLOSES)
    _, opens, text = before.rpartition(OPENS)
    if not (opens and closes):
        reply.text()  # a refusal is said to be one
        raise Unreadable(f"the answer does not stand between {OPENS} and {CLOSES}")
    return ReplyReader(text, reply.asked).text()
