"""Prompts: a brief in, text out. A changed text is a new version; replies keep the one they got."""

from collections.abc import Callable, Mapping
from typing import Any

from workers.engine.briefs import (
    Answer,
    Brief,
    Compare,
    Contradict,
    Do,
    Judge,
    Plan,
    Prompt,
    Question,
    Replan,
    Revise,
    Vote,
    Write,
)
from workers.engine.prompts import (
    answer,
    compare,
    contradictions,
    critique,
    do,
    plan,
    questions,
    replan,
    revise,
    vote,
    write,
)

RENDERERS: Mapping[type[Brief], Callable[[Any], Prompt]] = {
    Write: write.render,
    Judge: critique.render,
    Revise: revise.render,
    Question: questions.render,
    Answer: answer.render,
    Contradict: contradictions.render,
    Compare: compare.render,
    Vote: vote.render,
    Plan: plan.render,
    Do: do.render,
    Replan: replan.render,
}


def render(brief: Brief) -> Prompt:
    """Put a brief into words for a language model."""
    return RENDERERS[type(brief)](brief)
