"""The revision of a plan: what was observed decides what remains to be done."""

from workers.engine.briefs import Prompt, Replan
from workers.engine.plans import Observation
from workers.engine.prompts.fence import DATA_RULE, fenced
from workers.engine.prompts.plan import STEPS, STEPS_RULE, material, written
from workers.engine.prompts.shape import closed

VERSION = 1
SYSTEM = f"""You revise a plan after a step of it. {STEPS_RULE}
First say whether the goal is met: whether what was observed is all the text needs. If it is, prove
it with evidence: the number of a step and words quoted from what was observed there, character for
character. Then give every step that remains, in order; none when nothing remains.
When a step failed, change the plan: another tool, other arguments, or a way without it. A call that
failed is not made again with the same arguments.
Answer with one JSON object and nothing else:
{{"goal_met": {{"met": false, "evidence": [{{"step": 1, "quote": "<words>"}}]}},
 "steps": [{{"name": "<short name>", "instruction": "<what to do, and what for>",
 "tool": null, "arguments": null}}]}}
{DATA_RULE}"""


def render(brief: Replan) -> Prompt:
    """Ask for the verdict on the goal and the steps that remain."""
    remaining = [written(step) for step in brief.remaining] or ["no step"]
    parts = [
        *material(brief.task),
        *map(observed, brief.observations),
        fenced("Remaining plan so far", "\n\n".join(remaining)),
        _what_happened(brief.observations[-1]),
        f"At most {brief.most} more steps are carried out.",
    ]
    return Prompt("replan", VERSION, SYSTEM, "\n\n".join(parts), _schema())


def observed(it: Observation) -> str:
    """Return what came of a step, and of which."""
    outcome = "was observed" if it.ok else "FAILED"
    step = fenced(f"Step {it.number}", written(it.step))
    return f"{step}\n{fenced(f'Step {it.number} {outcome}', it.text)}"


def _what_happened(last: Observation) -> str:
    if last.ok:
        return f"Step {last.number} was carried out."
    return f"Step {last.number} failed; what went wrong stands above. The plan has to change."


def _schema() -> dict[str, object]:
    evidence = closed({"step": {"type": "integer"}, "quote": {"type": "string"}})
    verdict: dict[str, object] = {
        "met": {"type": "boolean"},
        "evidence": {"type": "array", "items": evidence},
    }
    return closed({"goal_met": closed(verdict), "steps": STEPS})
