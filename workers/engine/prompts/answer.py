"""The answer to one verification question: task, context and question, and nothing of the draft."""

from workers.engine.briefs import Answer, Prompt
from workers.engine.prompts.fence import DATA_RULE, documents, fenced

VERSION = 1
SYSTEM = f"""You answer one question of fact. Answer from the task and the context documents where
they say it, else from what you know for certain. Answer in one to three sentences with the fact
itself. If you do not know for certain, answer with the one word: unknown
{DATA_RULE}"""


def render(brief: Answer) -> Prompt:
    """Ask one question of somebody who has not seen the draft."""
    task = brief.task
    given = [fenced("Task", task.instruction)] if task.instruction else []
    parts = [*given, *documents(task), fenced("Question", brief.question)]
    return Prompt("answer", VERSION, SYSTEM, "\n\n".join(parts))
