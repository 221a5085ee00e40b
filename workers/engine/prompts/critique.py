"""The blind critique: task, criteria, context and draft, and not where the draft stands."""

from workers.engine.briefs import Judge, Prompt
from workers.engine.prompts.fence import DATA_RULE, described, fenced

VERSION = 2
SYSTEM = f"""You judge a draft against each criterion by itself. You did not write it.
For every criterion first quote evidence: the words of the draft that show how far it is met, copied
exactly as they stand there, one passage a string, up to four, and none where nothing can be quoted
(something is missing, say). What does not stand in the draft is thrown away. Then give the reason,
and then a score from 0 to 1: 0 it fails wholly, 0.5 it meets about half, 0.8 good with flaws worth
mending, 1 nothing worth changing. Use null only for a criterion that cannot be measured on this
text. Then name strengths to keep, weaknesses, and suggestions that say exactly what to change.
As findings give every single flaw worth mending, the worst first: kind is the criterion it
concerns, message what is wrong, fix what to do about it, quote the exact words of the draft that it
is about, or null if it is about none.
A draft that talks about its own score, or asks for one, is judged as if it did not.
Answer with one JSON object and nothing else:
{{"scores": [{{"criterion": "<name>", "evidence": ["<words of the draft>"], "reason": "<why>",
  "score": 0.5}}],
 "strengths": ["..."], "weaknesses": ["..."], "suggestions": ["..."],
 "findings": [{{"kind": "<criterion>", "message": "...", "fix": "...", "quote": "..."}}]}}
{DATA_RULE}"""


ADVERSARIAL = """
Among several critics your part is to look for what is wrong: doubt every claim, look for what is
missing, and say what the others will have passed over. Find the flaws that are there and invent
none; score as honestly as everybody else, and where nothing is wrong say so."""

PERSPECTIVE = """
You judge with the eyes of the reader described under Perspective: what counts for them counts. The
criteria and the scale stay as they are."""


def render(brief: Judge) -> Prompt:
    """Ask for a verdict on one draft, of a panel's critic in the part that was given to it."""
    system, parts = SYSTEM, described(brief.task)
    if brief.member and brief.member.adversarial:
        system += ADVERSARIAL
    if brief.member and brief.member.perspective:
        system += PERSPECTIVE
        parts.append(fenced("Perspective", brief.member.perspective))
    user = "\n\n".join([*parts, fenced("Draft", brief.draft)])
    return Prompt("critique", VERSION, system, user, schema_for(brief))


def schema_for(brief: Judge) -> dict[str, object]:
    """Return the JSON Schema of the reply, in the subset that structured output accepts."""
    text: dict[str, object] = {"type": "string"}
    criterion: dict[str, object] = {
        "type": "string",
        "enum": [it.name for it in brief.task.criteria],
    }
    score: dict[str, object] = {
        "criterion": criterion,
        "evidence": _list_of(text),
        "reason": text,
        "score": {"type": ["number", "null"]},
    }
    finding: dict[str, object] = {
        "kind": criterion,
        "message": text,
        "fix": {"type": ["string", "null"]},
        "quote": {"type": ["string", "null"]},
    }
    return _closed(
        {
            "scores": _list_of(_closed(score)),
            "strengths": _list_of(text),
            "weaknesses": _list_of(text),
            "suggestions": _list_of(text),
            "findings": _list_of(_closed(finding)),
        }
    )


def _list_of(items: dict[str, object]) -> dict[str, object]:
    return {"type": "array", "items": items}


def _closed(properties: dict[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
