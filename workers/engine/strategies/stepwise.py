"""Stages, each verified before the next."""

from dataclasses import replace
from functools import partial

from app.contract.limits import Limits
from app.contract.requests import ContextDocument
from app.contract.status import Caveat, StopReason
from app.contract.strategies.parts import MOST_WRITTEN, Stage, StepwiseStrategy
from workers.engine.drafting import WrittenText, write
from workers.engine.judging import with_own_checks
from workers.engine.moves import StepError, Stopped, Together, within
from workers.engine.pipeline import refined
from workers.engine.prompts import Place, Task
from workers.engine.search import LimitOverrides, Outcome
from workers.engine.sub_search import (
    Gathered,
    in_order,
    informed,
    score_in_words,
    sections_of,
    starting_from,
    titles_of,
    with_instruction,
)


async def stepwise(task: Task, limits: Limits, plan: StepwiseStrategy) -> Outcome:
    """Work in ordered stages; a stage begins when the one before it is verified.

    Decomposed prompting (arXiv:2210.02406); with `sections`, Skeleton-of-Thought
    (arXiv:2307.15337). The first stage that does not pass, or that fails, ends the work, and the
    result is that of the last verified stage. The request's validators run in the last stage
    and on the whole, those of a stage in it.
    """
    return await in_order(task, limits, partial(_staged, limits, plan))


async def _staged(limits: Limits, plan: StepwiseStrategy, task: Task) -> Outcome:
    """Return the outcome of the last verified stage, with the reason for the whole.

    If the first stage does not pass, its outcome is returned. Raises its failure if it fails.
    """
    verified: Outcome | None = None
    done: Outcome | None = None
    reason: StopReason | None = StopReason.COMPLETED
    before = ("draft", task.draft)
    gathered = Gathered(task.scope)
    for stage in plan.stages:
        is_last = stage is plan.stages[-1]
        path = f"stages/{stage.name}"
        own_task = with_own_checks(task, path, stage.validators, ends=is_last)
        try:
            own_task = informed(own_task, gathered.observed)
            done = await _played(own_task, limits, stage, *before)
        except (Stopped, StepError) as refusal:
            if verified is None:
                raise
            reason = None if isinstance(refusal, Stopped) else StopReason.INCOMPLETE
            gathered.give_up(path, refusal, _from(plan, stage))
            break
        gathered.add(path, done)
        if not done.passed and done.reason is not StopReason.APPROVED:
            gathered.caveats += (_unfinished(stage, done, is_last=is_last),)
            reason = done.reason
            if verified is None:
                gathered.missing = done.missing
            if reason is None:  # it was stopped: its own text is not in that of an earlier one
                _, *later = _from(plan, stage)
                gathered.missing += tuple(later) if verified is None else _from(plan, stage)
            break
        verified, before = done, (stage.name, done.best.scored.draft.text)
        gathered.missing += done.missing
    kept = verified or done
    assert kept is not None  # a plan has stages, and the failure of the first is raised
    return gathered.outcome(kept, reason)


def _from(plan: StepwiseStrategy, stage: Stage) -> tuple[str, ...]:
    """Return the paths of a stage and of those that would have followed."""
    return plan.stage_paths()[plan.stages.index(stage) :]


def _unfinished(stage: Stage, done: Outcome, *, is_last: bool) -> Caveat:
    """Return the caveat about a stage that did not pass, and ended the work."""
    detail = f"{score_in_words(done)} and does not pass"
    if not is_last:
        detail += ", so no later stage was begun"
    return Caveat(code="stage_given_up", path=f"stages/{stage.name}", detail=detail)


async def _played(
    task: Task, limits: Limits, stage: Stage, source: str, text: str | None
) -> Outcome:
    """Play one stage on the text of the stage before, and return its outcome."""
    path = f"stages/{stage.name}"
    threshold = limits.threshold if stage.threshold is None else stage.threshold
    task = with_instruction(task, f"Stage {stage.name}", stage.instructions)
    task = replace(task, criteria=stage.criteria or task.criteria)
    if text is not None and stage.mode == "revise":
        task = starting_from(task, text)
    elif text is not None:
        context = (*task.context, ContextDocument(name=source, text=text))
        task = replace(task, draft=None, context=context)
        if stage.sections:
            task = starting_from(task, await _together(path, task, text))
    own = LimitOverrides(threshold, stage.max_iterations)
    return await refined(path, task, limits, own, stage.body, stage.review)


async def _together(path: str, task: Task, text: str) -> str:
    """Write every section of a text separately, all at once, and join them in order."""
    sections = sections_of(task, text, MOST_WRITTEN).texts
    titles = titles_of(sections)
    parts = tuple(
        within(
            f"{path}/sections/{number}",
            write(_section(replace(task, own=(), place=Place(number, titles)), section)),
        )
        for number, section in enumerate(sections, 1)
    )
    written: tuple[WrittenText, ...] = await Together(path, parts)
    return "\n\n".join(text.text for text in written)


def _section(task: Task, section: str) -> Task:
    return with_instruction(task, "Write only this section of it", section)
