"""Verifies the facts in a draft: open questions, independent answers, contradictions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from pydantic import ValidationError

from app.contract.judgement import Finding, OnFail, Quotation
from app.contract.limits import Limits
from app.contract.status import Caveat
from app.contract.tools import Tool
from app.contract.values import value
from workers.engine.asking import ask, question, require_arguments_that_fit, text_in
from workers.engine.drafting import judged_draft
from workers.engine.judging import judge
from workers.engine.moves import (
    VERIFICATION,
    Call,
    Draft,
    MoveCoroutine,
    Scored,
    StepError,
    Stopped,
    ToolResult,
    play_parts,
    within,
)
from workers.engine.prompts import (
    IN_WORDS,
    SCORES,
    TEXT,
    Prompt,
    PromptRequest,
    Task,
    canonical,
    closed,
    described,
    each,
    numbered_texts,
    object_with_list,
    tagged_text,
    worded,
)
from workers.engine.replies.likeness import Source
from workers.engine.replies.reader import (
    Arguments,
    ReplyModel,
    ReplyReader,
    Unreadable,
    first_flaw,
    list_items,
    listed_in,
    require_one,
)
from workers.engine.reviewing import ReviewPolicy
from workers.engine.search import Outcome, Search

QUESTIONS_SCHEMA = object_with_list("questions", closed({"claim": TEXT, "question": TEXT}))


@value(slots=True)
class Question(PromptRequest):
    """Ask at most `most` open questions about what a draft states."""

    draft: str
    most: int

    def prompt(self) -> Prompt:
        draft = tagged_text(self.task, "draft", self.draft)
        most = f"Ask at most {self.most}, the most important first."
        return worded(self.task, "questions", draft, most, schema=QUESTIONS_SCHEMA)


_LOOKED_UP = closed(
    {"tool": {"type": ["string", "null"]}, "arguments": {"type": ["string", "null"]}}
)


@value(slots=True)
class LookUp(PromptRequest):
    """Say which tool is called, with which arguments, before each question is answered."""

    questions: tuple[str, ...]

    def prompt(self) -> Prompt:
        return worded(
            self.task,
            "lookups",
            *(described(self.task, tool) for tool in self.task.tools),
            *numbered_texts(self.task, "question", self.questions),
            schema=closed({"lookups": each("q", len(self.questions), _LOOKED_UP)}),
        )


@value(slots=True)
class Answer(PromptRequest):
    """Answer one question without seeing the draft it is about."""

    question: str
    call: str = ""
    """The call that answers the question: the tool and its arguments."""
    found: str = ""
    """The result of that call."""

    def prompt(self) -> Prompt:
        found, sources = list[str](), "the task and the documents"
        if self.call:
            found = [tagged_text(self.task, "looked up", f"{self.call}\n\n{self.found}")]
            sources = "the task, the documents and what was looked up"
        question = tagged_text(self.task, "question", self.question)
        return worded(self.task, "answer", *found, question, sources=sources)


_CONTRADICTIONS: dict[str, object] = {
    "type": "array",
    "items": closed({"claim": TEXT, "contradiction": TEXT, "fix": TEXT}),
}


@value(slots=True)
class Contradict(PromptRequest):
    """Say where a draft and independent answers (question, answer) contradict each other."""

    draft: str
    answered: tuple[tuple[str, str], ...]

    def prompt(self) -> Prompt:
        return worded(
            self.task,
            "contradictions",
            tagged_text(self.task, "draft", self.draft),
            *numbered_texts(self.task, "answer", ["\n\n".join(given) for given in self.answered]),
            schema=closed({"answers": each("a", len(self.answered), _CONTRADICTIONS)}),
        )


_CHECKED = closed({"why": TEXT, "correct": {"type": "boolean"}})


@value(slots=True)
class CheckSteps(PromptRequest):
    """Say of each numbered_texts step whether it is correct."""

    draft: str
    count: int = field(default=0, metadata={IN_WORDS: True})
    """The number of its steps."""
    calculated: str = field(default="", metadata={IN_WORDS: True})
    """What a calculator says of the equations in the steps, a line each."""

    def prompt(self) -> Prompt:
        known = [tagged_text(self.task, "calculator", self.calculated)] if self.calculated else []
        steps = tagged_text(self.task, "steps", self.draft)
        schema = closed({"steps": each("s", self.count, _CHECKED)})
        return worded(self.task, "steps", steps, *known, schema=schema)


@value(slots=True)
class Vote(PromptRequest):
    """Say which of several answers to a task are the same."""

    answers: tuple[str, ...]

    def prompt(self) -> Prompt:
        count = len(self.answers)
        group: dict[str, object] = {"type": "integer", "enum": list(range(1, count + 1))}
        answers = numbered_texts(self.task, "answer", self.answers)
        return worded(
            self.task, "vote", *answers, schema=closed({"groups": each("a", count, group)})
        )


@value(slots=True)
class Weigh(PromptRequest):
    """Say how likely each of several different answers is right, from the reasoning behind it."""

    answers: tuple[str, ...]
    reasoning: tuple[str, ...]
    """What was thought before each answer; empty where that is not known."""

    def prompt(self) -> Prompt:
        verdict = closed({"why": TEXT, "score": {"type": "number", "enum": SCORES}})
        shown = (
            block
            for number, (answer, why) in enumerate(
                zip(self.answers, self.reasoning, strict=True), 1
            )
            for block in (
                tagged_text(self.task, f"answer {number}", answer),
                *([tagged_text(self.task, f"reasoning {number}", why)] if why else ()),
            )
        )
        return worded(self.task, "weigh", *shown, schema=each("a", len(self.answers), verdict))


SOURCE = VERIFICATION
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
        """The question and the answer, with the call that looked it up."""
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
        return replace(self, caveats=tuple(caveat.under(prefix) for caveat in self.caveats))


def unverified(path: str, detail: str) -> Verification:
    """Return a verification that verified nothing."""
    return Verification(caveats=(Caveat(code="unverified", path=path, detail=detail),))


async def judge_and_verify(
    most: int, may_call: Callable[[Tool], bool], task: Task, draft: Draft
) -> Scored:
    """Judge a draft and verify it with at most `most` questions, by the tools it may call."""
    scored = await judge(task, draft)
    asking = replace(task, tools=tuple(filter(may_call, task.tools)))
    asked = within("verify", contradictions(asking, scored.draft.text, most))
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
    return scored.found(done.findings or (*_not_verified(task, done.caveats),), done.caveats)


def _not_verified(task: Task, caveats: Sequence[Caveat]) -> Iterator[Finding]:
    for caveat in caveats:
        if caveat.code == UNVERIFIED and UNVERIFIED not in task.accepted:
            yield Finding(
                source=SOURCE,
                kind=UNVERIFIED,
                message=caveat.detail,
                on_fail=OnFail.VETO,
                skipped=True,
            )


def is_unverified(scored: Scored) -> bool:
    """Return whether a stop from outside came before a draft could be verified."""
    return NOT_VERIFIED in scored.findings


async def verified_search(task: Task, limits: Limits, policy: ReviewPolicy) -> Outcome:
    """Make, judge, verify and revise drafts until a stop rule holds.

    Every draft is verified, whatever its score. A draft that was not verified because of a stop
    from outside is the last one, unless a reviewer asks for another.
    """
    with Search.of(task, limits) as search:
        for _ in search.iterations():
            scored = await judged_draft(task, search, policy.judge, policy.first, policy.revised)
            search.is_last = is_unverified(scored)
            await search.judged(scored)
            if search.is_last and search.wish is None:
                search.settle(None)
                break
    return search.outcome()


async def contradictions(task: Task, draft: str, most: int) -> Verification:
    """Ask at most `most` questions about a draft; find the statements that answers contradict.

    With the tools of the task a critic picks one call for each question, or none. A failed answer
    is left out, and an unknown one contradicts nothing; if all of them are, nothing was verified.
    Raises `StepError` when questions or contradictions stay unreadable, when no
    question is asked, or when every answer fails.
    """
    asked = question("questions", "critic", Question(task, draft, most))
    questions = await ask(asked, questions_in(draft, most), UNREADABLE)
    unseeing = replace(task, draft=None, criteria=())
    calls, caveats = await _look_ups(unseeing, questions)
    asking = zip(questions, calls, strict=True)
    parts = [_answered(unseeing, number, *each) for number, each in enumerate(asking, 1)]
    answers = (await play_parts("answers", parts)).replies
    known = [answer.shown for answer in answers if answer is not None and answer.is_known]
    if not known:
        detail = f"no question about the draft could be answered: {'; '.join(questions)[:500]}"
        nothing = unverified("answers", detail)
        return replace(nothing, caveats=(*nothing.caveats, *caveats, *_failed_calls(answers)))
    asked = question("contradictions", "critic", Contradict(task, draft, tuple(known)))
    found = await ask(asked, contradictions_in(draft, known), UNREADABLE)
    left_out = (*_unanswered(questions, answers), *_failed_calls(answers))
    return Verification(found, (*caveats, *left_out))


def _failed_calls(answers: Sequence[AnsweredQuestion | None]) -> Iterator[Caveat]:
    for number, answer in enumerate(answers, 1):
        if answer is not None and answer.call is not None and answer.failure is not None:
            detail = (
                f"the look-up {answer.call.in_words[:MOST_SHOWN]} failed: {answer.failure[:500]}"
            )
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

    The critic is asked again while arguments do not fit the schema of a tool; a call that still
    does not fit fails, and nothing is sent. If no reply can be read, nothing is looked up, with a
    caveat.
    """
    nothing: LookUps = (None,) * len(questions)
    if not task.tools:
        return nothing, ()
    picked: list[LookUps] = []

    async def check(path: str, calls: LookUps) -> None:
        picked[:] = [calls]
        chosen = ((call.tool, call.arguments) for call in calls if call is not None)
        await require_arguments_that_fit(path, chosen)

    asked = question("lookups", "critic", LookUp(task, questions))
    try:
        return await ask(asked, look_ups_in(task, len(questions)), UNREADABLE, check=check), ()
    except StepError as failure:
        if picked:
            return picked[0], ()
        detail = f"no question was looked up: {failure}"
        return nothing, (Caveat(code="item_dropped", path="lookups", detail=detail),)


def look_ups_in(task: Task, count: int) -> Callable[[ReplyReader], LookUps]:
    """Return a function that reads what is called for each of `count` questions."""
    names = [tool.name for tool in task.tools]

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
        used = tuple(asked.question.strip() for asked in said if _is_usable(reply, asked, source))
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
        for contradiction in _contradictions(reply, len(answered)):
            try:
                found.append(
                    _finding(contradiction, source, *_answer(answered, contradiction.answer))
                )
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
        return list_items(reply, said.contradictions, _Contradiction, "contradiction")
    items: list[Any] = []
    for number in range(1, count + 1):
        about = said.answers.get(f"a{number}", ...)
        if about is ...:
            raise Unreadable(f"nothing is said about answer {number}")
        given = about if isinstance(about, list) else [] if about is None else [about]
        items += [{**item, "answer": number} if isinstance(item, dict) else item for item in given]
    return list_items(reply, items, _Contradiction, "contradiction")


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
