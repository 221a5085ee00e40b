"""Searches inside a strategy, each with its own rubric, limits and path."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.contract.judgement import OnFail
from app.contract.limits import Limits
from app.contract.requests import ContextDocument
from app.contract.reviews import ReviewPlan
from app.contract.sections import Sections, split
from app.contract.status import Caveat, StopReason
from workers.engine.drafting import Judging, heeded, judged_draft
from workers.engine.judging import LOCKED, VALIDATORS, judge
from workers.engine.moves import (
    Draft,
    Heard,
    Judged,
    Move,
    MoveCoroutine,
    Refusal,
    Rejected,
    Reply,
    Review,
    Stopped,
    Together,
    relayed,
    within,
)
from workers.engine.prompts import Task
from workers.engine.search import LimitOverrides, Outcome, Search


async def below(path: str, part: MoveCoroutine[Outcome]) -> Outcome:
    """Play a search below `path`; return its outcome with paths of the enclosing search."""
    outcome = await within(path, part)
    best = outcome.best
    seen = replace(best, path=f"{path}/{best.path}", issues=best.issues.under(path))
    return replace(
        outcome,
        best=seen,
        caveats=tuple(caveat.under(path) for caveat in outcome.caveats),
        lower=outcome.lower and outcome.lower.under(path),
        missing=tuple(f"{path}/{missing_path}" for missing_path in outcome.missing),
        observed=tuple(
            document.model_copy(update={"name": f"{path}: {document.name}"})
            for document in outcome.observed
        ),
    )


def given_up(path: str, why: Refusal | None) -> Caveat:
    """Return the caveat about a stage, pass or part that was refused."""
    is_stopped = why is None or isinstance(why, Stopped)
    detail = "it was stopped before a draft was judged" if is_stopped else f"it failed: {why}"
    if isinstance(why, Rejected):
        detail = why.detail
    return Caveat(code="stage_given_up", path=path, detail=detail)


def score_in_words(done: Outcome) -> str:
    """Return what the best draft scored, as the beginning of a sentence."""
    score = done.best.scored.score
    measured = "has no score" if score is None else f"scored {score:g}"
    return f"its best draft {measured}"


def short_of(path: str, done: Outcome, threshold: float | None) -> tuple[Caveat, ...]:
    """Return the caveat about a part that missed the threshold it was given, if any."""
    if threshold is None or not done.best.scored.valid or done.best.scored.passes(threshold):
        return ()
    detail = f"{score_in_words(done)} and does not pass its own threshold of {threshold:g}"
    return (Caveat(code="goal_not_met", path=path, detail=detail),)


def own_checks_of(scope: str, path: str, done: Outcome) -> tuple[Caveat, ...]:
    """Return what only a stage, pass or part has against its best draft, or did not check.

    That is what its own validators and its body say, such as a verification. Locked texts and the
    validators of the request are checked in the text as a whole again.
    """
    own = [
        finding
        for finding in done.best.scored.findings
        if finding.source.startswith(f"{VALIDATORS}{scope}/")
        or not (finding.skipped or finding.source.startswith((VALIDATORS, LOCKED)))
    ]
    return tuple(
        Caveat(
            code="validator_skipped" if finding.skipped else "goal_not_met",
            path=path,
            detail=f"{finding.source}: {finding.message}",
        )
        for finding in own
        if finding.skipped or finding.on_fail is OnFail.VETO
    )


async def passes_as_it_is(task: Task, whole: Search) -> bool:
    """Judge the client's own draft, if any; return whether it passes or a reviewer decided.

    A draft that passes is never revised again.
    """
    if task.draft is not None:
        await whole.judged(await judged_draft(task, whole))
        await heeded(task, whole)
    return whole.is_over


def going_on(task: Task, whole: Search) -> Task:
    """Return the task with the best draft of the whole instead of the client's."""
    base = whole.ranking.base
    if base is None or (base.iteration == 0 and not base.scored.draft.fixes):
        return task
    return starting_from(task, base.scored.draft.text)


async def closing(
    task: Task,
    whole: Search,
    draft: Draft,
    reason: StopReason | None,
    judging: Judging = judge,
) -> Outcome:
    """Judge the result of the inner searches as a whole, on the request's own criteria.

    The outcome has `reason` if the threshold is not met and no reviewer decided; it is None if a
    part was stopped from outside. Raises `Stopped` when the critic cannot be asked any more.
    """
    whole.task, whole.is_last = task, True
    best = whole.ranking.best
    if best is None or best.scored.draft.sha256 != draft.sha256:
        scored = await within(whole.upcoming, judging(task, draft))
        whole.ranking.has_joined = True
        with whole:  # from here on a stop keeps what was judged
            await whole.judged(scored)
            await heeded(task, whole)
    whole.settle(reason)
    return whole.outcome()


async def in_order(
    task: Task, limits: Limits, played: Callable[[Task], MoveCoroutine[Outcome]]
) -> Outcome:
    """Play inner searches that follow each other, and judge the text of the last as a whole."""
    with Search.of(task, limits) as whole:
        if await passes_as_it_is(task, whole):
            return whole.outcome()
        return await _closing_with(task, whole, await played(going_on(task, whole)))
    return whole.outcome()


async def _closing_with(task: Task, whole: Search, last: Outcome) -> Outcome:
    """Judge the last inner search's text as a whole; keep its reason and what is missing.

    If the critic cannot be asked any more, a draft that was judged as a whole stays, and without
    one the text keeps the score of its own rubric.
    """
    text = last.best.scored.draft.text
    try:
        draft = Draft(text)
        outcome = await closing(informed(task, last.observed), whole, draft, last.reason)
        return replace(
            outcome,
            missing=last.missing,
            caveats=last.caveats,
            lesson=last.lesson,
            observed=last.observed,
        )
    except Stopped:
        if whole.ranking.best is not None:
            raise
        return replace(last, reason=None, passed=False)


@dataclass
class Gathered:
    """What inner searches that follow each other lack and observed, in their order."""

    scope: str
    missing: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    observed: tuple[ContextDocument, ...] = ()

    def add(self, path: str, done: Outcome) -> None:
        """Take in the search at `path`, and what its own validators say of its best draft."""
        own = own_checks_of(f"{self.scope}{path}", path, done)
        self.caveats += (*done.caveats, *own)
        self.observed += done.observed

    def give_up(self, path: str, refusal: Refusal, missing: tuple[str, ...]) -> None:
        """Take in a search that was refused, for which these paths are missing."""
        self.caveats += (given_up(path, refusal),)
        self.missing += missing

    def outcome(self, last: Outcome, reason: StopReason | None) -> Outcome:
        """Return the outcome of the last search as that of all."""
        return replace(
            last,
            reason=reason,
            missing=self.missing,
            caveats=self.caveats,
            observed=self.observed,
        )


async def ruled(
    own: LimitOverrides, part: MoveCoroutine[Reply], path: str, review: ReviewPlan | None
) -> Reply:
    """Play the part at `path`, with these limits and reviews instead of the refinement's."""

    def outward(move: Move[Any]) -> Move[Any]:
        match move:
            case Judged():
                own_limit = own.threshold if move.threshold is None else move.threshold
                return _anchored(move.changed(threshold=own_limit), path)
            case Review(plan=None):
                return move.changed(plan=review)
            case Together():
                parts = tuple(ruled(own, part, path, review) for part in move.parts)
                return replace(move, parts=parts)
            case _:
                return move

    def inward(move: Move[Any], reply: Any) -> Any:
        if isinstance(move, Judged):
            return own.instead_of(reply)
        if isinstance(move, Review | Heard) and reply and reply.limits is not None:
            return replace(reply, limits=own.instead_of(reply.limits))
        return reply

    return await relayed(part, outward, inward)


def _anchored(move: Judged, path: str) -> Judged:
    """Return the news of a draft that was made from one outside its search, below `path`.

    Their paths begin with `/`: they are relative to the strategy that is played at `path`.
    """
    judgement = move.judgement
    draft = judgement.scored.draft
    if draft.parent is None or not draft.parent.startswith("/"):
        return move
    scored = replace(judgement.scored, draft=replace(draft, parent=f"/{path}{draft.parent}"))
    issues = judgement.issues.anchored(path)
    news = replace(judgement, scored=scored, issues=issues)
    best = news if move.best is judgement else move.best
    return move.changed(judgement=news, best=best)


def starting_from(task: Task, text: str) -> Task:
    """Return the task with a draft that the strategy made, and the locked texts in that draft."""
    kept = (_kept_in(text, words) for words in task.locked)
    locked = tuple(words for words in kept if words)
    return replace(task, draft=text, is_clients_draft=False, locked=locked)


def _kept_in(text: str, locked: str) -> str:
    """Return the part of a locked text in a section; white space between sections is in none."""
    if locked in text:
        return locked
    start, end = locked.lstrip(), locked.rstrip()
    if text.startswith(start):
        return start
    if text.endswith(end):
        return end
    return locked.strip() if text == locked.strip() else ""


def informed(task: Task, observed: tuple[ContextDocument, ...]) -> Task:
    """Return the task with what was observed added to its context."""
    return replace(task, context=(*task.context, *observed))


def sections_of(task: Task, text: str, most: int) -> Sections:
    """Return at most `most` sections of a text; locked texts are not split."""
    return split(text, most, task.locked)


TITLE = 60
"""Characters of a part's title."""


def titles_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Return a title for each text: its first line, without the marks of headings and lists."""
    return tuple(text.strip().partition("\n")[0].strip("#*- ")[:TITLE] for text in texts)


def with_instruction(task: Task, heading: str, instruction: str) -> Task:
    """Return the task with the instruction of this part of the work added."""
    return replace(task, part=(*task.part, f"{heading}: {instruction}"))
