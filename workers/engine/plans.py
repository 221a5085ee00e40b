"""A plan as data: its steps, what was observed, and the verdict on the goal."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step; without a tool a model carries out the instruction."""

    instruction: str
    name: str = ""
    tool: str | None = None
    arguments: Mapping[str, Any] | None = None

    @property
    def title(self) -> str:
        """What the step is called, at most 80 characters."""
        return (self.name or self.instruction)[:80]

    @property
    def call(self) -> str | None:
        """The call in one spelling: equal calls have equal texts. None without a tool."""
        return None if self.tool is None else f"{self.tool} {canonical(self.arguments)}"


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of the step with that number; `ok` is false when its tool failed."""

    number: int
    step: PlannedStep
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Revision:
    """A revised plan: the steps that remain, and whether the goal is met already.

    `unproven` says why a verdict that it is met does not count.
    """

    steps: tuple[PlannedStep, ...]
    is_met: bool = False
    unproven: str | None = None


def canonical(arguments: Mapping[str, Any] | None) -> str:
    """Return arguments as JSON in which the order of names plays no part."""
    return json.dumps(arguments or {}, ensure_ascii=False, sort_keys=True)
