"""What a model says to a brief that asks for neither a text nor a verdict."""

import json

from workers.engine.briefs import Answer, Brief, Contradict, Question

Pair = tuple[str, str]


def questions(*asked: Pair) -> str:
    """Verification questions, each with the claim that it is about."""
    return json.dumps({"questions": [{"claim": c, "question": q} for c, q in asked]})


def contradictions(*found: tuple[str, int]) -> str:
    """Claims, each with the number of the answer that contradicts it."""
    said = [
        {"claim": claim, "answer": n, "contradiction": "It says otherwise.", "fix": "Say it right."}
        for claim, n in found
    ]
    return json.dumps({"contradictions": said})


def said(brief: Brief, *, finds_fault: bool = False) -> str | None:
    """Return a reply that can be read, or None when a text or a verdict is asked for."""
    match brief:
        case Question():
            return questions((brief.draft.split()[0], "What is it?"))
        case Answer():
            return "Something else."
        case Contradict():
            return contradictions(*[(brief.draft.split()[0], 1)] * finds_fault)
    return None
