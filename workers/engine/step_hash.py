"""The hash of what a step is given: a recorded reply belongs to one key and one hash.

The hash covers what came from outside and which of that the step has: request, drafts and verdicts
from earlier replies, findings, words of reviewers, results of tools. The words of a prompt and its
marks are not in it, so that a release with other words keeps the replies that were paid for.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from hashlib import sha256
from operator import attrgetter
from typing import Any

from pydantic import BaseModel

from app.contract.judgement import CriterionScore, Critique, Finding, PanelMember
from workers.engine.moves import Ask, Call, Check, StepMove
from workers.engine.prompts import IN_WORDS, Task

LENGTH = 16
"""Hexadecimal digits of the SHA-256 that are kept: 64 bits."""

COVERED: Mapping[type, tuple[str, ...]] = {
    PanelMember: ("name", "perspective", "adversarial"),
    Critique: ("scores", "strengths", "weaknesses", "suggestions", "findings"),
    CriterionScore: ("criterion", "score", "reason"),
    Finding: ("source", "kind", "message", "fix", "quote"),
}
"""The fields of shared types that are covered: a field that a later release adds is not.

Of a task its `sha256` is covered, once, and of other dataclasses every field that is not `IN_WORDS`
and differs from its default.
"""


def about(move: StepMove) -> str:
    """Return the hash of what a step is about: its kind, who is asked, and what is given.

    The hash has `LENGTH` hexadecimal digits, the same in every process and release.
    """
    subject: tuple[Any, ...]
    match move:
        case Ask():
            given, seat = move.prompt_request, (move.role, move.member)
            subject = "ask", move.prompt.name, seat, given.task.sha256, given
        case Check():
            subject = "check", move.of, move.draft
        case Call():
            subject = "call", move.tool, dict(move.arguments)
    return sha256(_encode(subject).encode()).hexdigest()[:LENGTH]


def _plain(value: Any) -> Any:
    """Return a value that JSON cannot write as lists and mappings of such that it can."""
    return _plainly(type(value))(value)  # type: ignore[arg-type] # mypy: type[Any] is not Hashable


@cache
def _plainly(kind: type) -> Callable[[Any], Any]:
    """Return what makes the values of a type plain."""
    if covered := COVERED.get(kind):
        return attrgetter(*covered)
    if issubclass(kind, BaseModel):
        return partial(kind.model_dump, mode="json", exclude_defaults=True)
    if issubclass(kind, Mapping):
        return dict
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is no dataclass: its hash would differ between processes")
    given = [
        (attribute.name, attribute.default)
        for attribute in fields(kind)
        if not (attribute.type is Task or attribute.metadata.get(IN_WORDS))
    ]
    return partial(_given, given)


def _given(fields_: Sequence[tuple[str, Any]], value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults."""
    found = {}
    for name, default in fields_:
        given = getattr(value, name)
        if default is MISSING or given != default:
            found[name] = given
    return found


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain).encode
