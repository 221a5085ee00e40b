"""Ordered passes over the whole text."""

from dataclasses import replace
from functools import partial

from app.contract.judgement import Criterion
from app.contract.limits import Limits
from app.contract.status import StopReason
from app.contract.strategies.parts import MultiPassStrategy, Pass
from workers.engine.judging import with_own_checks
from workers.engine.moves import Refusal, Stopped
from workers.engine.pipeline import refined
from workers.engine.prompts import Task
from workers.engine.search import LimitOverrides, Outcome
from workers.engine.sub_search import (
    Gathered,
    in_order,
    informed,
    starting_from,
    with_instruction,
)


async def multi_pass(task: Task, limits: Limits, plan: MultiPassStrategy) -> Outcome:
    """Improve the text in ordered passes, each with its own focus, and judge the result.

    After "Read, Revise, Repeat" (arXiv:2204.03685). The criteria that a pass met are judged in
    every later one, with a floor: a draft that undoes them never ranks above one that keeps them.
    The request's validators run in the last pass and in the final judgement, those of a pass in it.
    """
    return await in_order(task, limits, partial(_passed_over, limits, plan))


async def _passed_over(limits: Limits, plan: MultiPassStrategy, task: Task) -> Outcome:
    """Return the outcome of the last pass that succeeded, with the reason for the whole.

    Raises the first failure when no pass succeeded. All that later passes did belongs to it: with
    the first pass they would have worked on another text.
    """
    last: Outcome | None = None
    met: tuple[Criterion, ...] = ()
    refused: dict[str, Refusal] = {}
    gathered = Gathered(task.scope)
    is_cut = False
    for each in plan.passes:
        start = task if last is None else starting_from(task, last.best.scored.draft.text)
        own_task = _task(start, each, met, is_last=each is plan.passes[-1])
        threshold = limits.threshold if each.threshold is None else each.threshold
        own = LimitOverrides(threshold=threshold, max_iterations=each.max_iterations)
        path = f"passes/{each.focus}"
        try:
            start = informed(own_task, gathered.observed)
            last = await refined(path, start, limits, own, each.body, each.review)
        except Refusal as refusal:
            refused[path] = refusal
            gathered.give_up(path, refusal, (path,))
            continue
        gathered.add(path, last)
        gathered.missing += last.missing
        is_cut = is_cut or last.reason is None
        met += _met(last, each.judged_on(), threshold)
    if last is None:
        first, *later = refused
        refused[first].steps += tuple(later)
        refused[first].caveats = tuple(caveat for one in refused.values() for caveat in one.caveats)
        raise refused[first]
    is_cut = is_cut or any(isinstance(refusal, Stopped) for refusal in refused.values())
    reason = StopReason.INCOMPLETE if refused else StopReason.COMPLETED
    return gathered.outcome(last, None if is_cut else reason)


def _task(task: Task, each: Pass, met: tuple[Criterion, ...], *, is_last: bool) -> Task:
    task = replace(task, criteria=(*met, *each.judged_on()))
    task = with_own_checks(task, f"passes/{each.focus}", each.validators, ends=is_last)
    focus = f"attend to {each.focus} and leave everything else as it is. {each.instructions}"
    if task.draft is None:
        focus = f"write the whole text, and attend to {each.focus} above all. {each.instructions}"
    return with_instruction(task, "In this pass", focus.strip())


def _met(done: Outcome, criteria: tuple[Criterion, ...], threshold: float) -> tuple[Criterion, ...]:
    """Return the criteria that the pass met, each with at least the threshold as its floor."""
    scores = {given.criterion: given.score for given in done.best.scored.scores}
    return tuple(
        criterion.model_copy(update={"floor": max(threshold, criterion.floor or 0.0)})
        for criterion in criteria
        if (score := scores.get(criterion.name)) is not None and score >= threshold
    )
