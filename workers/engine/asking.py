"""Asks a model for a reply in a given form, and again with the error if it is unreadable."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from app.contract.calls import AGAIN
from app.contract.models import GENERATOR, Role
from workers.engine.moves import Ask, Check, StepError, Stopped
from workers.engine.prompts import PromptRequest, tagged_text
from workers.engine.replies.reader import (
    CUT_OFF,
    DECLINED,
    OVERLONG,
    CutShort,
    Doubtful,
    DroppedItem,
    Refused,
    ReplyReader,
    Unreadable,
)
from workers.engine.replies.texts import in_brackets

Read = TypeVar("Read")
REFUSED = "model_refused"
"""The code of a step whose model refused twice to do what it was asked."""

REFUSES_ROOM = frozenset({"model_refused", "prompt_too_long"})
"""The codes of a call that a server refuses because it asks for too long a reply, among others."""

SHORTER = "it was cut off by the limit on its length: answer again, shorter"
ALONE = ' Give one JSON object, {"text": "..."}, with the whole text and no word about the text.'
"""The form for a model that ignored the marks: many know JSON by heart."""

WHOLE = "it was cut off by the limit on its length: there is more room now, give the whole text"


def question(path: str, role: Role, prompt_request: PromptRequest) -> Ask:
    """Return the move that asks a role to do what a prompt request says."""
    member = prompt_request.task.writer if role == GENERATOR else None
    return Ask(path, role, prompt_request, prompt_request.prompt(), member=member)


async def ask(
    question: Ask,
    read: Callable[[ReplyReader], Read],
    code: str,
    times: int = AGAIN,
    spared: int = 0,
    check: Callable[[str, Read], Awaitable[None]] | None = None,
) -> Read:
    """Return the parsed reply; ask again with the error, up to `times` times, if it is unreadable.

    `check` is given the path of the step and what was read, and may raise `Unreadable` too. A reply
    that was cut off is asked for again with more room, unless the server refuses that; `spared` of
    the times are kept for another way then. A doubtful first draft is taken where no better reply
    can be paid for, or none comes. Raises `StepError`, made up of all replies: with `code` when the
    last one is unreadable too, `model_refused` when the model refused twice, `CutOff`:
    there is no default.
    """
    reading = _Reading(read)
    asked, refused, text, error = question.changed(read=reading), 0, "", ""
    is_doubted, room = False, 0
    for attempt in range(times + 1):
        try:
            reading.is_again = is_doubted or attempt == times
            text = await asked
            said = reading(reply_reader(question, text))
            if check is not None:
                await check(asked.path, said)
            return said
        except Unreadable as unreadable:
            error = str(unreadable)
            if unreadable.schema is not None:
                prompt = replace(question.prompt, schema=unreadable.schema)
                question = question.changed(prompt=prompt)
            refused += isinstance(unreadable, Refused)
            room += isinstance(unreadable, CutShort)
            is_doubted = is_doubted or isinstance(unreadable, Doubtful)
        except (Stopped, StepError) as failure:
            if reading.earlier is not None:
                return reading(reply_reader(question, text))
            if isinstance(failure, Stopped):
                raise
            if failure.code != DECLINED:
                is_last = attempt >= times - spared
                asked = _roomier(asked, question, failure, attempt + 1, is_last=is_last)
                continue
            text = error = failure.detail
            refused += 1
        if refused > 1:
            raise StepError(REFUSED, f"the model refused twice: {error}", (question.path,))
        repeated = again(question, attempt + 1, text, error)
        is_spare = repeated.prepares or reading.earlier is not None
        asked = replace(repeated, read=reading, room=asked.room + room, prepares=is_spare)
        room = 0
    raise StepError(code, f"asked {times + 1} times; the last reply: {error}", (question.path,))


def _roomier(asked: Ask, question: Ask, failure: StepError, attempt: int, *, is_last: bool) -> Ask:
    """Return the question for a reply that may be twice as long as the one that was cut off.

    The model is told to be shorter as well where the reply is an object and not the text, or a text
    in prose that was cut off twice. Raises every other failure, and `CutOff` where there is no more
    room or no other try.
    """
    if failure.code == OVERLONG:
        raise CutOff(failure, question, attempt) from None
    is_too_much = asked.room > 0 and failure.code in REFUSES_ROOM
    if not (is_too_much or failure.code == CUT_OFF):
        raise failure
    if is_too_much or is_last:
        raise CutOff(failure, question, attempt) from None
    asks_for_all = question.prompt.is_document or attempt < AGAIN
    error = WHOLE if question.prompt.asks_for_text and asks_for_all else SHORTER
    prompt = question.prompt.repeated(f"Your last answer: {error}.")
    asked = replace(asked, path=f"{question.path}/again/{attempt}", prompt=prompt)
    return replace(asked, room=asked.room + 1)


def reply_reader(question: Ask, reply: str) -> ReplyReader:
    """Return what reads a reply to a question."""
    return ReplyReader(reply, question.prompt_request, mark=question.prompt.mark)


class _Reading(Generic[Read]):
    """Reads the replies to one question, each once: for the step's record and for the strategy."""

    def __init__(self, read: Callable[[ReplyReader], Read]) -> None:
        self._read = read
        self.is_again = False
        """Whether the next reply is read as one that was asked for again for a doubt."""
        self.earlier: str | None = None
        """What a doubtful first draft is taken for if no better reply follows."""
        self._last: tuple[Any, Sequence[DroppedItem], Read | Unreadable] | None = None

    def __call__(self, reply: ReplyReader) -> Read:
        reply.is_again, reply.earlier = self.is_again, self.earlier if self.is_again else None
        key = reply.raw, reply.is_again
        if self._last is None or self._last[0] != key:
            try:
                found: Read | Unreadable = self._read(reply)
            except Unreadable as unreadable:
                found = unreadable
                if isinstance(unreadable, Doubtful):
                    self.earlier = unreadable.text
            self._last = key, tuple(reply.dropped), found
        _, dropped, found = self._last
        reply.dropped[:] = dropped
        if isinstance(found, Unreadable):
            raise found
        return found


class CutOff(StepError):
    """A reply that was cut off by the limit on its length, after it was asked for `asked` times."""

    def __init__(self, failure: StepError, question: Ask, asked: int) -> None:
        super().__init__(failure.code, failure.detail, (question.path,))
        self.asked = asked


def again(question: Ask, attempt: int, reply: str, error: str) -> Ask:
    """Return the question with the last reply and what is wrong with it."""
    shown = reply[:20_000]
    if question.prompt.mark is not None:
        shown = in_brackets(shown, question.prompt.mark)
    form = ALONE if question.prompt.wants_text_alone else ""
    correction = (
        f"{tagged_text(question.prompt_request.task, 'your last answer', shown)}\n\n"
        f"It cannot be used: {error}\nAnswer again, whole and in the form asked for.{form}"
    )
    prompt = question.prompt.repeated(correction)
    return replace(question, path=f"{question.path}/again/{attempt}", prompt=prompt)


async def require_arguments_that_fit(
    path: str, calls: Iterable[tuple[str, Mapping[str, Any]]]
) -> None:
    """Raise `Unreadable` if the schema of a tool rejects the arguments of a call of it.

    `path` is that of the step in which the calls were chosen.
    """
    made = [{"tool": tool, "arguments": dict(arguments)} for tool, arguments in calls]
    if made:
        checked = await Check(f"{path}/check", json.dumps(made, ensure_ascii=False), "calls")
        if checked.findings:
            raise Unreadable("; ".join(finding.message for finding in checked.findings))


def text_in(reply: ReplyReader) -> str:
    """Return the text of a reply. Raises `Unreadable` when there is none."""
    return reply.text()
