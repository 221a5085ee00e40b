"""A model that costs all it may, and requests of every kind for it."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from app.contract.requests import RefinementRequest
from app.contract.strategies import STRATEGIES
from app.contract.strategies.reasoning import chain_of
from tests.engine.engine_driver import EngineDriver, Refusal, verdict
from tests.engine.scripted_replies import (
    checklist,
    in_marks,
    questions,
    revised,
    said,
    steps,
    weights,
)
from workers.engine.moves import Ask
from workers.engine.prompts import Judge, ListCriteria, PromptRequest, Reason, Redo, Solve
from workers.engine.strategies.nested import Outline
from workers.engine.strategies.plan_execute import Replan
from workers.engine.verification import CheckSteps, Question, Vote, Weigh

ITERATION = re.compile(r"(?:(?P<search>.*)/)?iterations/(?P<number>\d+)")
TEXT = "\n".join(f"- Point {n} of all that has to be said about refunds." for n in range(1, 31))
"""Thirty sections, and long enough to be revised by edits."""
CHAIN = "1. It begins.\n2. It ends."
GIVEN = {"reasoning_revision": CHAIN, "nested": "\n\n".join([f"# Part\n\n{TEXT}"] * 3)}
"""The client's draft, where it is another one."""
GIVING: dict[str, dict[str, Any]] = {
    "best_of_n": {"n": 2, "refine": True},
    "best_of_n alone": {"n": 2},
    "multi_pass": {"passes": [{"focus": "facts", "max_iterations": 2}, {"focus": "style"}]},
    "stepwise": {
        "stages": [
            {"name": "outline", "max_iterations": 2},
            {"name": "text", "sections": True, "max_iterations": 2},
            {"name": "polish", "mode": "revise", "max_iterations": 1},
        ]
    },
    "chain_of_verification": {"max_questions": 3},
    "self_consistency": {"n": 4, "vote": "judge", "weigh": True},
    "plan_execute": {"max_steps": 3},
}
OWN = {**{kind: {} for kind in STRATEGIES if kind != "nested"}, **GIVING}
NESTED = {
    f"nested {kind}": {"body": {"kind": kind.split()[0], **given}, "max_iterations": 4}
    for kind, given in OWN.items()
    if kind != "critique"  # changes no part, so that the whole is not judged again
}
VERIFIED = {"body": {"kind": "chain_of_verification", "max_questions": 3}, "max_iterations": 2}
SAMPLED = {"body": {"kind": "best_of_n", "n": 2, "refine": True}, "max_iterations": 3}
PASSES = [{"focus": "facts", **VERIFIED}, {"focus": "style", **SAMPLED}]
STAGES = [
    {"name": "facts", "body": {"kind": "plan_execute", "max_steps": 3}, "max_iterations": 2},
    {"name": "text", "sections": True, **SAMPLED},
    {"name": "polish", "mode": "revise", "body": {"kind": "multi_pass", "passes": PASSES}},
]
INSIDE: dict[str, dict[str, Any]] = {
    "multi_pass of bodies": {"passes": PASSES},
    "stepwise of bodies": {"stages": STAGES},
    "nested one after the other": {"order": "sequence", "max_iterations": 2},
    "nested auto": {"parts": "auto", "max_parts": 4, "max_iterations": 2},
    "nested auto until": {
        "parts": "auto",
        "order": "sequence",
        "until": {"name": "whole"},
        "max_parts": 4,
        "max_iterations": 2,
    },
    "nested four deep": {"body": {"kind": "stepwise", "stages": STAGES}, "max_iterations": 2},
}
KINDS = {**OWN, **NESTED, **INSIDE}
"""Parameters by strategy; more words tell apart those of one kind."""

PARTS = [{"name": name, "instructions": "Of three."} for name in ("one", "two", "three")]


LOOK_UP = {
    "name": "look_up",
    "description": "Finds.",
    "url": "https://tools.example.com",
    "parameters": {},
}


def spent_on(kind: str, *, has_draft: bool, **around: Any) -> RefinementRequest:
    """Return a request that nothing but its caps ends; critics are left out where refused."""
    name = kind.split(maxsplit=1)[0]
    strategy: dict[str, Any] = {"kind": name, **KINDS[kind]}
    if name == "nested" and not has_draft and "auto" not in kind:
        strategy["parts"] = PARTS
        if "self_correction" in kind:
            strategy["parts"] = [{**it, "validators": [{"kind": "json"}] * 4} for it in PARTS]
    if name == "self_correction":
        around["validators"] = [{"kind": "json"}] * 4
    if not STRATEGIES[name].judges_criteria:
        around = {key: it for key, it in around.items() if key not in ("criteria", "critics")}
    if has_draft:
        around["draft"] = GIVEN.get(name, TEXT)
    fields = {"task": "Explain refunds.", "threshold": 1, "max_iterations": 4, "stop": NEVER}
    fields["accept"] = ["goal_not_met"]  # else a stage that plans is the last
    return RefinementRequest.model_validate({**fields, "strategy": strategy, **around})


NEVER = {"patience": 50, "min_improvement": 0, "max_similarity": 1}


def takes(kind: str, *, has_draft: bool) -> bool:
    try:
        spent_on(kind, has_draft=has_draft)
    except ValidationError:
        return False
    return True


DRAFTS = {kind: [it for it in (False, True) if takes(kind, has_draft=it)] for kind in KINDS}
"""Whether a client's draft can, and must, be given."""


@dataclass
class CostlyDriver(EngineDriver):
    """Says something that can be read and leads on; `spoiled` may take it back."""

    score: Callable[[str], float] = field(kw_only=True)
    spoiled: Callable[[Ask, str], str | Refusal] = field(kw_only=True)

    def _asked(self, move: Ask) -> Any:
        return self.spoiled(move, self._said(move.path, move.prompt_request))

    def _said(self, path: str, prompt_request: PromptRequest) -> str:
        reply = said(prompt_request) or f"{TEXT} {len(self.moves)}"
        match prompt_request:
            case Judge(task=task):
                names = [it.name for it in task.criteria]
                reply = verdict(*[self.score(path)] * len(names), names=names)
            case ListCriteria():
                reply = checklist()
            case Question(draft=draft, most=most):
                reply = questions(*[(draft.split()[1], f"What is {n}?") for n in range(most + 1)])
            case Replan():
                reply = revised("Find more.")
            case CheckSteps(draft=draft):
                reply = steps(*[True] * len(chain_of(draft).starts))
            case Vote(answers=answers):
                reply = json.dumps({"groups": [[1], list(range(2, len(answers) + 1))]})
            case Weigh(answers=answers):
                reply = weights(len(answers))
            case Outline(most=most):
                reply = "\n".join(f"- {n}" for n in range(1, most + 1))
            case Solve():
                reply = in_marks(reply, prompt_request)
            case Reason():
                reply = CHAIN
            case Redo(first=first):
                reply = f"{first}. After {len(self.moves)} moves."
        return reply
