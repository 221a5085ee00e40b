"""Reading plans. Fail closed: what cannot be played is returned with the error, never guessed."""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError

from workers.engine.asking import Unreadable
from workers.engine.evidence import Source
from workers.engine.plans import Observation, PlannedStep, Revision
from workers.engine.reading import Said, read_as

MOST_STEPS = 30
"""Steps that one plan may have; how many are carried out is the strategy's to bound."""

_WRITTEN: TypeAdapter[dict[str, Any] | None] = TypeAdapter(dict[str, Any] | None)


def _object(value: Any) -> Any:
    """Take over arguments that were written as the text of a JSON object."""
    if not isinstance(value, str):
        return value
    try:
        return _WRITTEN.validate_json(value) if value.strip() else None
    except ValidationError:
        raise ValueError("the text is no JSON object") from None


def _finite(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """Refuse what is no JSON (RFC 8259), such as NaN."""
    json.dumps(value, allow_nan=False)
    return value


Arguments = Annotated[dict[str, Any] | None, BeforeValidator(_object), AfterValidator(_finite)]


class _Step(Said):
    instruction: str = Field(min_length=1, max_length=8_000)
    name: str | None = Field(None, max_length=200)
    tool: str | None = None
    arguments: Arguments = None


class _Plan(Said):
    steps: list[_Step] = Field(min_length=1, max_length=MOST_STEPS)


class _Evidence(Said):
    step: int
    quote: str


class _Verdict(Said):
    met: bool
    evidence: tuple[_Evidence, ...] = ()


class _Revision(Said):
    goal_met: _Verdict
    steps: list[_Step] = Field(max_length=MOST_STEPS)


def plan_reader(tools: Collection[str]) -> Callable[[str], Revision]:
    """Return a function that reads a first plan; it raises `Unreadable` with why."""
    return lambda reply: Revision(_steps(read_as(_Plan, reply).steps, tools))


def revision_reader(
    tools: Collection[str], observations: Sequence[Observation]
) -> Callable[[str], Revision]:
    """Return a function that reads a revised plan; it raises `Unreadable` with why."""

    def read(reply: str) -> Revision:
        said = read_as(_Revision, reply)
        steps = _steps(said.steps, tools)
        if not said.goal_met.met:
            return Revision(steps)
        unproven = _unproven(said.goal_met.evidence, observations)
        return Revision(steps, is_met=unproven is None, unproven=unproven)

    return read


def repeated(steps: Sequence[PlannedStep], observations: Sequence[Observation]) -> str | None:
    """Return which step repeats a call that failed, in words; None when none does."""
    for step in steps:
        if failed_before(step, observations):
            return (
                f"the call of {step.tool} with the arguments of step {step.title!r} has failed"
                " before: plan another way"
            )
    return None


def failed_before(step: PlannedStep, observations: Sequence[Observation]) -> bool:
    """Tell whether the same call, arguments included, has failed."""
    failed = {it.step.call for it in observations if not it.ok}
    return step.call is not None and step.call in failed


def _unproven(evidence: Sequence[_Evidence], observations: Sequence[Observation]) -> str | None:
    seen = {it.number: Source(it.text) for it in observations if it.ok}
    if any(it.step in seen and seen[it.step].quotation(it.quote) for it in evidence):
        return None
    return (
        "goal_met.met needs evidence: at least one quote that stands, character for character,"
        " in what was observed in the step it names"
    )


def _steps(said: Sequence[_Step], tools: Collection[str]) -> tuple[PlannedStep, ...]:
    for number, step in enumerate(said, 1):
        if step.tool is not None and step.tool not in tools:
            known = ", ".join(tools) or "none"
            raise Unreadable(f"step {number} names the tool {step.tool!r}; there are: {known}")
        if step.tool is None and step.arguments:
            raise Unreadable(f"step {number} has arguments and no tool")
    return tuple(
        PlannedStep(
            instruction=it.instruction,
            name=(it.name or "").strip(),
            tool=it.tool,
            arguments=None if it.tool is None else it.arguments or {},
        )
        for it in said
    )
