"""The parts of every prompt request: the task, the plan as data, and the resulting prompt."""

import json
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, ClassVar, Self

from app.contract.calibration import Learnt
from app.contract.criteria import Critics
from app.contract.drafts import EditMode
from app.contract.judgement import Span
from app.contract.requests import ContextDocument, Criterion, Grounding, RoleInstructions
from app.contract.tools import Tool
from app.contract.values import value
from app.contract.versions import ENGINE_VERSION
from workers.engine.marks import asking_for

IN_WORDS = "in_words"
"""Metadata of a field that says in words what other fields hold: no part of the step's hash."""


@value(slots=True)
class PlannedStep:
    """One step of a plan; without a tool, a model carries out the instruction."""

    instruction: str
    name: str = ""
    tool: str | None = None
    arguments: Mapping[str, Any] | None = None
    needs: tuple[int, ...] = ()
    """Positions, from 0, of the remaining steps of the same plan whose results it needs."""

    @property
    def is_open(self) -> bool:
        """Whether it calls a tool with arguments that its needs have to be observed for."""
        return self.tool is not None and self.arguments is None

    @property
    def title(self) -> str:
        """The name of the step, else its instruction, at most 80 characters."""
        return (self.name or self.instruction)[:80]

    @property
    def call(self) -> str | None:
        """The call in canonical form: equal calls have equal texts.

        None without a tool, and while the arguments are open.
        """
        has_call = self.tool is not None and self.arguments is not None
        return f"{self.tool} {canonical(self.arguments)}" if has_call else None


@value(slots=True)
class Observation:
    """The result of the step with that number; `ok` is false when its tool failed."""

    number: int
    step: PlannedStep
    ok: bool
    text: str


@value(slots=True)
class Revision:
    """A revised plan: the steps that remain, and whether the goal is met already.

    `unproven` says why a claim that it is met does not count.
    """

    steps: tuple[PlannedStep, ...]
    is_met: bool = False
    unproven: str | None = None


def canonical(arguments: Mapping[str, Any] | None) -> str:
    """Return arguments as JSON with sorted names."""
    return json.dumps(arguments or {}, ensure_ascii=False, sort_keys=True)


@value(slots=True)
class Place:
    """Where a part stands in a larger text: its number, from 1, and the titles of all parts."""

    number: int
    titles: tuple[str, ...]
    before: str = ""
    """The text that stands before it, or its end, if there is one."""
    is_open: bool = False
    """Whether how many parts there will be is open; then the titles are those before it."""


@value(slots=True)
class JsonDocument:
    """A text that is one JSON object: a strict schema of it, and what else is checked, in words."""

    schema: Mapping[str, Any]
    checks: tuple[str, ...] = ()


@value(slots=True)
class ValidatorScore:
    """A score that a validator gives: where it comes from, and what it counts as."""

    source: str
    criterion: Criterion
    decides: bool = False
    """Whether it is the score of the draft, whatever critics say."""


@value(slots=True)
class ItemChecks:
    """What the validators of one stage, pass or part demand of its drafts."""

    scope: str
    checks: tuple[str, ...]
    """What the validators check, in words."""
    measures: tuple[ValidatorScore, ...]
    demanding: int = 0
    """How many of them count as passed or failed."""


@value(slots=True)
class Task:
    """What the text must achieve, what it is judged on and what may be used."""

    instruction: str | None
    draft: str | None
    criteria: tuple[Criterion, ...]
    context: tuple[ContextDocument, ...] = ()
    has_validators: bool = False
    """Whether the request's validators check its drafts."""
    own: tuple[ItemChecks, ...] = ()
    """The validators of the stage, pass or part that it is, beside those of the request."""
    scope: str = ""
    """What the scopes of items within it begin with."""
    is_clients_draft: bool = True
    """False for a draft that an earlier part of the strategy made."""
    demanding: int = 0
    """How many validators count as passed or failed: neither those that only warn nor those that
    give a score."""
    measures: tuple[ValidatorScore, ...] = ()
    """The scores that validators give."""
    schemas: tuple[Mapping[str, Any] | bool, ...] = ()
    """JSON Schemas that the draft must satisfy."""
    tools: tuple[Tool, ...] = ()
    """What a plan may call."""
    feedback: str | None = None
    """What is to change in the client's draft before one is judged."""
    spans: tuple[Span, ...] = ()
    """The passages of the client's draft that alone may change; empty if all may."""
    critics: Critics = Critics()
    """Who judges every draft."""
    edits: EditMode = "full"
    """How a draft is revised."""
    locked: tuple[str, ...] = ()
    """Texts of the client's draft that every draft must keep, character for character."""
    is_reviewed: bool = False
    """Whether a reviewer sees every draft of the outermost search."""
    engine_version: int = ENGINE_VERSION
    """The version of the engine that plays it; code that two versions do differently reads it."""
    nonce: str | None = None
    """The number in the tags around texts; None for refinements that were submitted without one."""
    grounding: Grounding = "context"
    """Which facts may be used."""
    instructions: RoleInstructions = RoleInstructions()
    """The house style of each role."""
    checks: tuple[str, ...] = ()
    """What the validators check, in words."""
    whole: JsonDocument | None = None
    """What the whole text is, if the format of a reply can demand it."""
    part: tuple[str, ...] = ()
    """What this part of the work is about, the whole first; empty for the whole text."""
    place: Place | None = None
    """Where the text stands, if it is a part of a larger one."""
    avoids: tuple[str, ...] = ()
    """What was wrong with the texts before a draft that is written anew."""
    accepted: frozenset[str] = frozenset()
    """Codes of caveats that do not keep a draft from passing."""
    is_sampled: bool = False
    """Whether the same is asked for several times, so that the texts should differ."""
    learnt: Learnt | None = None
    """What scores of ended refinements of this kind taught, as it was when this one began."""
    is_exact: bool = False
    """Whether the critic gives equal texts equal scores and measures without noise."""
    shared_texts: dict[bool, str] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """What prompts begin with, with the aim and without it, once one was put into words."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """Whose validators check its drafts: the path of an item, and `` for the request."""
        return (*([""] if self.has_validators else []), *[checks.scope for checks in self.own])

    @property
    def counted(self) -> tuple[ValidatorScore, ...]:
        """The scores of validators that check its drafts."""
        own = [measure for checks in self.own for measure in checks.measures]
        return (*(self.measures if self.has_validators else ()), *own)

    @property
    def demanded(self) -> int:
        """How many validators that check its drafts count as passed or failed."""
        return self.demanding * self.has_validators + sum(checks.demanding for checks in self.own)

    @property
    def document(self) -> JsonDocument | None:
        """What a draft must be; None for a part, and for a text on the way to the whole."""
        return self.whole if self.has_validators and self.place is None else None


RETRY = 0.7
"""The temperature of another try, where that of the first is 0."""


@value(slots=True)
class Prompt:
    """What is sent to a language model. `schema` (JSON Schema) is set if the reply must be JSON."""

    name: str
    version: int
    system: str
    user: str
    schema: dict[str, object] | None = None
    is_document: bool = False
    """Whether the JSON is the text itself, so that the words do not say what the schema says."""
    shared: int = 0
    """Characters at the start of `user` that, after the same `system`, are the same in every call
    about the same task, context and criteria: worth caching."""
    temperature: float | None = None
    """The temperature of this kind of call, unless the client names one; None is the model's."""
    mark: str | None = None
    """The number of the marks between which the reply has its text; None if it has none."""

    @property
    def asks_for_text(self) -> bool:
        """Whether the reply is a text, not an object about one."""
        return self.schema is None or self.is_document

    def repeated(self, correction: str) -> Self:
        """Return the prompt of another try: the correction stands at its end, and then the marks.

        At temperature 0 a model that repeats itself until it is cut off would do so again.
        """
        temperature = RETRY if self.temperature == 0 else self.temperature
        user = f"{self.user}\n\n{correction}"
        if self.mark is not None:
            user += f"\n\n{asking_for('it', self.mark)}"
        return replace(self, user=user, temperature=temperature)


@value(slots=True)
class PromptRequest:
    """What a model is asked to do about a task, as data; `prompt` puts it into words.

    It is no `ABC`, as its type is looked at several times per call and those take longer.
    """

    task: Task
    revises: ClassVar[bool] = False
    """Whether the text that it asks for takes the place of its `draft`."""

    def prompt(self) -> Prompt:
        """Return the prompt. Other words need a new version; recorded replies keep theirs."""
        raise NotImplementedError
