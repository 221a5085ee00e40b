"""Making a plan, carrying it out step by step, and changing it with what is observed."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.contract.calls import AGAIN
from app.contract.requests import ContextDocument
from workers.engine.asking import Unreadable, again, ask, question
from workers.engine.briefs import Brief, Do, Plan, Replan, Task
from workers.engine.moves import Ask, Call, Check, StepFailed, Stop
from workers.engine.plan_replies import failed_before, plan_reader, repeated, revision_reader
from workers.engine.plans import Observation, PlannedStep, Revision
from workers.engine.reading import text_in

UNREADABLE = "unreadable_plan"


async def pursued(task: Task, most: int) -> tuple[Observation, ...]:
    """Plan, and carry out at most so many steps; return what was observed, in order.

    It ends when the goal is met, proved by quotations; when no step remains; when `most` were
    carried out; and when it is told to stop: what is left then is for the text.
    """
    observations: list[Observation] = []
    try:
        steps = (await _plan(task, most)).steps
        while steps:
            observations.append(await _carried_out(task, steps[0], observations))
            if len(observations) == most:
                break
            revision = await _revision(task, steps[1:], observations, most)
            steps = () if revision.is_met else revision.steps
    except Stop:
        pass
    return tuple(observations)


def as_documents(observations: Sequence[Observation]) -> tuple[ContextDocument, ...]:
    """Return what was observed as context of the text; a failed tool has nothing to say there."""
    return tuple(
        ContextDocument(name=f"Step {it.number}: {it.step.title}", text=it.text)
        for it in observations
        if it.ok
    )


async def _carried_out(task: Task, step: PlannedStep, before: Sequence[Observation]) -> Observation:
    """Return what came of a step: a tool's result or its failure, or what a writer made of it."""
    number = len(before) + 1
    if step.tool is not None:
        result = await Call(f"steps/{number}/call", step.tool, step.arguments or {})
        return Observation(number, step, result.ok, result.text)
    asked = _question(f"steps/{number}/do", Do(task, step, tuple(before)))
    return Observation(number, step, True, await ask(asked, text_in, "empty_step"))


async def _plan(task: Task, most: int) -> Revision:
    names = [tool.name for tool in task.tools]
    return await _asked(_question("plan", Plan(task, most)), plan_reader(names), ())


async def _revision(
    task: Task, remaining: tuple[PlannedStep, ...], seen: Sequence[Observation], most: int
) -> Revision:
    names = [tool.name for tool in task.tools]
    brief = Replan(task, remaining, tuple(seen), most - len(seen))
    asked = _question(f"steps/{len(seen)}/replan", brief)
    return await _asked(asked, revision_reader(names, seen), seen)


async def _asked(
    question: Ask, read: Callable[[str], Revision], seen: Sequence[Observation]
) -> Revision:
    """Return a plan that can be carried out; any other is asked for again with the error.

    When the last answer still proves no goal met, or repeats a call that failed, it counts as not
    met and without that step. One that cannot be read at all raises `StepFailed`.
    """
    reply, error = "", ""
    for attempt in range(AGAIN + 1):
        asked = question if attempt == 0 else again(question, attempt, reply, error)
        reply = await asked
        try:
            revision = read(reply)
            if not revision.is_met:
                await _require_arguments_that_fit(asked.path, revision.steps)
        except Unreadable as unreadable:
            error = str(unreadable)
            continue
        error = revision.unproven or repeated(revision.steps, seen) or ""
        if revision.is_met or not error:
            return revision
        if attempt == AGAIN:
            return Revision(tuple(it for it in revision.steps if not failed_before(it, seen)))
    raise StepFailed(UNREADABLE, f"asked {AGAIN + 1} times; the last reply: {error}")


async def _require_arguments_that_fit(path: str, steps: Sequence[PlannedStep]) -> None:
    """Raise `Unreadable` when a tool would not take the arguments that are planned for it."""
    calls = [{"tool": it.tool, "arguments": it.arguments} for it in steps if it.tool is not None]
    if not calls:
        return
    found = await Check(f"{path}/check", json.dumps(calls, ensure_ascii=False), "calls")
    if found:
        raise Unreadable("; ".join(it.message for it in found))


def _question(path: str, brief: Brief) -> Ask:
    return replace(question(path, "generator", brief), prepares=True)
