"""Models of the replay cases: answers depend on the step alone."""

import json

from app.contract.endpoints import Endpoint
from tests.engine.scripted_replies import (
    contradictions,
    look_ups,
    plan,
    preference,
    questions,
    revised,
    step,
    steps,
)
from tests.workers.refinement_harness import ScriptedAnswers, verdict
from workers.engine.prompts import Compare, Derive, Judge, Redo
from workers.engine.verification import (
    Answer,
    CheckSteps,
    Contradict,
    LookUp,
    Question,
    Vote,
    Weigh,
)
from workers.models.port import ModelCall, ModelRefused
from workers.outbound.guarded_client import EndpointClient, EndpointUnavailable
from workers.validators.running import ServerResources


def improving(first: float, step: float) -> ScriptedAnswers:
    """A critic whose score rises with the number of the iteration, and a writer."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            number = int(key.rpartition("iterations/")[2].split("/")[0])
            return verdict(round(min(1.0, first + step * number), 3), call)
        if key.startswith("stages/outline"):
            return "- What is refunded\n- When\n- How"
        return f"Text of {key}. " * 3

    return ScriptedAnswers(answer)


def writing(*drafts: str) -> ScriptedAnswers:
    """A writer with these drafts for iteration 1, 2, 3 ..., and no critic."""

    async def answer(key: str, call: ModelCall) -> str:
        assert not isinstance(call.prompt_request, Judge)
        return drafts[int(key.split("/")[1]) - 1]

    return ScriptedAnswers(answer)


def verifying() -> ScriptedAnswers:
    """A critic whose third draft is the first that no answer contradicts; one answer fails."""

    async def answer(key: str, call: ModelCall) -> str:
        match call.prompt_request:
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

    return ScriptedAnswers(answer)


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
    "steps/3/do": "A refund takes two weeks.",
    "steps/3/replan": revised(met=True, evidence=((2, "14 days"),)),
    "iterations/1/draft": "We refund, some day.",
    "iterations/2/revise": "We refund within 14 days.",
}


class Policies(EndpointClient):
    """A tool that is a function: it knows one policy."""

    async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
        """Return the policy asked for."""
        if json.loads(body)["arguments"] != {"id": 8}:
            raise EndpointUnavailable("example.com answered 404: no such policy")
        return b"Refunds take 14 days."


def looking_up() -> ScriptedAnswers:
    """A critic who looks questions up: arguments that do not fit, a failed call, and one that says
    14 days."""
    models = verifying()

    async def answer(key: str, call: ModelCall) -> str:
        match call.prompt_request:
            case LookUp() if key == "iterations/1/verify/lookups":
                return look_ups(("look_up", {"id": "seven"}), None)
            case LookUp():
                return look_ups(("look_up", {"id": 7}), ("look_up", {"id": 8}))
            case Answer(found="Refunds take 14 days."):
                return "14 days."
            case Judge() | Question() | Contradict() | Answer():
                return await models.answer(key, call)
        return f"Text of {key}. " * 3

    return ScriptedAnswers(answer, outside=ServerResources(endpoints=Policies()))


def planning() -> ScriptedAnswers:
    """A planner whose first plan breaks a schema and whose first tool call fails."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            return verdict(0.5 if key.startswith("iterations/1") else 0.9, call)
        return PLANNED[key]

    return ScriptedAnswers(answer, outside=ServerResources(endpoints=Policies()))


BOOK = LOOK_UP | {"name": "book", "effects": True, "idempotent": True}
BOOKED = {
    "plan": plan(step("Book the small one.", "book", id=1)),
    "steps/1/replan": revised(step("Book what was allowed.", "book", id=8)),
    "steps/2/replan": revised(met=True, evidence=((2, "14 days"),)),
    "iterations/1/draft": "We refund within 14 days.",
}


def booking() -> ScriptedAnswers:
    """A planner that changes its plan when a reviewer refuses a call."""

    async def answer(key: str, call: ModelCall) -> str:
        return verdict(0.9, call) if isinstance(call.prompt_request, Judge) else BOOKED[key]

    return ScriptedAnswers(answer, outside=ServerResources(endpoints=Policies()))


def sampling() -> ScriptedAnswers:
    """Four samples, one of which cannot be had; a critic groups and weighs the others."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Vote):
            return '{"groups": [[1], [2, 3]]}'
        if isinstance(call.prompt_request, Weigh):
            return '{"a1": {"score": 0.9}, "a2": {"score": 0.2}}'
        if key == "iterations/2/draft":
            raise ModelRefused("no")
        return f"Text of {key}."

    return ScriptedAnswers(answer)


def followed_up(models: ScriptedAnswers) -> ScriptedAnswers:
    """The same models, asked for more than drafts and verdicts."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Compare):
            return preference("B" if key == "compare/1" else "A")
        if key == "outputs/summary":
            raise ModelRefused("no")
        if isinstance(call.prompt_request, Derive):
            return f"Text of {key}."
        return await models.answer(key, call)

    return ScriptedAnswers(answer)


def reasoning() -> ScriptedAnswers:
    """A chain whose third step is faulty until it is done anew twice; one reply miscounts.

    The first time a calculator finds it, the second time the critic.
    """
    first = "1. Two and two: 2 + 2 = 4.\n2. Twice that: 4 * 2 = 8.\n"

    async def answer(key: str, call: ModelCall) -> str:
        match call.prompt_request:
            case Judge():
                return verdict(0.9, call)
            case CheckSteps():
                return steps(True, True, not key.startswith("iterations/2"))
            case Redo() if key == "iterations/2/revise":
                return "1. Not asked for."
            case Redo(first=3):
                return f"3. Text of {key}: 8 - 3 = 5."
        return f"{first}3. Text of {key}: 8 - 3 = 6."

    return ScriptedAnswers(answer)
