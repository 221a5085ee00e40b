"""The revision: what failed is named, what is good is kept."""

from workers.engine.briefs import Prompt, Revise
from workers.engine.prompts.fence import DATA_RULE, described, fenced

VERSION = 3
SYSTEM = f"""You revise a draft. Mend what the review names, worst first, and meet every criterion.
What earlier attempts did not mend needs another way than theirs; what they mended stays mended.
Keep what is good, and keep facts, numbers, names, quotations and links as they are unless the
review says they are wrong; locked text stays as it is. Use only facts from the draft, the task and
the context documents.
Answer with the whole revised text alone: no preamble, no comment, no code fence around it.
{DATA_RULE}"""


def render(brief: Revise) -> Prompt:
    """Ask for a better version of a judged draft."""
    return Prompt("revise", VERSION, SYSTEM, material(brief))


def material(brief: Revise) -> str:
    """Return what a reviser works on: task, draft, what of it is locked, and the review."""
    locked = [it for it in brief.task.locked if it in brief.draft]
    parts = [
        *described(brief.task),
        fenced("Draft", brief.draft),
        *[fenced("Locked text, to be kept character for character", it) for it in locked],
        fenced("Review", review(brief)),
    ]
    return "\n\n".join(parts)


def review(brief: Revise) -> str:
    """Return the feedback as text: what failed first, then what to keep."""
    critique = brief.critique
    sections = [
        ("Must be mended", brief.failing),
        ("Weaknesses", critique.weaknesses),
        ("Suggestions", critique.suggestions),
        ("Mended by earlier revisions, and not to be undone", brief.mended),
        ("Keep", critique.strengths),
    ]
    return "\n\n".join(
        f"{title}:\n" + "\n".join(f"- {line}" for line in lines)
        for title, lines in sections
        if lines
    )
