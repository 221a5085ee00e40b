"""Prompts: a brief in, text out. A changed text is a new version; replies keep the one they got."""

from collections.abc import Callable, Mapping
from typing import Any

from workers.engine.prompt_requests import (
    Amend,
    Answer,
    CheckSteps,
    Compare,
    Contradict,
    Derive,
    Do,
    Judge,
    ListCriteria,
    Plan,
    Prompt,
    PromptRequest,
    Question,
    Reason,
    Redo,
    Replan,
    Revise,
    Vote,
    Write,
)
from workers.engine.prompts import drafting, judging, planning, verification

RENDERERS: Mapping[type[PromptRequest], Callable[[Any], Prompt]] = {
    Write: drafting.render_write,
    Judge: judging.render_critique,
    ListCriteria: judging.render_checklist,
    Revise: drafting.render_revise,
    Amend: drafting.render_amend,
    Question: verification.render_questions,
    Answer: verification.render_answer,
    Contradict: verification.render_contradictions,
    Compare: judging.render_compare,
    Derive: drafting.render_derive,
    Vote: verification.render_vote,
    Reason: drafting.render_reason,
    CheckSteps: verification.render_steps,
    Redo: drafting.render_redo,
    Plan: planning.render_plan,
    Do: planning.render_do,
    Replan: planning.render_replan,
}


def render(prompt_request: PromptRequest) -> Prompt:
    """Put a brief into words for a language model."""
    return RENDERERS[type(prompt_request)](prompt_request)
