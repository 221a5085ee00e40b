"""Facts checked by answers that cannot see the draft."""

from app.contract.limits import Limits
from app.contract.reasoning_strategies import ChainOfVerificationStrategy
from workers.engine.drafting import propose
from workers.engine.moves import Scored, within
from workers.engine.prompt_requests import Task
from workers.engine.search import Outcome, Search
from workers.engine.verification import is_unverified, judge_and_verify


async def chain_of_verification(
    task: Task, limits: Limits, plan: ChainOfVerificationStrategy
) -> Outcome:
    """Draft, verify its statements of fact by questions, and revise from the contradictions.

    Chain-of-Verification (arXiv:2309.11495), factored: each answer sees task, context and its
    question, never the draft. Every draft is verified, whatever the critic scores it: a draft that
    nobody has verified must neither pass nor rank above one that was and did not. An iteration
    costs 4 calls and one for each question: draft, critique, questions, answers, contradictions.
    """
    with Search.of(task, limits) as search:
        for at in search.iterations():
            scored = await within(at, _verified(task, search, plan))
            await search.judged(scored)
            if is_unverified(scored):
                search.settle(None)
                break
    return search.outcome()


async def _verified(task: Task, search: Search, plan: ChainOfVerificationStrategy) -> Scored:
    return await judge_and_verify(plan.max_questions, task, await propose(task, search))
