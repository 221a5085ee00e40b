"""The steps in a journal: what a model was asked, and what it said."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.contract.events import (
    Event,
    PromptRef,
    StepCompleted,
    StepFailed,
    TextReply,
    unvoided,
)
from app.contract.steps import Step, StepPrompt
from app.store import KeptPrompt


@dataclass(frozen=True, slots=True)
class EndedStep:
    """A step with the event that recorded it; `is_voided` if a retry has voided it since."""

    event: int
    at: datetime
    data: StepCompleted | StepFailed
    is_voided: bool

    @property
    def sha256(self) -> str | None:
        """The sum of its prompt, if it had one."""
        return self.data.prompt.sha256 if self.data.prompt else None


def ended_steps(journal: Sequence[Event], path: str | None) -> Iterator[EndedStep]:
    """Yield the steps in the order in which they ended: all, or the one at `path` and below it."""
    counting = {event.event for event in unvoided(journal)}
    below = "" if path is None else f"{path.rstrip('/')}/"
    for event in journal:
        match event.data:
            case StepCompleted(key=key) | StepFailed(key=key) as data:
                if f"{key}/".startswith(below):
                    yield EndedStep(event.event, event.at, data, event.event not in counting)


def replies_in(journal: Sequence[Event]) -> Iterator[str]:
    """Yield what models have said, what a retry has voided included."""
    for event in journal:
        match event.data:
            case StepCompleted(reply=TextReply(text=text)):
                yield text


def step_of(ended: EndedStep, prompts: Mapping[str, KeptPrompt]) -> Step:
    """Return a step with its prompt, if that was kept."""
    data = ended.data
    shared: dict[str, Any] = {
        "event": ended.event,
        "key": data.key,
        "at": ended.at,
        "is_voided": ended.is_voided,
        "prompt": _prompt(data.prompt, prompts) if data.prompt else None,
        "usage": data.usage,
        "seconds": data.usage.seconds,
    }
    if isinstance(data, StepCompleted):
        return Step(**shared, kind=data.kind, model=data.model, tried=data.tried, reply=data.reply)
    return Step(**shared, kind="ask" if data.prompt else None, code=data.code, detail=data.detail)


def _prompt(prompt: PromptRef, prompts: Mapping[str, KeptPrompt]) -> StepPrompt:
    named = StepPrompt(name=prompt.name, version=prompt.version, sha256=prompt.sha256)
    kept = prompts.get(prompt.sha256)
    if kept is None:
        return named
    texts = {"system": kept.system, "user": kept.user, "schema_": kept.schema}
    return named.model_copy(update=texts)
