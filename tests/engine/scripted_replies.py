"""Replies of a model to a prompt request that asks for neither a text nor a verdict."""

import json
from collections.abc import Mapping

from workers.engine.prompts import CLOSES, OPENS, Compare, PromptRequest, Solve, Task, Write
from workers.engine.replies.reader import ReplyReader
from workers.engine.strategies.plan_execute import Plan, Replan
from workers.engine.verification import (
    Answer,
    CheckSteps,
    Contradict,
    LookUp,
    Question,
    Vote,
    Weigh,
)

Pair = tuple[str, str]


def replied(text: str, asked: PromptRequest | None = None) -> ReplyReader:
    """A reply as it is given to the function that reads it."""
    return ReplyReader(text, asked or Write(Task("Explain refunds.", None, (), "482913")))


def questions(*asked: Pair) -> str:
    """Verification questions, each with the claim that it is about."""
    return json.dumps({"questions": [{"claim": c, "question": q} for c, q in asked]})


def look_ups(*calls: tuple[str, Mapping[str, object]] | None) -> str:
    """The tool and its arguments that are called for question 1, 2, 3 ..."""
    picked = [
        {"tool": None, "arguments": None}
        if it is None
        else {"tool": it[0], "arguments": json.dumps(it[1])}
        for it in calls
    ]
    return json.dumps({"lookups": {f"q{number}": it for number, it in enumerate(picked, 1)}})


def contradictions(*found: tuple[str, int]) -> str:
    """Claims, each with the number of the answer that contradicts it."""
    said = [
        {"claim": claim, "answer": n, "contradiction": "It says otherwise.", "fix": "Say it right."}
        for claim, n in found
    ]
    return json.dumps({"contradictions": said})


def checklist(*names: str) -> str:
    """What a text is to be judged on."""
    listed = names or ("complete", "correct", "short")
    return json.dumps({"criteria": [{"name": it, "description": f"Is it {it}?"} for it in listed]})


def preference(better: str) -> str:
    """Which of two texts is the better one."""
    return json.dumps({"reason": "It is plainer.", "better": better})


def step(instruction: str, tool: str | None = None, **arguments: object) -> dict[str, object]:
    """One step of a plan."""
    given = arguments if tool else None
    return {"name": "", "instruction": instruction, "tool": tool, "arguments": given}


def named(name: str, *needs: str, tool: str = "look_up", **arguments: object) -> dict[str, object]:
    """One call of a plan by its name and those of what it needs; open without arguments."""
    said = {"name": name, "instruction": f"Do {name}.", "tool": tool, "needs": list(needs)}
    return {**said, "arguments": arguments or None}


def plan(*steps: str | dict[str, object]) -> str:
    """A plan; a text is a step without a tool."""
    return json.dumps({"steps": [step(it) if isinstance(it, str) else it for it in steps]})


def revised(
    *steps: str | dict[str, object], met: bool = False, evidence: tuple[tuple[int, str], ...] = ()
) -> str:
    """A revised plan, and the verdict on the goal with its quotations."""
    verdict = {"met": met, "evidence": [{"step": n, "quote": quote} for n, quote in evidence]}
    return json.dumps({"goal_met": verdict, **json.loads(plan(*steps))})


def steps(*correct: bool) -> str:
    """A verdict on step 1, 2, 3 ... of a chain."""
    said = [
        {"step": number, "why": "It follows." if it else "It does not follow.", "correct": it}
        for number, it in enumerate(correct, 1)
    ]
    return json.dumps({"steps": said})


def in_marks(text: str, prompt_request: PromptRequest) -> str:
    """Return a text as a model gives it: after some reasoning, where it is asked to reason."""
    if not isinstance(prompt_request, Solve) or OPENS in text:
        return text
    return f"Let us see. It follows.\n{OPENS}{text}{CLOSES}"


def said(prompt_request: PromptRequest, *, finds_fault: bool = False) -> str | None:
    """Return a reply that can be read, or None when a text or a verdict is asked for."""
    reply: str | None = None
    match prompt_request:
        case Question():
            reply = questions((prompt_request.draft.split()[0], "What is it?"))
        case LookUp(questions=asked):
            reply = look_ups(*[None] * len(asked))
        case Answer():
            reply = "Something else."
        case Contradict():
            reply = contradictions(*[(prompt_request.draft.split()[0], 1)] * finds_fault)
        case Compare():
            reply = preference("B")
        case Plan():
            reply = plan("Find out.")
        case Replan():
            last = prompt_request.observations[-1]
            reply = revised(met=True, evidence=((last.number, last.text),))
        case CheckSteps():
            return steps(True, not finds_fault)
        case Vote():
            reply = json.dumps(
                {"groups": [[number] for number in range(1, len(prompt_request.answers) + 1)]}
            )
        case Weigh():
            reply = weights(len(prompt_request.answers))
    return reply


def weights(count: int) -> str:
    """Return the reply by which every answer is as likely right."""
    return json.dumps({f"a{number}": {"score": 0.5} for number in range(1, count + 1)})
