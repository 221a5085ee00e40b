"""Facts verified by answers that do not see the draft."""

from functools import partial

from app.contract.limits import Limits
from app.contract.strategies.reasoning import ChainOfVerificationStrategy
from workers.engine.prompts import Task
from workers.engine.reviewing import ReviewPolicy
from workers.engine.search import Outcome
from workers.engine.verification import judge_and_verify, verified_search


async def chain_of_verification(
    task: Task, limits: Limits, plan: ChainOfVerificationStrategy
) -> Outcome:
    """Draft, verify its statements of fact by questions, and revise from the contradictions.

    Chain-of-Verification (arXiv:2309.11495), factored: each answer sees task, context and its
    question, never the draft. Every draft is verified, whatever its score: an unverified draft must
    neither pass, unless the request accepts it, nor count as one without findings. An iteration
    costs 4 calls and one for each question: draft, critique, questions, answers, contradictions.
    With tools it costs another one, which picks what is looked up for each question (as in CRITIC,
    arXiv:2305.11738).
    """
    return await verified_search(task, limits, review_policy(plan))


def review_policy(plan: ChainOfVerificationStrategy) -> ReviewPolicy:
    """Judge and verify drafts that a reviewer asks for."""
    return ReviewPolicy(partial(judge_and_verify, plan.max_questions, plan.may_call))
