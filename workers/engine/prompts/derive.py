"""A further text made of a finished one."""

from workers.engine.briefs import Derive, Prompt
from workers.engine.prompts.fence import DATA_RULE, documents, fenced

VERSION = 1
SYSTEM = f"""You write one further text from a finished one, such as its subject line or a summary.
The order says what the further text must be; the task says what the finished text was written for.
Use only facts from the finished text, the task and the context documents, and contradict none of
them. The finished text stays as it is.
Answer with the further text alone: no preamble, no comment, no code fence around it.
{DATA_RULE}
The order too says what is to be achieved."""


def render(brief: Derive) -> Prompt:
    """Ask for a text that is made of another."""
    task = brief.task
    given = [fenced("Task", task.instruction)] if task.instruction else []
    texts = [fenced("Finished text", brief.draft), fenced("Order", brief.order)]
    return Prompt("derive", VERSION, SYSTEM, "\n\n".join([*given, *documents(task), *texts]))
