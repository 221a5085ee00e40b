"""Which of several answers say the same (Universal Self-Consistency, arXiv:2311.17311)."""

from workers.engine.briefs import Prompt, Vote
from workers.engine.prompts.fence import DATA_RULE, documents, fenced
from workers.engine.prompts.shape import closed

VERSION = 1
SYSTEM = f"""You are given several answers to one task, written independently of each other. Put
those into one group that give the same answer: whoever acts on one would act the same on the other.
How it is worded, how long it is and how it was reasoned makes no difference; another result,
another decision or a contradicting fact does. Do not judge which answer is right.
Every number stands in exactly one group; an answer that no other shares is a group by itself.
Answer with one JSON object and nothing else: {{"groups": [[1, 3], [2]]}}
{DATA_RULE}"""

_GROUP = {"type": "array", "items": {"type": "integer"}}
SCHEMA = closed({"groups": {"type": "array", "items": _GROUP}})


def render(brief: Vote) -> Prompt:
    """Ask which answers say the same."""
    task = brief.task
    given = [fenced("Task", task.instruction)] if task.instruction else []
    answers = [fenced(f"Answer {number}", text) for number, text in enumerate(brief.answers, 1)]
    parts = [*given, *documents(task), *answers]
    return Prompt("vote", VERSION, SYSTEM, "\n\n".join(parts), SCHEMA)
