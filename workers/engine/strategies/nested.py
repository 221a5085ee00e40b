"""The parts of a larger text, each refined with another strategy."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.contract.drafts import sha256_of
from app.contract.judgement import Critique, Finding, OnFail
from app.contract.limits import Limits
from app.contract.outcome import Caveat
from app.contract.sections import MOST_SECTIONS, Sections
from app.contract.status import StopReason
from app.contract.strategies.parts import AUTO_PARTS, BODY, Enough, NestedStrategy
from workers.engine.judging import check, corrected, skipped_in, with_own_checks
from workers.engine.moves import Draft, PartResults, Scored, Stopped, play_parts
from workers.engine.prompt_requests import Place, Task
from workers.engine.search import Outcome, Search
from workers.engine.sequence import PartsPlayed, Piece, in_sequence, outlined, refined_piece
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
    with Search.of(task, limits) as whole:
        if await passes_as_it_is(task, whole):
            return whole.outcome()
        begun = going_on(task, whole)
        sections = None
        if begun.draft is not None:
            sections = sections_of(begun, begun.draft, MOST_SECTIONS)
        played = await _played(begun, limits, plan, await _pieces(begun, limits, plan, sections))
        return await _joined(task, limits, plan, whole, sections, played)
    return whole.outcome()


async def _played(
    task: Task, limits: Limits, plan: NestedStrategy, pieces: Sequence[Piece]
) -> PartsPlayed:
    if plan.order == "sequence":
        return await in_sequence(task, limits, plan, pieces)
    results = await play_parts("parts", [refined_piece(it, limits, plan) for it in pieces])
    return PartsPlayed(tuple(pieces), results)


async def _pieces(
    task: Task, limits: Limits, plan: NestedStrategy, sections: Sections | None
) -> tuple[Piece, ...]:
    """Return the sections of a draft, the parts that the plan names, or those of an outline."""
    scope = f"{task.scope}{BODY}" if plan.body.kind == plan.kind else task.scope
    within = replace(task, has_validators=False, own=(), scope=scope)
    if (enough := plan.enough()) is not None:
        return _open_ended(within, limits, enough, plan.max_parts)
    if plan.parts == AUTO_PARTS:
        items = await outlined(task, plan)
        titles = titles_of([it.partition(":")[0] for it in items])
        return tuple(
            Piece(f"part-{n}", _part(within, it, Place(n, titles)), limits.threshold)
            for n, it in enumerate(items, 1)
        )
    if sections is not None:
        texts = sections.texts
        titles, before = titles_of(texts), ("", *(it[-BEFORE:] for it in texts))
        return tuple(
            Piece(
                f"section-{number}",
                _part(starting_from(within, text), "", Place(number, titles, before[number - 1])),
                limits.threshold,
                text,
            )
            for number, text in enumerate(texts, 1)
        )
    titles = titles_of([f"{part.name}: {part.instructions}" for part in plan.named()])
    return tuple(
        Piece(
            part.name,
            _part(
                replace(
                    with_own_checks(task, f"parts/{part.name}", part.validators, ends=False),
                    criteria=part.criteria or task.criteria,
                    scope=scope,
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
) -> Outcome:
    """Join the parts in their order and judge the whole."""
    pieces, made = played.pieces, played.results
    texts = [
        piece.text if outcome is None else outcome.best.scored.draft.text
        for piece, outcome in zip(pieces, made.replies, strict=True)
    ]
    done = [it for it in made.replies if it is not None]
    missing = tuple(piece.path for piece, text in zip(pieces, texts, strict=True) if text is None)
    missing += tuple(path for it in done for path in it.missing)
    observed = tuple(document for it in done for document in it.observed)
    known = [it for it in texts if it is not None]
    text = sections.joined(known) if sections else plan.separator.join(known)
    draft = Draft(text, sha256_of(text), is_reply=False)
    reason = _reason(made, missing)
    try:
        outcome = await closing(informed(task, observed), whole, draft, reason)
    except Stopped:
        outcome = await _from_parts(task, limits, whole.number, draft, done)
    if missing and outcome.reason is StopReason.THRESHOLD_MET:  # by an incomplete text
        outcome = replace(outcome, reason=reason)
    caveats = (*_lacking(task, pieces, made), *played.caveats)
    passed = outcome.passed and not missing
    return replace(outcome, passed=passed, missing=missing, caveats=caveats, observed=observed)


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
    if any(it is not None and it.reason is None for it in made.replies):
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
            checked = await check(task, draft.text, f"iterations/{number}/parts/check")
            draft, findings = corrected(draft, checked), checked.findings
        except Stopped:  # an endpoint that checks it is away
            findings, is_checked = (), False
    scores = [it.best.scored.score for it in parts if it.best.scored.score is not None]
    scored = Scored(
        draft=draft,
        score=min(scores, default=None),
        scores=(),
        valid=is_checked and all(it.on_fail is not OnFail.VETO for it in findings),
        floors_met=False,  # floors were not checked
        critique=Critique(scores=()),
        findings=findings,
        score_from="parts",
        caveats=skipped_in(findings) if is_checked else (NOT_CHECKED,),
    )
    with Search(limits, first=number) as search:
        await search.judged(scored)
    return replace(search.outcome(), reason=None)
