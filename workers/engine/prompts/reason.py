"""A first draft in numbered steps."""

from workers.engine.briefs import Prompt, Reason
from workers.engine.prompts.fence import DATA_RULE, described

VERSION = 1
FORM = """Every step begins on a line of its own with its number, a full stop and a space: "1. ",
"2. ", "3. " and so on without a gap. No other line begins with a number and a full stop. A step
says one thing, and how it follows from those before it. The last step gives the answer."""
SYSTEM = f"""You do what the task asks in numbered steps, and meet every criterion.
{FORM}
Use only facts from the task and the context documents; where a fact is missing, say so in a step.
Answer with the steps alone: no comment, no code fence around them.
{DATA_RULE}"""


def render(brief: Reason) -> Prompt:
    """Ask for a chain of steps where there is none."""
    return Prompt("reason", VERSION, SYSTEM, "\n\n".join(described(brief.task)))
