"""Verifies the facts in a draft: open questions, independent answers, contradictions."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from app.contract.judgement import Finding, OnFail, Quotation
from app.contract.outcome import Caveat
from app.contract.tools import Tool
from app.contract.values import value
from workers.engine.asking import ask, question, text_in
from workers.engine.judging import is_valid, judge
from workers.engine.matching import Source
from workers.engine.moves import (
    Call,
    Check,
    Draft,
    MoveCoroutine,
    Scored,
    StepError,
    Stopped,
    ToolResult,
    play_parts,
    within,
)
from workers.engine.prompt_requests import Task, canonical
from workers.engine.prompts.verification import Answer, Contradict, LookUp, Question
from workers.engine.replies import (
    Arguments,
    ReplyModel,
    ReplyReader,
    Unreadable,
    first_flaw,
    items_in,
    listed_in,
    require_one,
)

SOURCE = "verification"
UNREADABLE = "unreadable_verification"
UNVERIFIED = "unverified"
UNKNOWN = "unknown"
NOTHING = ("", "none", "null")
"""Names of no tool."""

GIVEN_AWAY = 3
"""A question that contains a claim of at least this many words gives its answer away."""

MOST_SHOWN = 200
"""Characters of a call that are shown with the answer to which it led."""

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


class _LookUp(ReplyModel):
    tool: str | None = None
    arguments: Arguments = None


class _LookUps(ReplyModel):
    lookups: dict[str, Any]


Answered = tuple[str, str]
"""A question and its answer."""


@value(slots=True)
class ChosenCall:
    """A call of a tool that may answer a question."""

    tool: str
    arguments: Mapping[str, Any]

    @property
    def in_words(self) -> str:
        """The tool and its arguments."""
        return f"{self.tool} {canonical(self.arguments)}"


LookUps = tuple[ChosenCall | None, ...]
"""What is called for each question; None where nothing is."""


@value(slots=True)
class AnsweredQuestion:
    """A question and its answer, what was called for it, and why that call failed if it did."""

    asked: str
    answer: str
    call: ChosenCall | None = None
    failure: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether it is an answer."""
        return self.answer.strip(" \n.\"'`*").casefold() != UNKNOWN

    @property
    def shown(self) -> Answered:
        """The question and the answer, with what it was looked up by."""
        if self.call is None or self.failure is not None:
            return self.asked, self.answer
        return self.asked, f"{self.answer}\n[looked up: {self.call.in_words[:MOST_SHOWN]}]"


@value(slots=True)
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


async def judge_and_verify(
    most: int, may_call: Callable[[Tool], bool], task: Task, draft: Draft
) -> Scored:
    """Judge a draft and verify it with at most `most` questions, by the tools it may call."""
    scored = await judge(task, draft)
    asking = replace(task, tools=tuple(filter(may_call, task.tools)))
    asked = within("verify", contradictions(asking, draft.text, most))
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

    With the tools of the task a critic picks one call for each question, or none. A failed answer
    is left out, and an unknown one contradicts nothing; if all of them are, nothing was verified.
    Raises `StepError` when questions or contradictions stay unreadable, when no
    question is asked, or when every answer fails.
    """
    asked = question("questions", "critic", Question(task, draft, most))
    questions = await ask(asked, questions_in(draft, most), UNREADABLE)
    if not questions:  # before version 3
        return Verification()
    unseeing = replace(task, draft=None, criteria=())
    calls, caveats = await _look_ups(unseeing, questions)
    asking = zip(questions, calls, strict=True)
    parts = [_answered(unseeing, number, *each) for number, each in enumerate(asking, 1)]
    answers = (await play_parts("answers", parts)).replies
    known = [it.shown for it in answers if it is not None and it.is_known]
    if not known:
        detail = f"no question about the draft could be answered: {'; '.join(questions)[:500]}"
        nothing = unverified("answers", detail)
        return replace(nothing, caveats=(*nothing.caveats, *caveats, *_failed_calls(answers)))
    asked = question("contradictions", "critic", Contradict(task, draft, tuple(known)))
    found = await ask(asked, contradictions_in(draft, known), UNREADABLE)
    left_out = (*_unanswered(questions, answers), *_failed_calls(answers))
    return Verification(found, (*caveats, *left_out))


def _failed_calls(answers: Sequence[AnsweredQuestion | None]) -> Iterator[Caveat]:
    for number, it in enumerate(answers, 1):
        if it is not None and it.call is not None and it.failure is not None:
            detail = f"the look-up {it.call.in_words[:MOST_SHOWN]} failed: {it.failure[:500]}"
            yield Caveat(code="item_dropped", path=f"answers/{number}/call", detail=detail)


def _unanswered(
    questions: Sequence[str], answers: Sequence[AnsweredQuestion | None]
) -> Iterator[Caveat]:
    for number, (asked, given) in enumerate(zip(questions, answers, strict=True), 1):
        if given is None or not given.is_known:
            detail = f"what the draft says about this was not verified: {asked[:500]}"
            yield Caveat(code="item_dropped", path=f"answers/{number}", detail=detail)


async def _answered(
    task: Task, number: int, asked: str, call: ChosenCall | None
) -> AnsweredQuestion:
    """Return the answer to a question, from the result of a call if there is one and it is made."""
    path, prompt_request, failure = f"answers/{number}", Answer(task, asked), None
    if call is not None:
        result = await _result(f"{path}/call", call)
        failure = None if result.ok else result.text
        if result.ok:
            prompt_request = replace(prompt_request, call=call.in_words, found=result.text)
    answer = await ask(question(path, "critic", prompt_request), text_in, "empty_answer")
    return AnsweredQuestion(asked, answer, call, failure)


async def _result(path: str, call: ChosenCall) -> ToolResult:
    """Return the result of a call; one that is left out for a finish fails it alone."""
    try:
        return await Call(path, call.tool, call.arguments)
    except Stopped:  # after any other stop, the question is refused too
        return ToolResult(False, "it was not made, since the refinement was to end")


async def _look_ups(task: Task, questions: tuple[str, ...]) -> tuple[LookUps, tuple[Caveat, ...]]:
    """Return the call that a critic picks for each question.

    It is asked again while arguments do not fit the schema of a tool; a call that still does not
    fit fails, and nothing is sent. If no reply can be read, nothing is looked up, with a caveat.
    """
    nothing: LookUps = (None,) * len(questions)
    if not task.tools:
        return nothing, ()
    picked: list[LookUps] = []

    async def check(path: str, calls: LookUps) -> None:
        picked[:] = [calls]
        await _require_arguments_that_fit(path, calls)

    asked = question("lookups", "critic", LookUp(task, questions))
    try:
        return await ask(asked, look_ups_in(task, len(questions)), UNREADABLE, check=check), ()
    except StepError as failure:
        if picked:
            return picked[0], ()
        detail = f"no question was looked up: {failure}"
        return nothing, (Caveat(code="item_dropped", path="lookups", detail=detail),)


async def _require_arguments_that_fit(path: str, calls: LookUps) -> None:
    made = [{"tool": it.tool, "arguments": dict(it.arguments)} for it in calls if it is not None]
    if made:
        checked = await Check(f"{path}/check", json.dumps(made, ensure_ascii=False), "calls")
        if checked.findings:
            raise Unreadable("; ".join(it.message for it in checked.findings))


def look_ups_in(task: Task, count: int) -> Callable[[ReplyReader], LookUps]:
    """Return a function that reads what is called for each of `count` questions."""
    names = [it.name for it in task.tools]

    def read(reply: ReplyReader) -> LookUps:
        said = reply.read_as(_LookUps).lookups
        calls, used = list[ChosenCall | None](), list[str]()
        for number in range(1, count + 1):
            try:
                calls.append(_look_up(said.get(f"q{number}", ...), number, names))
            except Unreadable as error:
                reply.drop("look-up", str(error))
                calls.append(None)
            else:
                used.append(f"q{number}")
        require_one(reply, used)
        return tuple(calls)

    return read


def _look_up(given: Any, number: int, names: Sequence[str]) -> ChosenCall | None:
    if given is ...:
        raise Unreadable(f"nothing is said about question {number}")
    try:
        said = _LookUp.model_validate(given or {})
    except ValidationError as error:
        raise Unreadable(first_flaw(error, f"q{number}")) from None
    if said.tool is None or (said.tool.casefold() in NOTHING and said.tool not in names):
        return None
    if said.tool not in names:
        known = ", ".join(names)
        raise Unreadable(f"q{number}: unknown tool {said.tool!r}; known tools: {known}")
    return ChosenCall(said.tool, said.arguments or {})


def questions_in(draft: str, most: int) -> Callable[[ReplyReader], tuple[str, ...]]:
    def read(reply: ReplyReader) -> tuple[str, ...]:
        said = listed_in(reply, "questions", _Question, "question")[:most]
        source = Source(draft)
        used = tuple(it.question.strip() for it in said if _is_usable(reply, it, source))
        require_one(reply, used)
        if not used:
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
