"""The revision by edits: only what has to change is written."""

from workers.engine.briefs import Amend, Prompt
from workers.engine.prompts.fence import DATA_RULE
from workers.engine.prompts.revise import material
from workers.engine.prompts.shape import TEXT, closed, listed

VERSION = 1
SYSTEM = f"""You revise a draft by edits. Mend what the review names, worst first, and meet every
criterion. What earlier attempts did not mend needs another way than theirs; what they mended stays
mended. Leave everything else as it is, and keep facts, numbers, names, quotations and links unless
the review says they are wrong. Use only facts from the draft, the task and the context documents.
Every edit replaces words of the draft. `search` is copied from the draft character for character,
white space and punctuation included, and long enough to occur in it exactly once; `replace` stands
there afterwards, and is empty to delete. All edits are applied to the draft as it is given; no two
may overlap. Locked text stays as it is: no edit touches it.
Answer with one JSON object and nothing else: {{"edits": [{{"search": "...", "replace": "..."}}]}}
{DATA_RULE}"""


def render(brief: Amend) -> Prompt:
    """Ask for edits that make a judged draft better."""
    schema = listed("edits", closed({"search": TEXT, "replace": TEXT}))
    return Prompt("amend", VERSION, SYSTEM, material(brief.revision), schema)
