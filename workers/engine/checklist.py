"""What a text is judged on when the request leaves that to a critic."""

from dataclasses import replace

from pydantic import Field

from app.contract.criteria import (
    FEWEST_LISTED,
    LONGEST_NAME,
    LONGEST_QUESTION,
    MOST_LISTED,
    Criterion,
)
from workers.engine.asking import Unreadable, ask, question
from workers.engine.briefs import ListCriteria, Task
from workers.engine.reading import Said, read_as

QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")
"""Latin, full width, Arabic and Greek."""


class _Listed(Said):
    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    description: str = Field(min_length=1, max_length=LONGEST_QUESTION)


class _Checklist(Said):
    criteria: list[_Listed] = Field(min_length=FEWEST_LISTED, max_length=MOST_LISTED)


async def with_checklist(task: Task) -> Task:
    """Return the task with 3 to 8 criteria that a critic listed: questions, and nothing judged yet.

    TICK (arXiv:2410.03608): a model that answers questions made for the very task agrees with
    people more often than one that scores directly. Raises `StepFailed` (`unreadable_criteria`).
    """
    asked = question("criteria", "critic", ListCriteria(replace(task, criteria=())))
    return replace(task, criteria=await ask(asked, criteria_in, "unreadable_criteria"))


def criteria_in(reply: str) -> tuple[Criterion, ...]:
    """Return the criteria of a reply, or raise `Unreadable` with what is wrong with it."""
    listed = read_as(_Checklist, reply).criteria
    names = [it.name.strip() for it in listed]
    if not all(names) or len({name.casefold() for name in names}) < len(names):
        raise Unreadable("every criterion needs a name of its own")
    for it in listed:
        if not it.description.rstrip().endswith(QUESTION_MARKS):
            raise Unreadable(f"the description of {it.name} is no question")
    return tuple(
        Criterion(name=name, description=it.description.strip())
        for name, it in zip(names, listed, strict=True)
    )
