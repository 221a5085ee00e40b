"""The checklist: what a text will be judged on, drawn from the task."""

from app.contract.criteria import FEWEST_LISTED, LONGEST_NAME, LONGEST_QUESTION, MOST_LISTED
from workers.engine.briefs import ListCriteria, Prompt
from workers.engine.prompts.fence import DATA_RULE, described, fenced
from workers.engine.prompts.shape import TEXT, closed, listed

VERSION = 1
SYSTEM = f"""You list what a text will be judged on. You neither write the text nor judge it.
List {FEWEST_LISTED} to {MOST_LISTED} criteria: first what the task demands in so many words, then
what whoever set it will take for granted. Each asks for one thing, for this task and not for any
text, and no two ask for the same. Each is a question that a careful reader can answer from the
text, the task and the context documents alone, and that a perfect text answers with yes. Ask
nothing about who writes it, how, or how often. If there is a draft and no task, ask what a text
that does well what this one tries to do would answer with yes, whether this one does or not.
name: a word or two, {LONGEST_NAME} characters at most, each a different one. description: the
question, {LONGEST_QUESTION} characters at most, in the language of the task, with a question mark
at its end.
Answer with one JSON object and nothing else:
{{"criteria": [{{"name": "deadline", "description": "Does it name the last day for a refund?"}}]}}
{DATA_RULE}"""


def render(brief: ListCriteria) -> Prompt:
    """Ask for the criteria; a draft is shown only when there is no task."""
    parts = described(brief.task)
    if brief.task.instruction is None and brief.task.draft is not None:
        parts.append(fenced("Draft", brief.task.draft))
    return Prompt("checklist", VERSION, SYSTEM, "\n\n".join(parts), SCHEMA)


SCHEMA = listed("criteria", closed({"name": TEXT, "description": TEXT}))
