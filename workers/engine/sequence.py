"""Parts of a text one after the other: their outline, and what each knows of those before it."""

from collections.abc import Iterable
from dataclasses import replace

from app.contract.judgement import OnFail
from app.contract.limits import Limits
from app.contract.outcome import Caveat
from app.contract.sections import items_of
from app.contract.strategies.parts import UNTIL, Enough, NestedStrategy
from app.contract.values import value
from workers.engine.asking import ask, question, text_in
from workers.engine.bodies import refined
from workers.engine.judging import critiqued
from workers.engine.moves import Check, PartResults, Refusal, StepError, first_of, within
from workers.engine.prompt_requests import Prompt, PromptRequest, Task
from workers.engine.prompts import assembled, fenced, grounded
from workers.engine.replies import ReplyReader, Unreadable
from workers.engine.search import LimitOverrides, Outcome
from workers.engine.sub_search import titles_of

LONG = 1_500
"""Characters from which later parts are shown a summary of a part, and its end, instead of it."""

SUMMARY = 1_200
"""Characters of a summary that are shown at most."""

ENDING = 400
"""Characters at the end of the part right before that are shown as they are."""

OUTLINE_VERSION = 2
OUTLINE = """\
Plan a text that is written in parts. List its parts in their order: at most {most}, and no more
than the text needs. Give each part one item of a list: its title, a colon, and in a sentence or two
what it says, and no list within it. {grounded}"""


@value(slots=True)
class Outline(PromptRequest):
    """List the parts of a text."""

    most: int

    def prompt(self) -> Prompt:
        words = OUTLINE.format(most=self.most, grounded=grounded(self.task))
        return assembled(self.task, "outline", OUTLINE_VERSION, words, answer="the list alone")


SUMMARIZE_VERSION = 2
SUMMARIZE = """\
Sum up one part of a text for those who write the parts after it, in at most 150 words and in the
language of the part. Keep what a later part must not contradict or repeat: who and what there is,
what happened or was said, how it ends. Add nothing."""


@value(slots=True)
class Summarize(PromptRequest):
    """Sum up a part for those who write the parts after it."""

    text: str

    def prompt(self) -> Prompt:
        given = fenced(self.task, "finished text", self.text)
        return assembled(
            self.task,
            "summarize",
            SUMMARIZE_VERSION,
            SUMMARIZE,
            given,
            with_aim=False,
            answer="the summary",
        )


@value(slots=True)
class Piece:
    """One part to refine; `text` is its present text, if there is one."""

    name: str
    task: Task
    threshold: float
    text: str | None = None
    own: float | None = None
    """The threshold that the request names for this part."""
    has_rubric: bool = False
    """Whether the request names criteria for this part."""

    @property
    def path(self) -> str:
        return f"parts/{self.name}"


@value(slots=True)
class PartsPlayed:
    """The parts that were played, in their order, and what came of each."""

    pieces: tuple[Piece, ...]
    results: PartResults[Outcome]
    caveats: tuple[Caveat, ...] = ()


async def outlined(task: Task, plan: NestedStrategy) -> tuple[str, ...]:
    """Return what each part says, by the request's outline or that of a model.

    Raises `StepError` (`unreadable_outline`).
    """
    if plan.outline is not None:
        return items_of(plan.outline)

    def read(reply: ReplyReader) -> tuple[str, ...]:
        found = items_of(reply.text())
        if len(found) > plan.max_parts:
            raise Unreadable(f"it has {len(found)} parts; at most {plan.max_parts} are allowed")
        return found

    asked = question("outline", "generator", Outline(task, plan.max_parts))
    return await ask(asked, read, "unreadable_outline")


async def refined_piece(piece: Piece, limits: Limits, plan: NestedStrategy) -> Outcome:
    """Refine one part to its own threshold."""
    own = LimitOverrides(piece.threshold, plan.max_iterations)
    return await refined(piece.path, piece.task, limits, own, plan.body, plan.review)


async def in_sequence(
    task: Task, limits: Limits, plan: NestedStrategy, pieces: Iterable[Piece]
) -> PartsPlayed:
    """Refine parts one after the other; each is shown those before it, long ones summed up.

    With `until` it ends when the text so far is enough, or with a part that fails, since the next
    one would build on it. Raises the first refusal, made up of all, if all were refused.
    """
    played: list[Piece] = []
    outcomes: list[Outcome | None] = []
    refusals: list[Refusal | None] = []
    finished = _Finished(task)
    enough = plan.enough()
    is_whole = enough is None
    for piece in pieces:
        outcome, refusal = None, None
        placed = await finished.placed(piece)
        try:
            outcome = await refined_piece(placed, limits, plan)
        except Refusal as refused:
            refusal = refused
        played.append(placed)
        outcomes.append(outcome)
        refusals.append(refusal)
        finished.add(piece, outcome)
        if enough is not None:
            if outcome is None:
                break
            text = plan.separator.join(finished.texts)
            at = f"whole/{len(played)}"
            is_enough = len(played) >= (enough.min_parts or 0)
            is_whole = is_enough and await within(
                at, _is_whole(task, enough, text, limits.threshold)
            )
            if is_whole:
                break
    known = [it for it in refusals if it is not None]
    if len(known) == len(played):
        raise first_of(known)
    caveats = [*finished.caveats]
    if enough is not None and not (is_whole or known):
        caveats.append(_unfinished(enough, len(played)))
    results = PartResults(tuple(outcomes), tuple(refusals))
    return PartsPlayed(tuple(played), results, tuple(caveats))


def _unfinished(enough: Enough, number: int) -> Caveat:
    wanted = enough.in_words()
    detail = f"with {number} parts, as many as there may be, it is not a text that {wanted}"
    return Caveat(code="goal_not_met", path="parts", detail=detail)


async def _is_whole(task: Task, enough: Enough, text: str, threshold: float) -> bool:
    """Return whether a text passes what says that it is whole; not if that cannot be asked.

    Critics are asked last: a check costs nothing.
    """
    try:
        if enough.validators:
            scopes = (f"{task.scope}{UNTIL}",)
            checked = await Check("check", text, scopes=scopes, corrects=False)
            if any(it.skipped or it.on_fail is not OnFail.WARN for it in checked.findings):
                return False
        if (criterion := enough.criterion) is None:
            return True
        critique, _ = await critiqued(replace(task, criteria=(criterion,)), text)
    except Refusal:
        return False
    goal = threshold if criterion.floor is None else criterion.floor
    return any(it.score is not None and it.score >= goal for it in critique.scores)


class _Finished:
    """The parts that are finished, as later ones are shown them."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.texts: list[str] = []
        self.caveats: list[Caveat] = []
        self._shown: list[str] = []
        self._last: Piece | None = None
        """The part that was added last, until it is shown."""

    def add(self, piece: Piece, outcome: Outcome | None) -> None:
        """Record a part; one that failed has the client's text, if it has any."""
        text = piece.text if outcome is None else outcome.best.scored.draft.text
        if text is not None:
            self.texts.append(text)
            self._last = piece

    async def placed(self, piece: Piece) -> Piece:
        """Return a part with what it is shown of those before it."""
        ending = ""
        if self._last is not None:
            text = self.texts[-1]
            self._shown.append(text if len(text) < LONG else await self._summed_up(self._last))
        if self.texts and len(self.texts[-1]) >= LONG:
            ending = f"\n\n[It ends:] ...{self.texts[-1][-ENDING:]}"
        self._last = None
        place = piece.task.place
        assert place is not None  # every part has one
        if place.is_open:
            place = replace(place, titles=titles_of(self.texts))
        before = "\n\n".join(self._shown) + ending
        return replace(piece, task=replace(piece.task, place=replace(place, before=before)))

    async def _summed_up(self, piece: Piece) -> str:
        """Return a summary of a long part; of one that cannot be had, how the part begins."""
        text = self.texts[-1]
        asked = question(f"{piece.path}/summary", "generator", Summarize(self._task, text))
        try:
            summary = await ask(asked, text_in, "empty_summary")
        except Refusal as refusal:
            if isinstance(refusal, StepError):
                detail = f"it was not summed up for the parts after it: {refusal}"
                self.caveats.append(Caveat(code="item_dropped", path=piece.path, detail=detail))
            return f"[It begins:] {text[:SUMMARY]}..."
        return f"[Summed up:] {summary[:SUMMARY]}"
