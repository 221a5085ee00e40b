"""Asking a model for something that must be read, and asking again with the error."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from app.contract.calls import AGAIN
from workers.engine.briefs import Brief
from workers.engine.moves import Ask, Role, StepFailed
from workers.engine.prompts import render
from workers.engine.prompts.fence import fenced

Read = TypeVar("Read")


class Unreadable(Exception):
    """A reply that breaks the form that was asked for; the text says how."""


def question(path: str, role: Role, brief: Brief) -> Ask:
    """Return what asks a role to do what a brief says, in the words of its prompt."""
    return Ask(path, role, brief, render(brief))


async def ask(question: Ask, read: Callable[[str], Read], code: str, times: int = AGAIN) -> Read:
    """Return the reply as read; an unreadable one is asked for again with the error, so many times.

    Raises `StepFailed` with `code` when it still cannot be read: there is no default.
    """
    reply, error = "", ""
    for attempt in range(times + 1):
        asked = question if attempt == 0 else again(question, attempt, reply, error)
        reply = await asked
        try:
            return read(reply)
        except Unreadable as unreadable:
            error = str(unreadable)
    raise StepFailed(code, f"asked {times + 1} times; the last reply: {error}")


def again(question: Ask, attempt: int, reply: str, error: str) -> Ask:
    """Return the question with the last answer and what is wrong with it."""
    correction = (
        f"{fenced('Your last answer', reply[:20_000])}\n\n"
        f"It cannot be used: {error}\nAnswer again, whole and in the form asked for."
    )
    prompt = replace(question.prompt, user=f"{question.prompt.user}\n\n{correction}")
    return replace(question, path=f"{question.path}/again/{attempt}", prompt=prompt)
