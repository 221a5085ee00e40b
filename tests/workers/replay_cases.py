"""A case for every kind of strategy: a request, and models whose answers depend on the step alone.

Each is played with all its appends and once more for every append that kills its worker.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.contract.strategies import STRATEGIES
from benchmarks.examples import on_page
from tests.workers.refinement_harness import ReviewScript, ScriptedAnswers, scores
from tests.workers.scripted_models import (
    LOOK_UP,
    followed_up,
    improving,
    planning,
    reasoning,
    sampling,
    verifying,
    writing,
)


@dataclass(frozen=True)
class ReplayCase:
    """What is asked for, and who answers; every worker gets models of its own."""

    request: Mapping[str, Any]
    models: Callable[[], ScriptedAnswers]
    words: ReviewScript = field(default_factory=dict)


SCHEMA = {"type": "object", "required": ["days"], "properties": {"days": {"type": "integer"}}}


STAGES = [
    {"name": "outline", "criteria": [{"name": "complete"}], "threshold": 0.7},
    {"name": "draft", "sections": True, "threshold": 0.7},
    {"name": "polish", "mode": "revise", "max_iterations": 1},
]
CLEAR = [{"name": "clear", "floor": 0.5}]
ORDERED = [
    {"name": "subject", "instructions": "A subject line."},
    {"name": "summary", "instructions": "One sentence."},
]

OWN: dict[str, ReplayCase] = {
    "plan_execute": ReplayCase({"tools": [LOOK_UP]}, planning),
    "iterative": ReplayCase(
        {"compare": True, "outputs": ORDERED}, lambda: followed_up(scores(0.4, 0.7, 0.6))
    ),
    "critique": ReplayCase({"draft": "We refund."}, lambda: scores(0.4)),
    "best_of_n": ReplayCase(
        {"strategy": {"n": 3, "refine": True}, "max_iterations": 5},
        lambda: scores(0.4, 0.6, 0.5, 0.7, 0.65),
    ),
    "multi_pass": ReplayCase(
        {
            "draft": "We refund.",
            "strategy": {"passes": [{"focus": "structure"}, {"focus": "style", "criteria": CLEAR}]},
        },
        lambda: improving(0.3, 0.05),
    ),
    "stepwise": ReplayCase(
        {"strategy": {"stages": STAGES}, "threshold": 0.8},
        lambda: improving(0.6, 0.1),
    ),
    "nested": ReplayCase(
        {
            "threshold": 0.75,
            "validators": [{"kind": "length", "max_words": 500}],
            "strategy": {
                "parts": [
                    {"name": "when", "instructions": "When we refund."},
                    {"name": "how", "instructions": "How we refund.", "threshold": 0.7},
                ],
                "body": {"kind": "best_of_n", "n": 2, "refine": True},
            },
        },
        lambda: improving(0.5, 0.1),
    ),
    "reasoning_revision": ReplayCase({}, reasoning),
    "self_consistency": ReplayCase(
        {"strategy": {"n": 4, "vote": "judge", "weigh": True}, "max_iterations": 4}, sampling
    ),
    "chain_of_verification": ReplayCase({"strategy": {"max_questions": 2}}, verifying),
    "self_correction": ReplayCase(
        {"validators": [{"kind": "json"}, {"kind": "json_schema", "schema": SCHEMA}]},
        lambda: writing('{"days": ', '{"days": "14"}', '{"days": 14}'),
    ),
}
"""Scenes that show what is special about a strategy."""

CASES: dict[str, ReplayCase] = {
    kind: OWN.get(kind) or ReplayCase(on_page(kind), lambda: improving(0.5, 0.1))
    for kind in STRATEGIES
}
"""A scene for every strategy; for one that has none of its own, the request on its page."""
