"""Which step is the first faulty one: a verdict on each, in order (process supervision)."""

from workers.engine.briefs import CheckSteps, Prompt
from workers.engine.prompts.fence import DATA_RULE, documents, fenced
from workers.engine.prompts.shape import NUMBER, TEXT, closed, listed

VERSION = 1
SYSTEM = f"""You check an argument in numbered steps that you did not write. Go through it step by
step, from the first. Work each one out for yourself from the task, the context documents and the
steps before it, then compare. A step is faulty when it states something false, calculates wrongly,
does not follow from what stands before it, or leaves the task behind. Wording, length and an
unusual way are no faults.
Say of each step in a sentence why it holds or what is wrong with it, and whether it is correct.
Stop after the first faulty one: what follows from it proves nothing.
Answer with one JSON object and nothing else:
{{"steps": [{{"step": 1, "why": "<why it holds, or what is wrong>", "correct": true}}]}}
{DATA_RULE}"""

SCHEMA = listed("steps", closed({"step": NUMBER, "why": TEXT, "correct": {"type": "boolean"}}))


def render(brief: CheckSteps) -> Prompt:
    """Ask for the first faulty step of a chain."""
    task = brief.task
    given = [fenced("Task", task.instruction)] if task.instruction else []
    parts = [*given, *documents(task), fenced("Steps", brief.draft)]
    return Prompt("steps", VERSION, SYSTEM, "\n\n".join(parts), SCHEMA)
