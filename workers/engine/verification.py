"""Verifies the facts in a draft: open questions, independent answers, contradictions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.contract.caveats import Caveat
from app.contract.judgement import Finding, OnFail, Quotation
from workers.engine.asking import ask, question, text_in
from workers.engine.judging import is_valid, judge
from workers.engine.matching import Source
from workers.engine.moves import (
    Draft,
    MoveCoroutine,
    Scored,
    StepError,
    Stopped,
    play_parts,
    within,
)
from workers.engine.prompt_requests import Task
from workers.engine.prompts.verification import Answer, Contradict, Question
from workers.engine.replies import (
    ReplyModel,
    ReplyReader,
    Unreadable,
    items_in,
    listed_in,
    require_one,
)

SOURCE = "verification"
UNREADABLE = "unreadable_verification"
UNVERIFIED = "unverified"
UNKNOWN = "unknown"
GIVEN_AWAY = 3
"""A question that contains a claim of at least this many words gives its answer away."""

CLAIMS_NOTHING = 3
"""The version of the engine from which a draft that was not verified does not pass."""

NO_QUESTION = (
    "it asks no question, so that nothing is verified: ask about the statements of fact that"
    " matter most"
)

NOT_VERIFIED = Finding(
    source=SOURCE,
    kind=SOURCE,
    message="the refinement was stopped before this draft could be verified",
    on_fail=OnFail.VETO,
)


class _Question(ReplyModel):
    claim: str
    question: str


class _Contradiction(ReplyModel):
    claim: str
    answer: int
    contradiction: str
    fix: str | None = None


class _Contradictions(ReplyModel):
    """Contradictions in one list, or a list for each answer."""

    contradictions: list[Any] | None = None
    answers: dict[str, Any] | None = None


Answered = tuple[str, str]
"""A question and its answer."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What a verification found, and what it lacks."""

    findings: tuple[Finding, ...] = ()
    caveats: tuple[Caveat, ...] = ()

    def under(self, prefix: str) -> "Verification":
        """Return it with the paths of its caveats below `prefix`."""
        return replace(self, caveats=tuple(it.under(prefix) for it in self.caveats))


def unverified(path: str, detail: str) -> Verification:
    """Return a verification that verified nothing."""
    return Verification(caveats=(Caveat(code="unverified", path=path, detail=detail),))


async def judge_and_verify(most: int, task: Task, draft: Draft) -> Scored:
    """Judge a draft and verify it with at most `most` questions."""
    scored = await judge(task, draft)
    asked = within("verify", contradictions(task, draft.text, most))
    return await verified(task, scored, asked, "verify")


async def verified(
    task: Task, scored: Scored, part: MoveCoroutine[Verification], path: str
) -> Scored:
    """Return a judged draft with the findings of its verification, which asks below `path`.

    A draft that was not verified stays, with a finding that vetoes it unless the request accepts
    that: a stop from outside is never accepted, replies that stay unreadable or unknown may be.
    """
    stopped = unverified(path, NOT_VERIFIED.message)
    try:
        done = (await part).under(path)
    except Stopped:
        done = replace(stopped, findings=(NOT_VERIFIED,))
    except StepError as failure:
        if task.engine_version < CLAIMS_NOTHING:
            raise
        done = unverified(path, f"the verification failed: {failure}")
    found = done.findings or tuple(_not_verified(task, done.caveats))
    findings = (*scored.findings, *found)
    caveats = (*scored.caveats, *done.caveats)
    return replace(scored, findings=findings, valid=is_valid(findings), caveats=caveats)


def _not_verified(task: Task, caveats: Sequence[Caveat]) -> Iterator[Finding]:
    for it in caveats:
        if it.code == UNVERIFIED and UNVERIFIED not in task.accepted:
            yield Finding(
                source=SOURCE,
                kind=UNVERIFIED,
                message=it.detail,
                on_fail=OnFail.VETO,
                skipped=True,
            )


def is_unverified(scored: Scored) -> bool:
    """Return whether a stop from outside came before a draft could be verified."""
    return NOT_VERIFIED in scored.findings


async def contradictions(task: Task, draft: str, most: int) -> Verification:
    """Ask at most `most` questions about a draft; find the statements that answers contradict.

    A failed answer is left out, and an unknown one contradicts nothing; if all of them are, nothing
    was verified. Raises `StepError` when questions or contradictions stay unreadable, when no
    question is asked, or when every answer fails.
    """
    asked = question("questions", "critic", Question(task, draft, most))
    questions = await ask(asked, questions_in(draft, most), UNREADABLE)
    if not questions:  # before version 3
        return Verification()
    unseeing = replace(task, draft=None, criteria=())
    parts = [_answered(unseeing, *each) for each in enumerate(questions, 1)]
    answers = (await play_parts("answers", parts)).replies
    known = [it for it in answers if it is not None and _is_known(it[1])]
    if not known:
        detail = f"no question about the draft could be answered: {'; '.join(questions)[:500]}"
        return unverified("answers", detail)
    asked = question("contradictions", "critic", Contradict(task, draft, tuple(known)))
    found = await ask(asked, contradictions_in(draft, known), UNREADABLE)
    return Verification(found, tuple(_unanswered(questions, answers)))


def _unanswered(questions: Sequence[str], answers: Sequence[Answered | None]) -> Iterator[Caveat]:
    for number, (asked, given) in enumerate(zip(questions, answers, strict=True), 1):
        if given is None or not _is_known(given[1]):
            detail = f"what the draft says about this was not verified: {asked[:500]}"
            yield Caveat(code="item_dropped", path=f"answers/{number}", detail=detail)


async def _answered(task: Task, number: int, asked: str) -> Answered:
    path = f"answers/{number}"
    return asked, await ask(question(path, "critic", Answer(task, asked)), text_in, "empty_answer")


def _is_known(answer: str) -> bool:
    return answer.strip(" \n.\"'`*").casefold() != UNKNOWN


def questions_in(draft: str, most: int) -> Callable[[ReplyReader], tuple[str, ...]]:
    def read(reply: ReplyReader) -> tuple[str, ...]:
        said = listed_in(reply, "questions", _Question, "question")[:most]
        source = Source(draft)
        used = tuple(it.question.strip() for it in said if _is_usable(reply, it, source))
        require_one(reply, used)
        if not used and reply.asked.task.engine_version >= CLAIMS_NOTHING:
            raise Unreadable(NO_QUESTION)
        return used

    return read


def _is_usable(reply: ReplyReader, said: _Question, source: Source) -> bool:
    try:
        _quoted(said.claim, source)
        _require_open(said)
    except Unreadable as error:
        reply.drop("question", str(error))
        return False
    return True


def _require_open(said: _Question) -> None:
    if not said.question.strip():
        raise Unreadable("a question is empty")
    is_long = len(said.claim.split()) >= GIVEN_AWAY
    if is_long and Source(said.question.casefold()).quotation(said.claim.casefold()):
        raise Unreadable(f'"{said.question}" states the claim: ask an open question instead')


def contradictions_in(
    draft: str, answered: Sequence[Answered]
) -> Callable[[ReplyReader], tuple[Finding, ...]]:
    def read(reply: ReplyReader) -> tuple[Finding, ...]:
        source, found = Source(draft), list[Finding]()
        for it in _contradictions(reply, len(answered)):
            try:
                found.append(_finding(it, source, *_answer(answered, it.answer)))
            except Unreadable as error:
                reply.drop("contradiction", str(error))
        require_one(reply, found)
        return tuple(found)

    return read


def _answer(answered: Sequence[Answered], number: int) -> Answered:
    if not 1 <= number <= len(answered):
        raise Unreadable(f"unknown answer {number}: expected 1 to {len(answered)}")
    return answered[number - 1]


def _contradictions(reply: ReplyReader, count: int) -> list[_Contradiction]:
    """Return what is said about each answer. Raises `Unreadable` when an answer is left out."""
    if reply.is_strict:
        return listed_in(reply, "contradictions", _Contradiction, "contradiction")
    said = reply.read_as(_Contradictions)
    if said.answers is None:
        if said.contradictions is None:
            raise Unreadable("contradictions: Field required")
        return items_in(reply, said.contradictions, _Contradiction, "contradiction")
    items: list[Any] = []
    for number in range(1, count + 1):
        about = said.answers.get(f"a{number}", ...)
        if about is ...:
            raise Unreadable(f"nothing is said about answer {number}")
        given = about if isinstance(about, list) else [] if about is None else [about]
        items += [{**it, "answer": number} if isinstance(it, dict) else it for it in given]
    return items_in(reply, items, _Contradiction, "contradiction")


def _quoted(claim: str, source: Source) -> Quotation:
    quotation = source.quotation(claim)
    if quotation is None:
        raise Unreadable(f'the claim "{claim[:200]}" does not occur in the draft: copy its words')
    return quotation


def _finding(said: _Contradiction, source: Source, asked: str, answer: str) -> Finding:
    quotation = _quoted(said.claim, source)
    return Finding(
        source=SOURCE,
        kind="contradiction",
        message=f'{said.contradiction} (asked "{asked}", answered "{answer[:500]}")',
        fix=said.fix or None,
        span=quotation.span,
        quote=quotation.quote,
        on_fail=OnFail.VETO,
    )
