"""Asks a model for a reply in a given form, and again with the error if it is unreadable."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from app.contract.calls import AGAIN
from app.contract.drafts import draft_of
from workers.engine.moves import Ask, Role, StepError
from workers.engine.prompt_requests import PromptRequest
from workers.engine.prompts import fenced

Read = TypeVar("Read")


class Unreadable(Exception):
    """A reply that is not in the requested form; the message says why."""


def question(path: str, role: Role, prompt_request: PromptRequest) -> Ask:
    """Return the move that asks a role to do what a prompt request says."""
    return Ask(path, role, prompt_request, prompt_request.prompt())


async def ask(question: Ask, read: Callable[[str], Read], code: str, times: int = AGAIN) -> Read:
    """Return the parsed reply; ask again with the error, up to `times` times, if it is unreadable.

    Raises `StepError` with `code`, made up of all replies, when the last one is unreadable too:
    there is no default.
    """
    reply, error = "", ""
    for attempt in range(times + 1):
        asked = question if attempt == 0 else again(question, attempt, reply, error)
        reply = await asked
        try:
            return read(reply)
        except Unreadable as unreadable:
            error = str(unreadable)
    raise StepError(code, f"asked {times + 1} times; the last reply: {error}", (question.path,))


def again(question: Ask, attempt: int, reply: str, error: str) -> Ask:
    """Return the question with the last reply and what is wrong with it."""
    correction = (
        f"{fenced(question.prompt_request.task, 'your last answer', reply[:20_000])}\n\n"
        f"It cannot be used: {error}\nAnswer again, whole and in the form asked for."
    )
    prompt = replace(question.prompt, user=f"{question.prompt.user}\n\n{correction}")
    return replace(question, path=f"{question.path}/again/{attempt}", prompt=prompt)


def text_in(reply: str) -> str:
    """Return the text of a reply. Raises `Unreadable` when it is empty."""
    text = draft_of(reply)
    if not text:
        raise Unreadable("it is empty")
    return text


class ReplyModel(BaseModel):
    """The JSON object of a reply; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


Shape = TypeVar("Shape", bound=ReplyModel)


def read_as(shape: type[Shape], reply: str) -> Shape:
    """Return the JSON object in a reply. Raises `Unreadable` with what is wrong with it."""
    text = draft_of(reply)
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise Unreadable("it contains no JSON object")
    _refuse_repeated_names(text[start : end + 1])
    try:
        return shape.model_validate_json(text[start : end + 1])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(str(part) for part in first["loc"]) or "the object"
        raise Unreadable(f"{where}: {first['msg']}") from None


def _refuse_repeated_names(text: str) -> None:
    """Raise `Unreadable` for an object with a name twice: which value counts is not certain."""
    try:
        json.loads(text, object_pairs_hook=_with_each_name_once)
    except (ValueError, RecursionError):
        return  # the shape says what is wrong


def _with_each_name_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unreadable(f"the name {twice[:100]!r} stands twice in one object")
    return found
