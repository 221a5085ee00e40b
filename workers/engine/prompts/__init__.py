"""Prompts: a brief in, text out. A changed text is a new version; replies keep the one they got."""

from workers.engine.briefs import Brief, Judge, Prompt, Revise, Write
from workers.engine.prompts import critique, revise, write


def render(brief: Brief) -> Prompt:
    """Put a brief into words for a language model."""
    match brief:
        case Write():
            return write.render(brief)
        case Judge():
            return critique.render(brief)
        case Revise():
            return revise.render(brief)
