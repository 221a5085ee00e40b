"""Prompts: a brief in, text out. A changed text is a new version; replies keep the one they got."""

from collections.abc import Callable, Mapping
from typing import Any

from workers.engine.briefs import (
    Amend,
    Answer,
    Brief,
    CheckSteps,
    Compare,
    Contradict,
    Derive,
    Do,
    Judge,
    ListCriteria,
    Plan,
    Prompt,
    Question,
    Reason,
    Redo,
    Replan,
    Revise,
    Vote,
    Write,
)
from workers.engine.prompts import (
    amend,
    answer,
    checklist,
    compare,
    contradictions,
    critique,
    derive,
    do,
    plan,
    questions,
    reason,
    redo,
    replan,
    revise,
    steps,
    vote,
    write,
)

RENDERERS: Mapping[type[Brief], Callable[[Any], Prompt]] = {
    Write: write.render,
    Judge: critique.render,
    ListCriteria: checklist.render,
    Revise: revise.render,
    Amend: amend.render,
    Question: questions.render,
    Answer: answer.render,
    Contradict: contradictions.render,
    Compare: compare.render,
    Derive: derive.render,
    Vote: vote.render,
    Reason: reason.render,
    CheckSteps: steps.render,
    Redo: redo.render,
    Plan: plan.render,
    Do: do.render,
    Replan: replan.render,
}


def render(brief: Brief) -> Prompt:
    """Put a brief into words for a language model."""
    return RENDERERS[type(brief)](brief)
