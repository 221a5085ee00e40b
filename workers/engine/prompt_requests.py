"""A plan as data: its steps, what was observed, and the verdict on the goal."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.contract.critics import Critics, PanelMember
from app.contract.drafts import EditMode
from app.contract.judgement import Critique, Finding
from app.contract.requests import ContextDocument, Criterion
from app.contract.tools import Tool


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


@dataclass(frozen=True, slots=True)
class Task:
    """What the text must achieve, what it is judged on and what may be used."""

    instruction: str | None
    draft: str | None
    criteria: tuple[Criterion, ...]
    context: tuple[ContextDocument, ...] = ()
    has_validators: bool = False
    is_clients_draft: bool = True
    """False for a draft that an earlier part of the strategy made."""
    demanding: int = 0
    """How many validators have a say: all but those that only warn."""
    schemas: tuple[Mapping[str, Any] | bool, ...] = ()
    """JSON Schemas that the draft must satisfy."""
    tools: tuple[Tool, ...] = ()
    """What a plan may call."""
    critics: Critics = Critics()  # noqa: RUF009 - frozen
    """Who judges every draft."""
    edits: EditMode = "full"
    """How a draft is revised."""
    locked: tuple[str, ...] = ()
    """Texts of the client's draft that stay in every draft, character for character."""
    is_reviewed: bool = False
    """Whether the outermost search puts every draft before a reviewer."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write a first draft."""

    task: Task


@dataclass(frozen=True, slots=True)
class Judge:
    """Judge a draft, blind: no threshold, no earlier score, no iteration, no author.

    `member` is the critic of a panel whose part it is.
    """

    task: Task
    draft: str
    member: PanelMember | None = None


@dataclass(frozen=True, slots=True)
class ListCriteria:
    """List what a text will be judged on, from the task; from its draft only if there is none."""

    task: Task


@dataclass(frozen=True, slots=True)
class Revise:
    """Revise a draft: what failed is named, what is good is to be kept."""

    task: Task
    draft: str
    failing: tuple[str, ...]
    critique: Critique
    findings: tuple[Finding, ...]
    mended: tuple[str, ...] = ()
    """What earlier revisions mended, and this one may not undo."""


@dataclass(frozen=True, slots=True)
class Amend:
    """Revise a draft by search/replace edits of it."""

    revision: Revise

    @property
    def task(self) -> Task:
        """What the text must achieve."""
        return self.revision.task


@dataclass(frozen=True, slots=True)
class Question:
    """Ask at most so many open questions about what a draft states."""

    task: Task
    draft: str
    most: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer one question without seeing the draft it is about."""

    task: Task
    question: str


@dataclass(frozen=True, slots=True)
class Reason:
    """Write a first draft in numbered steps."""

    task: Task


@dataclass(frozen=True, slots=True)
class CheckSteps:
    """Say of each numbered step whether it is correct, up to the first that is not."""

    task: Task
    draft: str


@dataclass(frozen=True, slots=True)
class Redo:
    """Do the steps from number `first` on anew; what is `kept` stands before them and stays."""

    task: Task
    kept: str
    rest: str
    first: int
    failing: tuple[str, ...]
    critique: Critique


@dataclass(frozen=True, slots=True)
class Vote:
    """Say which of several answers to a task are the same."""

    task: Task
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contradict:
    """Say where a draft and independent answers (question, answer) contradict each other."""

    task: Task
    draft: str
    answered: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan how to reach the task's goal, of which at most so many steps are carried out."""

    task: Task
    most: int


@dataclass(frozen=True, slots=True)
class Do:
    """Carry out one step that names no tool."""

    task: Task
    step: PlannedStep
    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class Replan:
    """Say whether the goal is met, and what remains to be done after the last observation."""

    task: Task
    remaining: tuple[PlannedStep, ...]
    observations: tuple[Observation, ...]
    most: int


@dataclass(frozen=True, slots=True)
class Derive:
    """Write a further text, as ordered, from a finished one."""

    task: Task
    draft: str
    order: str


@dataclass(frozen=True, slots=True)
class Compare:
    """Say which of two texts does better what the task asks, blind as in judging one."""

    task: Task
    a: str
    b: str


PromptRequest = (
    Write
    | Judge
    | ListCriteria
    | Revise
    | Amend
    | Question
    | Answer
    | Contradict
    | Vote
    | Plan
    | Do
    | Replan
    | Compare
    | Derive
    | Reason
    | CheckSteps
    | Redo
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is sent to a language model. `schema` (JSON Schema) is set when JSON must come back."""

    name: str
    version: int
    system: str
    user: str
    schema: dict[str, object] | None = None
