"""The parts of a larger text, each refined with another strategy, or one after the other.

Parts in sequence have an outline, and each is shown those before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from app.contract.judgement import Finding, OnFail
from app.contract.limits import Limits
from app.contract.requests import ContextDocument
from app.contract.sections import MOST_SECTIONS, Sections, items_of, parts_of
from app.contract.status import Caveat, StopReason
from app.contract.strategies.parts import AUTO_PARTS, BODY, UNTIL, Enough, NestedStrategy
from app.contract.values import value
from workers.engine.asking import ask, question, text_in
from workers.engine.drafting import Judging
from workers.engine.judging import (
    Opinions,
    corrected_draft,
    critiqued,
    judge,
    validator_findings,
    with_own_checks,
)
from workers.engine.long_documents import (
    LANES,
    SHEET,
    Digest,
    FactSheet,
    critiqued_by_parts,
    read_part,
    read_parts,
)
from workers.engine.moves import (
    Check,
    Draft,
    PartResults,
    Refusal,
    Scored,
    StepError,
    Stopped,
    first_of,
    play_in_lanes,
    play_parts,
    within,
)
from workers.engine.pipeline import refined
from workers.engine.prompts import Place, Prompt, PromptRequest, Task, tagged_text, worded
from workers.engine.replies.reader import ReplyReader, Unreadable
from workers.engine.search import LimitOverrides, Outcome, Search
from workers.engine.sub_search import (
    closing,
    given_up,
    going_on,
    informed,
    own_checks_of,
    passes_as_it_is,
    sections_of,
    short_of,
    starting_from,
    titles_of,
    with_instruction,
)

LONG = 1_500
"""Characters from which later parts are shown a summary of a part, and its end, instead of it."""

SUMMARY = 1_200
"""Characters of a summary that are shown at most."""

ENDING = 400
"""Characters at the end of the part right before that are shown as they are."""


@value(slots=True)
class Outline(PromptRequest):
    """List the parts of a text."""

    most: int

    def prompt(self) -> Prompt:
        return worded(self.task, "outline", most=self.most)


@value(slots=True)
class Summarize(PromptRequest):
    """Sum up a part for those who write the parts after it."""

    text: str

    def prompt(self) -> Prompt:
        return worded(self.task, "summarize", tagged_text(self.task, "finished text", self.text))


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
    known = [refusal for refusal in refusals if refusal is not None]
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
            if any(
                finding.skipped or finding.on_fail is not OnFail.WARN
                for finding in checked.findings
            ):
                return False
        if (criterion := enough.criterion) is None:
            return True
        critique, _ = await critiqued(replace(task, criteria=(criterion,)), text)
    except Refusal:
        return False
    goal = threshold if criterion.floor is None else criterion.floor
    return any(given.score is not None and given.score >= goal for given in critique.scores)


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


NOT_CHECKED = Caveat(
    code="validator_skipped", path="parts/check", detail="stopped before the whole was checked"
)

BEFORE = 200
"""Characters of the section before, as it was, that a part is shown."""


async def nested(task: Task, limits: Limits, plan: NestedStrategy) -> Outcome:
    """Refine every part with another strategy to its own threshold, and judge the joined whole.

    Parts are independent and side by side, or written one after the other, as in Re3
    (arXiv:2210.06774). If the whole cannot be judged any more, its score is the lowest part's. A
    part that fails keeps the client's text, or is left out and listed as missing.
    """
    if task.is_long:
        return await _long(task, limits, plan)
    with Search.of(task, limits) as whole:
        if await passes_as_it_is(task, whole):
            return whole.outcome()
        start = going_on(task, whole)
        sections = None
        if start.draft is not None:
            sections = sections_of(start, start.draft, MOST_SECTIONS)
        played = await _played(start, limits, plan, await _pieces(start, limits, plan, sections))
        return await _joined(task, limits, plan, whole, sections, played)
    return whole.outcome()


async def _long(task: Task, limits: Limits, plan: NestedStrategy) -> Outcome:
    """Refine the parts of a draft that is too long for one prompt, several at a time.

    The whole is judged by what is read of its parts, before and after. A part that contradicts
    facts of the whole is a finding, and keeps the whole from passing.
    """
    digests: list[Digest] = []

    async def asked_before(task: Task, text: str) -> Opinions:
        digests[:] = await read_parts(task, parts_of(text, task.locked).texts)
        return await critiqued_by_parts(task, text, digests)

    async def judged_after(task: Task, draft: Draft) -> Scored:
        return await judge(task, draft, partial(critiqued_by_parts, digests=digests))

    with Search.of(task, limits) as whole:
        whole.ranking.prefers_latest = True  # summaries that are equal say nothing about revisions
        given = Draft(task.draft or "", is_reply=task.is_clients_draft)
        await whole.judged(await within(whole.upcoming, judge(task, given, asked_before)))
        if whole.is_over:
            return replace(whole.outcome(), lesson=None)
        start = going_on(task, whole)
        sections = parts_of(start.draft or "", task.locked)
        sheet = FactSheet(digests)
        pieces = _sections(_within(start, plan), limits, sections.texts, sheet)

        async def revised(index: int) -> Outcome:
            piece = pieces[index]
            done = await refined_piece(piece, limits, plan)
            text = done.best.scored.draft.text
            if text != piece.text:
                known = sheet.concerning(piece.text or "")
                digests[index] = await read_part(task, piece.path, text, known)
            return done

        results = await play_in_lanes("parts", len(pieces), revised, LANES)
        caveats = tuple(
            Caveat(code="goal_not_met", path=piece.path, detail=finding.message)
            for piece, digest in zip(pieces, digests, strict=True)
            for finding in digest.contradictions
        )
        played = PartsPlayed(pieces, results, caveats)
        return await _joined(task, limits, plan, whole, sections, played, judged_after)
    return whole.outcome()


async def _played(
    task: Task, limits: Limits, plan: NestedStrategy, pieces: Sequence[Piece]
) -> PartsPlayed:
    if plan.order == "sequence":
        return await in_sequence(task, limits, plan, pieces)
    results = await play_parts("parts", [refined_piece(piece, limits, plan) for piece in pieces])
    return PartsPlayed(tuple(pieces), results)


async def _pieces(
    task: Task, limits: Limits, plan: NestedStrategy, sections: Sections | None
) -> tuple[Piece, ...]:
    """Return the sections of a draft, the parts that the plan names, or those of an outline."""
    within = _within(task, plan)
    if (enough := plan.enough()) is not None:
        return _open_ended(within, limits, enough, plan.max_parts)
    if plan.parts == AUTO_PARTS:
        items = await outlined(task, plan)
        titles = titles_of([item.partition(":")[0] for item in items])
        return tuple(
            Piece(f"part-{n}", _part(within, item, Place(n, titles)), limits.threshold)
            for n, item in enumerate(items, 1)
        )
    if sections is not None:
        return _sections(within, limits, sections.texts)
    titles = titles_of([f"{part.name}: {part.instructions}" for part in plan.named()])
    return tuple(
        Piece(
            part.name,
            _part(
                replace(
                    with_own_checks(task, f"parts/{part.name}", part.validators, ends=False),
                    criteria=part.criteria or task.criteria,
                    scope=within.scope,
                ),
                part.instructions,
                Place(number, titles),
            ),
            limits.threshold if part.threshold is None else part.threshold,
            own=part.threshold,
            has_rubric=bool(part.criteria),
        )
        for number, part in enumerate(plan.named(), 1)
    )


def _within(task: Task, plan: NestedStrategy) -> Task:
    """Return the task of the parts: what checks the whole does not check them."""
    scope = f"{task.scope}{BODY}" if plan.body.kind == plan.kind else task.scope
    return replace(task, has_validators=False, own=(), scope=scope)


NEIGHBOURS = 5
"""Parts before and after a part of a long draft whose titles it is shown."""


def _sections(
    within: Task, limits: Limits, texts: Sequence[str], sheet: FactSheet | None = None
) -> tuple[Piece, ...]:
    """Return the sections of a draft; with a sheet, each is shown the facts that concern it."""
    titles, before = titles_of(texts), ("", *(text[-BEFORE:] for text in texts))

    def placed(number: int, text: str) -> Task:
        place, task = Place(number, titles, before[number - 1]), starting_from(within, text)
        if sheet is not None:
            first = max(1, number - NEIGHBOURS)
            shown = titles[first - 1 : number + NEIGHBOURS]
            place = replace(place, titles=shown, first=first, parts=len(texts))
            if facts := sheet.concerning(text):
                document = ContextDocument(name=SHEET, text="\n".join(facts))
                task = informed(task, (document,))
        return _part(task, "", place)

    return tuple(
        Piece(f"section-{number}", placed(number, text), limits.threshold, text)
        for number, text in enumerate(texts, 1)
    )


def _open_ended(task: Task, limits: Limits, enough: Enough, most: int) -> tuple[Piece, ...]:
    """Return as many parts as there may be, without an outline."""
    finished = f"the whole text is finished when it {enough.in_words()}"
    what = f"write the next part and nothing else; {finished}"
    return tuple(
        Piece(
            f"part-{number}",
            _part(task, what, Place(number, (), is_open=True)),
            limits.threshold,
        )
        for number in range(1, most + 1)
    )


def _part(task: Task, instructions: str, place: Place) -> Task:
    what = instructions or "improve the draft and nothing around it"
    return with_instruction(
        replace(task, place=place), "This is about one part of the whole text", what
    )


async def _joined(
    task: Task,
    limits: Limits,
    plan: NestedStrategy,
    whole: Search,
    sections: Sections | None,
    played: PartsPlayed,
    judging: Judging = judge,
) -> Outcome:
    """Join the parts in their order and judge the whole."""
    pieces, made = played.pieces, played.results
    texts = [
        piece.text if outcome is None else outcome.best.scored.draft.text
        for piece, outcome in zip(pieces, made.replies, strict=True)
    ]
    done = [part for part in made.replies if part is not None]
    missing = tuple(piece.path for piece, text in zip(pieces, texts, strict=True) if text is None)
    missing += tuple(path for part in done for path in part.missing)
    observed = tuple(document for part in done for document in part.observed)
    known = [text for text in texts if text is not None]
    text = sections.joined(known) if sections else plan.separator.join(known)
    draft = Draft(text)
    reason = _reason(made, missing)
    try:
        outcome = await closing(informed(task, observed), whole, draft, reason, judging)
    except Stopped:
        outcome = await _from_parts(task, limits, whole.number, draft, done)
    if missing and outcome.reason is StopReason.THRESHOLD_MET:  # by an incomplete text
        outcome = replace(outcome, reason=reason)
    caveats = (*_lacking(task, pieces, made), *played.caveats)
    return replace(outcome, missing=missing, caveats=caveats, observed=observed)


def _lacking(task: Task, pieces: tuple[Piece, ...], made: PartResults[Outcome]) -> Iterator[Caveat]:
    """Yield a caveat for every part that failed or missed its own threshold, and the parts' own."""
    for piece, outcome, refusal in zip(pieces, made.replies, made.refusals, strict=True):
        if outcome is None:
            yield given_up(piece.path, refusal)
        else:
            yield from (*outcome.caveats, *short_of(piece.path, outcome, piece.own))
            yield from own_checks_of(f"{task.scope}{piece.path}", piece.path, outcome)
            if piece.has_rubric and not outcome.best.scored.floors_met:
                detail = "its best draft does not meet the floors of its criteria"
                yield Caveat(code="goal_not_met", path=piece.path, detail=detail)


def _reason(made: PartResults[Outcome], missing: tuple[str, ...]) -> StopReason | None:
    """Return why the whole ends with these parts; None when one was stopped from outside."""
    if any(part is not None and part.reason is None for part in made.replies):
        return None
    failed = None in made.replies or bool(missing)
    return made.unless_stopped(StopReason.INCOMPLETE if failed else StopReason.COMPLETED)


async def _from_parts(
    task: Task, limits: Limits, number: int, draft: Draft, parts: list[Outcome]
) -> Outcome:
    """Return the joined text with the score of its lowest part; the whole was not judged."""
    findings: tuple[Finding, ...] = ()
    is_checked = True
    if task.scopes:
        try:
            checked = await validator_findings(task, draft.text, f"iterations/{number}/parts/check")
            draft, findings = corrected_draft(draft, checked), checked.findings
        except Stopped:  # an endpoint that checks it is away
            findings, is_checked = (), False
    scores = [part.best.scored.score for part in parts if part.best.scored.score is not None]
    # Floors were not checked.
    scored = Scored(draft, min(scores, default=None), floors_met=False, score_from="parts")
    scored = scored.found(findings)
    if not is_checked:
        scored = replace(scored, valid=False, caveats=(NOT_CHECKED,))
    with Search(limits, first=number) as search:
        await search.judged(scored)
    return replace(search.outcome(), reason=None)
