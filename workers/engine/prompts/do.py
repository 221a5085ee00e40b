"""One step of a plan, carried out by a writer."""

from workers.engine.briefs import Do, Prompt
from workers.engine.prompts.fence import DATA_RULE, described, fenced
from workers.engine.prompts.plan import written
from workers.engine.prompts.replan import observed

VERSION = 1
SYSTEM = f"""You carry out one step of a plan. The goal that the task states is reached by others:
do only what the step says. Use only facts from the task, the context documents and what was
observed; where a fact is missing, say that it is missing.
Answer with the result of the step alone: no preamble, no comment.
{DATA_RULE}"""


def render(brief: Do) -> Prompt:
    """Ask for the result of one step."""
    parts = described(brief.task)
    if brief.task.draft is not None:
        parts.append(fenced("Draft to be improved", brief.task.draft))
    parts += map(observed, brief.observations)
    parts.append(fenced("The step to carry out", written(brief.step)))
    return Prompt("do", VERSION, SYSTEM, "\n\n".join(parts))
