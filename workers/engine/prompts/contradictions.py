"""Where a draft and the answers to its verification questions contradict each other."""

from workers.engine.briefs import Contradict, Prompt
from workers.engine.prompts.fence import DATA_RULE, described, fenced
from workers.engine.prompts.shape import NUMBER, TEXT, closed, listed

VERSION = 1
SYSTEM = f"""You compare a draft with answers given by somebody who has not seen it. Report every
statement of the draft that an answer contradicts: both cannot be true. An answer that says less, or
more, or the same in other words contradicts nothing; nor does one that is unsure. Where a context
document settles the matter, it is right, whatever draft and answer say.
For each contradiction copy the claim word for word as it stands in the draft, give the number of
the answer, say what contradicts what, and how the draft is to be mended.
Without contradictions the list is empty. Answer with one JSON object and nothing else:
{{"contradictions": [{{"claim": "<words of the draft>", "answer": 1,
  "contradiction": "<what contradicts what>", "fix": "<what to write instead>"}}]}}
{DATA_RULE}"""

SCHEMA = listed(
    "contradictions",
    closed({"claim": TEXT, "answer": NUMBER, "contradiction": TEXT, "fix": TEXT}),
)


def render(brief: Contradict) -> Prompt:
    """Ask for the contradictions between a draft and independent answers."""
    answers = [
        fenced(f"Question and answer {number}", f"{asked}\n\n{answer}")
        for number, (asked, answer) in enumerate(brief.answered, 1)
    ]
    parts = [*described(brief.task), fenced("Draft", brief.draft), *answers]
    return Prompt("contradictions", VERSION, SYSTEM, "\n\n".join(parts), SCHEMA)
