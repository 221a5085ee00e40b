"""A loop driven by validators alone."""

from dataclasses import replace

from app.contract.limits import Limits
from app.contract.status import StopReason
from app.contract.strategies.loops import SelfCorrectionStrategy
from workers.engine.drafting import improve
from workers.engine.judging import validate
from workers.engine.prompts import Task
from workers.engine.reviewing import ReviewPolicy
from workers.engine.search import LimitOverrides, Outcome, Search

ALL_PASS = LimitOverrides(goal=1.0, reached=StopReason.VALIDATORS_PASSED)
"""The limits of a search that ends when every validator passes."""


async def self_correction(task: Task, limits: Limits, _plan: SelfCorrectionStrategy) -> Outcome:
    """Draft, validate, and correct the best from its exact errors until every validator passes.

    External feedback alone, as in Reflexion (arXiv:2303.11366) and Self-Debugging
    (arXiv:2304.05128); self-correction without it does not work (arXiv:2310.01798).
    """
    task = replace(task, criteria=())
    with Search.of(task, limits, ALL_PASS) as search:
        await improve(task, search, validate)
    return search.outcome()


def review_policy(_plan: SelfCorrectionStrategy) -> ReviewPolicy:
    """Judge drafts that a reviewer asks for by validators alone."""
    return ReviewPolicy(validate, ALL_PASS)
