"""The plan: what to find out before the text is written."""

from app.contract.tools import Tool
from workers.engine.briefs import Plan, Prompt, Task
from workers.engine.plans import PlannedStep, canonical
from workers.engine.prompts.fence import DATA_RULE, described, fenced
from workers.engine.prompts.shape import closed

VERSION = 1
STEPS_RULE = """A step names a tool and gives the arguments that its parameters ask for, or it
names no tool: then its instruction is carried out by a writer who sees the goal, the context
documents and everything observed before. Plan a step only for what the text needs and nobody knows
yet; the text itself is written after the plan and is not a step of it. Arguments hold what is known
now: a call that needs what is yet to be observed is planned afterwards, when the plan is revised.
Write `arguments` as the text of a JSON object, null without a tool."""
SYSTEM = f"""You plan how to reach the goal that the task states. {STEPS_RULE}
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


def render(brief: Plan) -> Prompt:
    """Ask for the steps."""
    parts = [*material(brief.task), f"At most {brief.most} steps are carried out."]
    return Prompt("plan", VERSION, SYSTEM, "\n\n".join(parts), closed({"steps": STEPS}))


def material(task: Task) -> list[str]:
    """Return what a plan is made from: the task, the draft there is, and the tools."""
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
