"""A scene for every kind of strategy: a request, and models whose answers depend on the step alone.

Each is played with all its appends and once more for every append that kills its worker.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.engine.saying import (
    checklist,
    contradictions,
    plan,
    preference,
    questions,
    revised,
    step,
    steps,
)
from tests.workers.stage import Answers, Words, scores, verdict
from workers.endpoints import EndpointUnavailable
from workers.engine.briefs import (
    Answer,
    CheckSteps,
    Compare,
    Contradict,
    Derive,
    Judge,
    ListCriteria,
    Question,
    Redo,
    Vote,
)
from workers.models.port import ModelCall, ModelRefused, ModelUnavailable
from workers.validators import Outside


@dataclass(frozen=True)
class Scene:
    """What is asked for, and who answers; every worker gets models of its own."""

    request: Mapping[str, Any]
    models: Callable[[], Answers]
    words: Words = field(default_factory=dict)


SCHEMA = {"type": "object", "required": ["days"], "properties": {"days": {"type": "integer"}}}


STAGES = [
    {"name": "outline", "criteria": [{"name": "complete"}], "threshold": 0.7},
    {"name": "draft", "sections": True, "threshold": 0.7},
    {"name": "polish", "mode": "revise", "max_iterations": 1},
]
CLEAR = [{"name": "clear", "floor": 0.5}]


def improving(first: float, step: float) -> Answers:
    """A critic whose score rises with the number of the iteration, and a writer."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.brief, Judge):
            number = int(key.rpartition("iterations/")[2].split("/")[0])
            return verdict(round(min(1.0, first + step * number), 3), call)
        if key.startswith("stages/outline"):
            return "- What is refunded\n- When\n- How"
        return f"Text of {key}. " * 3

    return Answers(answer)


def writing(*drafts: str) -> Answers:
    """A writer with these drafts for iteration 1, 2, 3 ..., and no critic."""

    async def answer(key: str, call: ModelCall) -> str:
        assert not isinstance(call.brief, Judge)
        return drafts[int(key.split("/")[1]) - 1]

    return Answers(answer)


def verifying() -> Answers:
    """A critic whose third draft is the first that no answer contradicts; one answer fails."""

    async def answer(key: str, call: ModelCall) -> str:
        match call.brief:
            case Judge():
                return verdict(0.9, call)
            case Question(draft=draft):
                words = draft.split()
                return questions((words[0], "What is it?"), (words[1], "And that?"))
            case Answer():
                if key == "iterations/1/verify/answers/2":
                    raise ModelRefused("no")
                return "Something else."
            case Contradict(draft=draft):
                has_fault = not key.startswith("iterations/3")
                return contradictions(*[(draft.split()[0], 1)] * has_fault)
        return f"Text of {key}. " * 3

    return Answers(answer)


LOOK_UP = {
    "name": "look_up",
    "description": "Returns a policy.",
    "url": "https://example.com/look-up",
    "parameters": {"required": ["id"], "properties": {"id": {"type": "integer"}}},
}
PLANNED = {
    "plan": plan(step("Look it up.", "look_up", id="seven")),
    "plan/again/1": plan(step("Look it up.", "look_up", id=7), "Say what it means."),
    "steps/1/replan": revised(step("Look up the next.", "look_up", id=8), "Say what it means."),
    "steps/2/replan": revised("Say what it means."),
    "steps/3/do": "A refund takes two weeks.",
    "steps/3/replan": revised(met=True, evidence=((2, "14 days"),)),
    "iterations/1/draft": "We refund, some day.",
    "iterations/2/revise": "We refund within 14 days.",
}


class Policies:
    """A tool that is a function: it knows one policy."""

    async def post(self, url: str, body: bytes, key: str, timeout_s: float) -> bytes:
        """Return the policy asked for."""
        if json.loads(body)["arguments"] != {"id": 8}:
            raise EndpointUnavailable("example.com answered 404: no such policy")
        return b"Refunds take 14 days."


def planning() -> Answers:
    """A planner whose first plan breaks a schema and whose first tool call fails."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.brief, Judge):
            return verdict(0.5 if key.startswith("iterations/1") else 0.9, call)
        return PLANNED[key]

    return Answers(answer, outside=Outside(endpoints=Policies()))


def sampling() -> Answers:
    """Four samples, one of which cannot be had, and a critic that groups the others."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.brief, Vote):
            return '{"groups": [[1], [2, 3]]}'
        if key == "iterations/2/draft":
            raise ModelRefused("no")
        return f"Text of {key}."

    return Answers(answer)


ORDERED = [
    {"name": "subject", "instructions": "A subject line."},
    {"name": "summary", "instructions": "One sentence."},
]


def followed_up(models: Answers) -> Answers:
    """The same models, asked for more than drafts and verdicts."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.brief, Compare):
            return preference("B" if key == "compare/1" else "A")
        if key == "outputs/summary":
            raise ModelRefused("no")
        if isinstance(call.brief, Derive):
            return f"Text of {key}."
        return await models.answer(key, call)

    return Answers(answer)


def reasoning() -> Answers:
    """A chain whose second step is faulty until it is done anew twice; one reply miscounts."""

    async def answer(key: str, call: ModelCall) -> str:
        match call.brief:
            case Judge():
                return verdict(0.9, call)
            case CheckSteps():
                return steps(True, key.startswith("iterations/3"))
            case Redo() if key == "iterations/2/revise":
                return "1. Not asked for."
            case Redo():
                return f"2. Text of {key}."
        return f"1. It begins.\n2. Text of {key}."

    return Answers(answer)


SCENES: dict[str, Scene] = {
    "plan_execute": Scene({"tools": [LOOK_UP]}, planning),
    "iterative": Scene(
        {"compare": True, "outputs": ORDERED}, lambda: followed_up(scores(0.4, 0.7, 0.6))
    ),
    "critique": Scene({"draft": "We refund."}, lambda: scores(0.4)),
    "best_of_n": Scene(
        {"strategy": {"n": 3, "refine": True}, "max_iterations": 5},
        lambda: scores(0.4, 0.6, 0.5, 0.7, 0.65),
    ),
    "multi_pass": Scene(
        {
            "draft": "We refund.",
            "strategy": {"passes": [{"focus": "structure"}, {"focus": "style", "criteria": CLEAR}]},
        },
        lambda: improving(0.3, 0.05),
    ),
    "stepwise": Scene(
        {"strategy": {"stages": STAGES}, "threshold": 0.8},
        lambda: improving(0.6, 0.1),
    ),
    "nested": Scene(
        {
            "threshold": 0.75,
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
    "reasoning_revision": Scene({}, reasoning),
    "self_consistency": Scene(
        {"strategy": {"n": 4, "vote": "judge"}, "max_iterations": 4}, sampling
    ),
    "chain_of_verification": Scene({"strategy": {"max_questions": 2}}, verifying),
    "self_correction": Scene(
        {"validators": [{"kind": "json"}, {"kind": "json_schema", "schema": SCHEMA}]},
        lambda: writing('{"days": ', '{"days": "14"}', '{"days": 14}'),
    ),
}

PANEL = [{"name": "reader"}, {"name": "lawyer", "adversarial": True}]


def panelled() -> Answers:
    """Critics who differ; one of their samples cannot be had."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.brief, ListCriteria):
            return checklist()
        if not isinstance(call.brief, Judge):
            return f"Text of {key}. " * 3
        if key.endswith("lawyer/2"):
            raise ModelUnavailable("gone")
        return verdict(0.9 if key.endswith("reader") else 0.2 * int(key.split("/")[1]), call)

    return Answers(answer)


JUDGED: dict[str, Scene] = {
    "a panel with samples": Scene(
        {"strategy": {"kind": "iterative"}, "critics": {"samples": 2, "panel": PANEL}}, panelled
    ),
    "criteria listed first": Scene(
        {"strategy": {"kind": "iterative"}, "criteria": "auto"}, panelled
    ),
    "both, in parts": Scene(
        {
            "strategy": {"kind": "best_of_n", "n": 2, "refine": True},
            "criteria": "auto",
            "critics": {"samples": 2, "panel": PANEL},
        },
        panelled,
    ),
}
"""Scenes with other judges than one critic on given criteria."""


def amending() -> Answers:
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
        if isinstance(call.brief, Judge):
            return verdict(round(0.2 + 0.1 * int(key.split("/")[1]), 3), call)
        return replies[key]

    return Answers(answer)


REVISED: dict[str, Scene] = {
    "edits": Scene(
        {
            "draft": "We refund you. Soon.",
            "strategy": {"kind": "iterative"},
            "edits": "delta",
            "locked": ["Soon"],
        },
        amending,
    ),
}
"""Scenes with a reviser who does not write the whole text."""

MORE = {"action": "revise", "feedback": "Name the deadline."}
OURS = {"action": "replace", "draft": "We refund within 14 days."}
EACH, BEFORE = ({"when": "each_iteration"}, {"when": "before_completion"})

REVIEWED: dict[str, Scene] = {
    "iterative, each draft": Scene(
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
    "best_of_n, each round": Scene(
        {"strategy": {"kind": "best_of_n", "n": 3}, "review": EACH},
        lambda: scores(0.4, 0.6, 0.5, 0.3),
        {"iterations/2/review": MORE, "iterations/4/review": {"action": "reject"}},
    ),
    "nested, each draft of the whole": Scene(
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
    "multi_pass, before completion": Scene(
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
}
"""Scenes with a reviewer who says one word at each pause."""
