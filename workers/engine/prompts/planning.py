"""The plan: what to find out before the text is written."""

from dataclasses import dataclass

from app.contract.tools import Tool
from workers.engine.prompt_requests import (
    Observation,
    PlannedStep,
    Prompt,
    PromptRequest,
    Task,
    canonical,
)
from workers.engine.prompts.fence import DATA_RULE, closed, described, fenced

PLAN_VERSION = 1
STEPS_RULE = """A step names a tool and gives the arguments that its parameters ask for, or it
names no tool: then its instruction is carried out by a writer who sees the goal, the context
documents and everything observed before. Plan a step only for what the text needs and nobody knows
yet; the text itself is written after the plan and is not a step of it. Arguments hold what is known
now: a call that needs what is yet to be observed is planned afterwards, when the plan is revised.
Write `arguments` as the text of a JSON object, null without a tool."""
PLAN_SYSTEM = f"""\
You plan how to reach the goal that the task states. {STEPS_RULE}
Answer with one JSON object and nothing else:
{{"steps": [{{"name": "<short name>", "instruction": "<what to do, and what for>",
 "tool": null, "arguments": null}}]}}
{DATA_RULE}"""

STEPS: dict[str, object] = {
    "type": "array",
    "items": closed(
        {
            "name": {"type": "string"},
            "instruction": {"type": "string"},
            "tool": {"type": ["string", "null"]},
            "arguments": {"type": ["string", "null"]},
        }
    ),
}


@dataclass(frozen=True, slots=True)
class Plan(PromptRequest):
    """Plan how to reach the task's goal; at most `most` steps are carried out."""

    most: int

    def prompt(self) -> Prompt:
        parts = [*material(self.task), f"At most {self.most} steps are carried out."]
        schema = closed({"steps": STEPS})
        return Prompt("plan", PLAN_VERSION, PLAN_SYSTEM, "\n\n".join(parts), schema)


def material(task: Task) -> list[str]:
    """Return what a plan is made from: the task, the draft if there is one, and the tools."""
    parts = described(task)
    if task.draft is not None:
        parts.append(fenced("Draft to be improved", task.draft))
    return parts + [_described(tool) for tool in task.tools]


def written(step: PlannedStep) -> str:
    """Return a step in words."""
    lines = [step.name, step.instruction]
    if step.tool is not None:
        lines.append(f"tool: {step.tool}, arguments: {canonical(step.arguments)}")
    return "\n".join(line for line in lines if line)


def _described(tool: Tool) -> str:
    text = f"{tool.name}: {tool.description}\nparameters: {canonical(tool.parameters)}"
    return fenced("Tool", text)


REPLAN_VERSION = 1
REPLAN_SYSTEM = f"""\
You revise a plan after a step of it. {STEPS_RULE}
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


@dataclass(frozen=True, slots=True)
class Replan(PromptRequest):
    """Say whether the goal is met, and what remains to be done after the last observation."""

    remaining: tuple[PlannedStep, ...]
    observations: tuple[Observation, ...]
    most: int

    def prompt(self) -> Prompt:
        remaining = [written(step) for step in self.remaining] or ["no step"]
        parts = [
            *material(self.task),
            *map(observed, self.observations),
            fenced("Remaining plan so far", "\n\n".join(remaining)),
            _what_happened(self.observations[-1]),
            f"At most {self.most} more steps are carried out.",
        ]
        return Prompt("replan", REPLAN_VERSION, REPLAN_SYSTEM, "\n\n".join(parts), _schema())


def observed(it: Observation) -> str:
    """Return a step and its result, in words."""
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


DO_VERSION = 1
DO_SYSTEM = f"""\
You carry out one step of a plan. The goal that the task states is reached by others:
do only what the step says. Use only facts from the task, the context documents and what was
observed; where a fact is missing, say that it is missing.
Answer with the result of the step alone: no preamble, no comment.
{DATA_RULE}"""


@dataclass(frozen=True, slots=True)
class Do(PromptRequest):
    """Carry out one step that names no tool."""

    step: PlannedStep
    observations: tuple[Observation, ...]

    def prompt(self) -> Prompt:
        parts = described(self.task)
        if self.task.draft is not None:
            parts.append(fenced("Draft to be improved", self.task.draft))
        parts += map(observed, self.observations)
        parts.append(fenced("The step to carry out", written(self.step)))
        return Prompt("do", DO_VERSION, DO_SYSTEM, "\n\n".join(parts))
