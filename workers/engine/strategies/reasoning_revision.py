"""Numbered steps, redone from the first faulty one."""

from app.contract.limits import Limits
from app.contract.strategies.reasoning import ReasoningRevisionStrategy
from workers.engine.drafting import propose
from workers.engine.moves import within
from workers.engine.prompt_requests import Task
from workers.engine.reasoning import judge_and_check, reasoned, redone
from workers.engine.reviewing import ReviewPolicy
from workers.engine.search import Outcome, Search
from workers.engine.verification import is_unverified


async def reasoning_revision(
    task: Task, limits: Limits, _plan: ReasoningRevisionStrategy
) -> Outcome:
    """Reason in numbered steps, find the first faulty one, and redo only it and what follows.

    Models cannot find their errors but correct them when told where (arXiv:2311.08516); step by
    step: StepCo (arXiv:2410.12934), process supervision (arXiv:2305.20050). The steps before the
    faulty one stay byte for byte. If no step is faulty and the chain fails for another reason,
    nothing says which steps to keep: all are redone. An iteration costs 3 calls.
    """
    with Search.of(task, limits) as search:
        for at in search.iterations():
            draft = await within(at, propose(task, search, reasoned, redone))
            scored = await within(at, judge_and_check(task, draft))
            await search.judged(scored)
            if is_unverified(scored):
                search.settle(None)
                break
    return search.outcome()


def review_policy(_plan: ReasoningRevisionStrategy) -> ReviewPolicy:
    """Check the steps of drafts that a reviewer asks for; redo them from the first faulty one."""
    return ReviewPolicy(judge_and_check, revised=redone)
