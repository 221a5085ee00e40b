"""Cases with other judges, with other revisers, and with a reviewer."""

from typing import Any

import pytest

from benchmarks.scripted_examples import (
    DINNER,
    FUNCTION,
    LETTER,
    QUERY,
    REPORT,
    STORY,
    ScriptedExample,
    contract,
)
from tests.engine.scripted_replies import checklist
from tests.workers.refinement_harness import ScriptedAnswers, scores, verdict
from tests.workers.replay_cases import CASES, CLEAR, ReplayCase
from tests.workers.scripted_models import BOOK, LOOK_UP, booking, improving, looking_up
from workers.engine.prompts import Judge, ListCriteria
from workers.models.port import ModelCall, ModelError

PANEL = [{"name": "reader"}, {"name": "lawyer", "adversarial": True}]


def panelled() -> ScriptedAnswers:
    """Critics who differ; one of their samples cannot be had."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, ListCriteria):
            return checklist()
        if not isinstance(call.prompt_request, Judge):
            return f"Text of {key}. " * 3
        if key.endswith("lawyer/2"):
            raise ModelError("gone")
        return verdict(0.9 if key.endswith("reader") else 0.2 * int(key.split("/")[1]), call)

    return ScriptedAnswers(answer)


JUDGED: dict[str, ReplayCase] = {
    "a panel with samples": ReplayCase(
        {"strategy": {"kind": "iterative"}, "critics": {"samples": 2, "panel": PANEL}}, panelled
    ),
    "criteria listed first": ReplayCase(
        {"strategy": {"kind": "iterative"}, "criteria": "auto"}, panelled
    ),
    "both, in parts": ReplayCase(
        {
            "strategy": {"kind": "best_of_n", "n": 2, "refine": True},
            "criteria": "auto",
            "critics": {"samples": 2, "panel": PANEL},
        },
        panelled,
    ),
}
"""Cases with other judges than one critic on given criteria."""


def amending() -> ScriptedAnswers:
    """A reviser whose edits fit, fail once, and fail twice; the critic's score rises."""
    replies = {
        "iterations/1/revise": '{"edits": [{"search": "refund", "replace": "pay back"}]}',
        "iterations/2/revise": '{"edits": [{"search": "refund", "replace": "return"}]}',
        "iterations/2/revise/again/1": '{"edits": [{"search": "pay", "replace": "give"}]}',
        "iterations/3/revise": "none",
        "iterations/3/revise/again/1": "none again",
        "iterations/3/revise/full": "We give back what you paid.",
    }

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            return verdict(round(0.2 + 0.1 * int(key.split("/")[1]), 3), call)
        return replies[key]

    return ScriptedAnswers(answer)


def marking() -> ScriptedAnswers:
    """A reviser of passages whose second reply has none; the critic's score rises."""
    replies = {
        "iterations/1/revise": '{"passages": {"p1": "In 14 days"}}',
        "iterations/2/revise": "none",
        "iterations/2/revise/again/1": '{"passages": {"p1": "All is refunded", "p2": ""}}',
        "iterations/3/revise": '{"passages": {"p1": "We refund all", "p2": "In two weeks"}}',
    }

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            return verdict(round(0.2 + 0.1 * int(key.split("/")[1]), 3), call)
        return replies[key]

    return ScriptedAnswers(answer)


REVISED: dict[str, ReplayCase] = {
    "feedback on passages": ReplayCase(
        {
            "draft": "We refund you. Soon. Write to us.",
            "feedback": "Name the deadline.",
            "spans": [{"quote": "Soon"}],
            "strategy": {"kind": "iterative"},
            "review": {"when": "each_iteration"},
        },
        marking,
        {
            "iterations/1/review": {
                "action": "revise",
                "feedback": "Say less.",
                "spans": [{"start": 0, "end": 13}, {"quote": "In 14 days"}],
            },
            "iterations/2/review": {"action": "rate", "score": 0.3},
            "iterations/3/review": {"action": "approve"},
        },
    ),
    "edits": ReplayCase(
        {
            "draft": "We refund you. Soon.",
            "strategy": {"kind": "iterative"},
            "edits": "delta",
            "locked": ["Soon"],
        },
        amending,
    ),
}
"""Cases with a reviser who does not write the whole text."""

MORE = {"action": "revise", "feedback": "Name the deadline."}
OURS = {"action": "replace", "draft": "We refund within 14 days."}
EACH, BEFORE = ({"when": "each_iteration"}, {"when": "before_completion"})

REVIEWED: dict[str, ReplayCase] = {
    "iterative, each draft": ReplayCase(
        {"strategy": {"kind": "iterative"}, "review": EACH},
        lambda: scores(0.4, 0.9, 0.6, 0.7, 0.8),
        {
            "iterations/1/review": {"action": "rate", "score": 0.5},
            "iterations/2/review": MORE | {"score": 0.3},
            "iterations/3/review": MORE,
            "iterations/4/review": OURS,
            "iterations/5/review": {"action": "approve"},
        },
    ),
    "best_of_n, each round": ReplayCase(
        {"strategy": {"kind": "best_of_n", "n": 3}, "review": EACH},
        lambda: scores(0.4, 0.6, 0.5, 0.3),
        {"iterations/2/review": MORE, "iterations/4/review": {"action": "reject"}},
    ),
    "nested, each draft of the whole": ReplayCase(
        {
            "draft": "# When\n\nWe refund.\n\n# How\n\nBy card.",
            "strategy": {"kind": "nested", "max_iterations": 2},
            "review": EACH,
        },
        lambda: improving(0.5, 0.05),
        {
            "iterations/0/review": {
                "action": "replace",
                "draft": "# When\n\nSoon.\n\n# How\n\nSo.",
            },
            "iterations/1/review": {"action": "rate", "score": 0.6},
            "iterations/2/review": MORE,
            "iterations/3/review": {"action": "approve"},
        },
    ),
    "plan_execute, before a call": ReplayCase(
        {"strategy": {"kind": "plan_execute", "approval": "before_call"}, "tools": [BOOK]},
        booking,
        {
            "steps/1/approval": {"action": "reject", "feedback": "Number 8 instead."},
            "steps/2/approval": {"action": "replace", "arguments": {"id": "eight"}},
            "steps/2/approval/again/1": {"action": "replace", "arguments": {"id": 8}},
        },
    ),
    "multi_pass, before completion": ReplayCase(
        {
            "draft": "We refund.",
            "strategy": {"kind": "multi_pass", "passes": [{"focus": "style", "criteria": CLEAR}]},
            "review": BEFORE,
        },
        lambda: improving(0.3, 0.05),
        {
            "reviews/1": MORE | {"score": 0.5},
            "reviews/2": OURS,
            "reviews/3": {"action": "rate", "score": 0.9},
        },
    ),
    "stepwise, an outline before it is written out": ReplayCase(
        {
            "strategy": {
                "kind": "stepwise",
                "stages": [
                    {"name": "outline", "review": BEFORE, "threshold": 0.9},
                    {"name": "text", "review": EACH, "max_iterations": 3},
                ],
            },
            "threshold": 0.4,
        },
        lambda: improving(0.3, 0.05),
        {
            "stages/outline/reviews/1": MORE,
            "stages/outline/reviews/2": {"action": "approve", "score": 0.5},
            "stages/text/iterations/1/review": {"action": "rate", "score": 0.1},
            "stages/text/iterations/2/review": OURS,
            "stages/text/iterations/3/review": {"action": "approve"},
        },
    ),
    "nested, every part side by side": ReplayCase(
        {
            "strategy": {
                "kind": "nested",
                "parts": [{"name": it, "instructions": "Some."} for it in ("one", "two", "three")],
                "body": {
                    "kind": "multi_pass",
                    "passes": [{"focus": "style", "review": BEFORE}],
                },
                "review": EACH,
            },
            "threshold": 0.4,
        },
        lambda: improving(0.3, 0.05),
        {
            "parts/one/passes/style/reviews/1": MORE,
            "parts/one/passes/style/reviews/2": {"action": "approve"},
            "parts/one/iterations/1/review": {"action": "approve"},
            "parts/two/passes/style/reviews/1": {"action": "approve"},
            "parts/two/iterations/1/review": {"action": "reject"},
            "parts/three/passes/style/reviews/1": {"action": "rate", "score": 0.8},
            "parts/three/iterations/1/review": MORE,
            "parts/three/iterations/2/review": {"action": "approve"},
        },
    ),
}
"""Cases with a reviewer who says one word at each pause."""


def replying(script: ScriptedExample) -> ReplayCase:
    """Return the case of a scripted example."""

    async def answer(key: str, _call: ModelCall) -> str:
        return script.says[key]

    return ReplayCase(
        script.request, lambda: ScriptedAnswers(answer, outside=script.resources), script.words
    )


CHOSEN = {"kind": "best_of_n", "n": 2}
PASSES = {"kind": "multi_pass", "passes": [{"focus": "style", "body": CHOSEN, "max_iterations": 2}]}
STAGES = {"kind": "stepwise", "stages": [{"name": "text", "body": PASSES}]}
DEEP = {"kind": "nested", "parts": [{"name": "one", "instructions": "All."}], "body": STAGES}

COMPOSED: dict[str, ReplayCase] = {
    "a report on topics": replying(REPORT),
    "a story in chapters": replying(STORY),
    "SQL": replying(QUERY),
    "a function": replying(FUNCTION),
    "a booking that is refused": replying(DINNER),
    "a contract": replying(contract(3, 1, 3)),
    "a letter that two people approve": replying(LETTER),
    "four deep": ReplayCase({"strategy": DEEP, "threshold": 0.6}, lambda: improving(0.6, 0.1)),
}
"""Cases of strategies within strategies, and of parts that follow each other."""

CHECKED = {"kind": "chain_of_verification", "max_questions": 2}
LOOKED_UP: dict[str, ReplayCase] = {
    "facts looked up": ReplayCase(
        {"strategy": CHECKED, "tools": [LOOK_UP], "max_iterations": 2}, looking_up
    ),
}
"""Cases of tools beside plans."""

EVERY: dict[str, ReplayCase] = {**CASES, **REVIEWED, **REVISED, **JUDGED, **COMPOSED, **LOOKED_UP}
"""All cases by name; what is played is the kind that the name or the request says."""

SHAPES = (
    "iterative",
    "best_of_n",
    "nested",
    "plan_execute",
    "iterative, each draft",
    "edits",
    "a panel with samples",
    "a booking that is refused",
)
"""A case of each shape: a chain, candidates, parts, a plan, reviews, edits, critics, tools."""


def distance(kind: str) -> int:
    """Return how far apart the steps are at which a case is disturbed: at every one for a shape."""
    return 1 if kind in SHAPES else 3


def with_mark(kind: str, *values: object) -> Any:
    """Return a case, and further values, as a parameter: one beyond SHAPES takes long."""
    return pytest.param(kind, *values, marks=() if kind in SHAPES else pytest.mark.long)


EVERY_KIND = [with_mark(kind) for kind in EVERY]
