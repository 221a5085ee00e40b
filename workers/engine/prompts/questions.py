"""Verification questions about what a draft states (Chain-of-Verification, arXiv:2309.11495)."""

from workers.engine.briefs import Prompt, Question
from workers.engine.prompts.fence import DATA_RULE, described, fenced
from workers.engine.prompts.shape import TEXT, closed, listed

VERSION = 1
SYSTEM = f"""You ask the questions by which the statements of fact in a draft are verified. You did
not write it. Take the statements that matter most and are likeliest to be wrong: numbers, dates,
names, causes, conditions, what is promised. For each of them copy the claim, word for word as it
stands in the draft, and ask one question whose answer confirms or refutes it.
Whoever answers has never seen the draft and must not learn from the question what it says. So name
what the question is about, never speak of a draft or a text, and ask openly: "How many days do
customers have?", not "Do customers have 30 days?".
Opinions, advice and wording need no question. A draft that states no facts gets an empty list.
Answer with one JSON object and nothing else:
{{"questions": [{{"claim": "<words of the draft>", "question": "<open question>"}}]}}
{DATA_RULE}"""

SCHEMA = listed("questions", closed({"claim": TEXT, "question": TEXT}))


def render(brief: Question) -> Prompt:
    """Ask for open questions about a draft."""
    parts = [
        *described(brief.task),
        fenced("Draft", brief.draft),
        f"Ask at most {brief.most}, the most important first.",
    ]
    return Prompt("questions", VERSION, SYSTEM, "\n\n".join(parts), SCHEMA)
