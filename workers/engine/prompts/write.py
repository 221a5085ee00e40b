"""The first draft."""

from workers.engine.briefs import Prompt, Write
from workers.engine.prompts.fence import DATA_RULE, described

VERSION = 1
SYSTEM = f"""You write one text that does what the task asks and meets every criterion.
Use only facts from the task and the context documents; where a fact is missing, do without it.
Answer with the text alone: no preamble, no comment, no code fence around it.
{DATA_RULE}"""


def render(brief: Write) -> Prompt:
    """Ask for a draft where there is none."""
    return Prompt("write", VERSION, SYSTEM, "\n\n".join(described(brief.task)))
