"""Who answers in the scenes: models whose answers depend on the step alone."""

import json

from tests.engine.saying import contradictions, plan, preference, questions, revised, step, steps
from tests.workers.stage import Answers, verdict
from workers.engine.prompt_requests import (
    Answer,
    CheckSteps,
    Compare,
    Contradict,
    Derive,
    Judge,
    Question,
    Redo,
    Vote,
)
from workers.models.port import ModelCall, ModelRefused
from workers.outbound.guarded_client import EndpointUnavailable
from workers.validators import Outside


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
