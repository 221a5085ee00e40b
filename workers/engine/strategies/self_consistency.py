"""Many samples of one answer; the most frequent answer wins."""

from collections.abc import Sequence
from dataclasses import replace

from app.contract.limits import Limits
from app.contract.status import StopReason
from app.contract.strategies.reasoning import SelfConsistencyStrategy
from workers.engine.agreement import Sample, afterwards, sampled, scored, voted
from workers.engine.drafting import play_parts, propose
from workers.engine.moves import Scored, within
from workers.engine.prompt_requests import Task
from workers.engine.reviewing import ReviewPolicy
from workers.engine.search import Outcome, Search


async def self_consistency(task: Task, limits: Limits, plan: SelfConsistencyStrategy) -> Outcome:
    """Draw n samples at once; the most frequent answer wins, the first one in a tie.

    Self-consistency (arXiv:2203.11171); where answers are prose a critic groups them (Universal
    Self-Consistency, arXiv:2311.17311). The score of a sample is the share of the samples made that
    agree with it. It costs n calls, and one more for a critic's vote.
    """
    task = replace(task, criteria=())
    with Search.of(task, limits) as search:
        parts = [within(at, _sample(task, search, plan)) for at in search.side_by_side(plan.n)]
        drawn = await play_parts("samples", parts)
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
    return search.outcome()


def review_policy(_plan: SelfConsistencyStrategy) -> ReviewPolicy:
    """Validate drafts that a reviewer asks for; they take no part in the vote."""
    return ReviewPolicy(afterwards)


async def _sample(task: Task, search: Search, plan: SelfConsistencyStrategy) -> Sample:
    return await sampled(task, await propose(task, search), plan.answer)


def _verdicts(
    made: Sequence[Sample], groups: Sequence[tuple[int, ...]], asked: int
) -> list[Scored]:
    agreeing = {number: len(group) for group in groups for number in group}
    missing = asked - len(made)
    return [
        scored(sample, agreeing.get(number, 0), len(made), missing)
        for number, sample in enumerate(made)
    ]
