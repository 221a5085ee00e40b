"""Steps done anew from a number on; those before it stand."""

from workers.engine.briefs import Prompt, Redo
from workers.engine.prompts.fence import DATA_RULE, described, fenced
from workers.engine.prompts.reason import FORM

VERSION = 1
SYSTEM = f"""You go on with an argument in numbered steps. The steps that stay are right: build on
them and do not repeat them. Do the steps that follow anew. Mend what the review names; keep of the
old steps what is right.
{FORM}
Begin with the number you are told, and count on from there.
Use only facts from the task, the context documents and the steps that stay.
Answer with the new steps alone: no comment, no code fence around them.
{DATA_RULE}"""


def render(brief: Redo) -> Prompt:
    """Ask for the rest of a chain."""
    critique = brief.critique
    review = [*brief.failing, *critique.weaknesses, *critique.suggestions]
    stays = [fenced("Steps that stay", brief.kept)] if brief.kept.strip() else []
    parts = [
        *described(brief.task),
        *stays,
        fenced("Steps to do anew", brief.rest),
        fenced("Review", "\n".join(f"- {line}" for line in review)),
        f"Begin with step {brief.first}.",
    ]
    return Prompt("redo", VERSION, SYSTEM, "\n\n".join(parts))
