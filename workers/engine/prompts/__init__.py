"""Prompts: a brief in, text out. A changed text is a new version; replies keep the one they got."""

from workers.engine.briefs import (
    Answer,
    Brief,
    Contradict,
    Do,
    Judge,
    Plan,
    Prompt,
    Question,
    Replan,
    Revise,
    Write,
)
from workers.engine.prompts import (
    answer,
    contradictions,
    critique,
    do,
    plan,
    questions,
    replan,
    revise,
    write,
)


def render(brief: Brief) -> Prompt:
    """Put a brief into words for a language model."""
    match brief:
        case Write():
            return write.render(brief)
        case Judge():
            return critique.render(brief)
        case Revise():
            return revise.render(brief)
        case Question():
            return questions.render(brief)
        case Answer():
            return answer.render(brief)
        case Contradict():
            return contradictions.render(brief)
        case Plan():
            return plan.render(brief)
        case Do():
            return do.render(brief)
        case Replan():
            return replan.render(brief)
