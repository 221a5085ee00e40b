"""Further texts, written side by side from what a strategy came to."""

from collections.abc import Sequence
from dataclasses import replace

from app.contract.outputs import Output
from workers.engine.asking import ask, question
from workers.engine.briefs import Derive, Task
from workers.engine.moves import StepFailed, Stop
from workers.engine.outcomes import Outcome
from workers.engine.reading import text_in
from workers.engine.steps import surviving


async def with_outputs(task: Task, outputs: Sequence[Output], outcome: Outcome) -> Outcome:
    """Return the outcome with every further text; those that could not be made are missing."""
    text = outcome.best.scored.draft.text
    try:
        made = await surviving("outputs", [_derived(task, text, it) for it in outputs])
    except (Stop, StepFailed):
        made = (None,) * len(outputs)
    texts = {it.name: text for it, text in zip(outputs, made, strict=True) if text is not None}
    missing = tuple(f"outputs/{it.name}" for it in outputs if it.name not in texts)
    return replace(outcome, outputs=texts, missing=(*outcome.missing, *missing))


async def _derived(task: Task, text: str, output: Output) -> str:
    brief = Derive(task, text, output.instructions)
    return await ask(question(f"outputs/{output.name}", "generator", brief), text_in, "empty_text")
