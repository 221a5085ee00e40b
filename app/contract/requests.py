"""The request for a refinement."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from app.contract import Contract, Instant, patterns
from app.contract.drafts import (
    MAX_TEXT,
    Edits,
    Instructions,
    LockedText,
    PartName,
    Passages,
    sha256_of,
    spans_of,
)
from app.contract.endpoints import Endpoint
from app.contract.errors import FieldConflict
from app.contract.judgement import AUTO, QUALITY, Criteria, Criterion, Critics, Name, OnFail, Span
from app.contract.limits import Limits, MaxIterations, Stop, Threshold
from app.contract.models import Models
from app.contract.object_drafts import (
    ObjectText,
    TextOrObject,
    may_be_object,
    member_at,
    schema_of,
)
from app.contract.reviews import MAX_FEEDBACK, ReviewPlan
from app.contract.status import Blocking, Caveat
from app.contract.strategies import AnyStrategy
from app.contract.strategies.loops import DEFAULT
from app.contract.tools import Tool
from app.contract.validators import AnyValidator, Validator
from app.contract.validators.json import JsonSchemaValidator
from app.contract.webhooks import Webhook


class Output(Contract):
    """A text that is written from the final draft, such as the subject line of an e-mail."""

    name: PartName
    instructions: Annotated[Instructions, Field(min_length=1)]


Deadline = Annotated[
    Instant,
    Field(
        description="Time with an offset (RFC 3339) at which it ends with its best draft, whatever"
        " it waits for; at most 30 days from now."
    ),
]
PRESET_NAME = re.compile(patterns.PRESET_NAME.regex)
DEFAULT_PRESET = "default"
"""The preset of requests that name none, if their tenant has it."""

PresetName = Annotated[str, Field(pattern=PRESET_NAME.pattern)]
Retention = Annotated[int, Field(ge=1, le=10 * 365 * 86_400)]
StartAfter = Annotated[
    Instant,
    Field(
        description="Time with an offset (RFC 3339) before which no worker takes it; at most 30"
        " days from now. Until then it is `queued`."
    ),
]
Priority = Literal["interactive", "batch"]
PRIORITY = (
    "`batch` waits while an `interactive` one of the same tenant does; between tenants it makes no"
    " difference."
)
MetadataKey = Annotated[
    str, Field(min_length=1, max_length=64, pattern=patterns.METADATA_KEY.regex)
]
MetadataValue = Annotated[str, Field(max_length=256)]

MAX_CONTEXT = 1_000_000
MOST_VALIDATORS = 20


class ContextDocument(Contract):
    """A document that the models may use and must not contradict."""

    name: Name
    text: str = Field(max_length=MAX_CONTEXT)

    @cached_property
    def sha256(self) -> str:
        """The identity of its text; computed once, since every step may be given the document."""
        return sha256_of(self.text)


Grounding = Literal["context", "open"]


class RoleInstructions(Contract):
    """A house style for each role, in addition to the task."""

    generator: Instructions = Field("", description="How texts are to be written.")
    critic: Instructions = Field("", description="How drafts are to be judged.")


def default_grounding(context: Sequence[ContextDocument]) -> Grounding:
    """Return the default of `grounding`: facts of the context only, where context is given."""
    return "context" if context else "open"


def _grounding(given: dict[str, Any]) -> Grounding:
    return default_grounding(given.get("context", ()))


def _enough_iterations(given: dict[str, Any]) -> int:
    """Return the default of `max_iterations`: 3, or more if the strategy writes more drafts."""
    return max(3, given["strategy"].drawn_at_least() if "strategy" in given else 0)


EXCERPT = 80
"""Characters of `excerpt` at most."""


class RefinementRequest(Contract):
    """A draft to improve, or a task to write a draft for."""

    task: str | None = Field(None, min_length=1, max_length=MAX_TEXT)
    draft: TextOrObject | None = Field(
        None,
        description="A text, or a JSON object: every draft is then an object with the same members"
        " of the same types, and the result has it as `object`.",
    )
    feedback: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_FEEDBACK,
        description="What is to change in `draft`: the first revision does it, and every later one"
        " is told. The draft as it is is not judged and cannot be the result.",
    )
    spans: Passages = ()
    context: tuple[ContextDocument, ...] = Field((), max_length=32)
    grounding: Grounding = Field(
        default_factory=_grounding,
        description="`context`: drafts state only facts from task, draft and context; `open`: also"
        " what the model knows. The default is `context` if there is context, else `open`.",
    )
    instructions: RoleInstructions = RoleInstructions()
    criteria: Criteria = ()
    critics: Critics = Critics()
    strategy: AnyStrategy = DEFAULT
    threshold: Threshold = 0.85
    max_iterations: MaxIterations = Field(
        default_factory=_enough_iterations, json_schema_extra={"default": 3}
    )
    stop: Stop = Stop()
    start_after: StartAfter | None = None
    deadline: Deadline | None = None
    priority: Priority = Field("interactive", description=PRIORITY)
    locked: tuple[LockedText, ...] = Field(
        (),
        max_length=20,
        description="Passages of `draft` that every draft must keep, character for character. Of an"
        " object: JSON Pointers to members that stay as they are.",
    )
    validators: tuple[AnyValidator, ...] = Field(
        (), max_length=MOST_VALIDATORS, validate_default=True
    )
    tools: tuple[Tool, ...] = Field(
        (),
        max_length=16,
        description="Endpoints that plans may call, and questions may be looked up with.",
    )
    edits: Edits = "full"
    compare: bool = Field(
        False, description="Compare the result, blind, with the draft it started from."
    )
    outputs: tuple[Output, ...] = Field(
        (), max_length=10, description="Additional texts, written in parallel from the final draft."
    )
    models: Models = Models()
    review: ReviewPlan | None = None
    webhook: Webhook | None = None
    accept: tuple[Blocking, ...] = Field(
        (), max_length=4, description="Codes of caveats that do not keep `passed` false."
    )
    learn: bool = Field(
        True,
        description="Whether it uses what ended refinements of its kind have taught about scores,"
        " and adds to it: numbers, no texts.",
    )
    metadata: dict[MetadataKey, MetadataValue] = Field(
        {}, max_length=16, json_schema_extra={"additionalProperties": False}
    )
    store: bool = Field(
        True,
        description="With `false` all text is erased once the result was delivered, by a webhook or"
        " in a response, and 10 minutes after the end at the latest. Status, scores, usage and"
        " times stay.",
    )
    retention_s: Retention | None = Field(
        None, description="Seconds for which it is kept after its end; null: as the server says."
    )
    preset: PresetName | None = Field(
        None,
        description="Name of a preset of the tenant: it has the fields that the request does not"
        " have. Without one it is `default`, if there is a preset of that name; null: none.",
    )

    @field_validator("validators")
    @classmethod
    def _objects_keep_their_form(
        cls, given: tuple[AnyValidator, ...], info: ValidationInfo
    ) -> tuple[AnyValidator, ...]:
        """Return the validators with one of the form of a draft that is an object.

        A JSON Schema of the client's own says what the form is instead.
        """
        draft, locked = info.data.get("draft"), info.data.get("locked", ())
        own = [validator for validator in given if validator.kind == "json_schema"]
        if not isinstance(draft, ObjectText) or own:
            return given
        if len(given) == MOST_VALIDATORS:
            raise ValueError(f"a draft that is an object takes one of the {MOST_VALIDATORS}")
        form = {"kind": "json_schema", "schema": schema_of(draft.value, locked)}
        return (*given, JsonSchemaValidator.model_validate(form))

    @model_validator(mode="after")
    def _has_something_to_do(self) -> Self:
        if self.task is None and self.draft is None:
            raise ValueError("a task or a draft is required")
        for conflict in self.strategy.refused(self):
            raise conflict
        return self

    @model_validator(mode="after")
    def _starts_before_it_ends(self) -> Self:
        if self.start_after and self.deadline and self.start_after >= self.deadline:
            raise FieldConflict("/start_after", "start_after must be before the deadline")
        return self

    @model_validator(mode="after")
    def _has_iterations_enough(self) -> Self:
        needed = self.strategy.drawn_at_least()
        if self.max_iterations < needed:
            raise FieldConflict(
                "/max_iterations",
                f"max_iterations must be at least {needed}: {self.strategy.kind} writes as many"
                " drafts, and every draft counts",
            )
        return self

    @model_validator(mode="after")
    def _escalates_from_draft_to_draft(self) -> Self:
        if self.models.escalate and not self.strategy.escalates(self.max_iterations):
            raise FieldConflict(
                "/models/escalate",
                "`escalate` needs a search of at least two drafts, one revised from another:"
                f" {self.strategy.kind} has none here",
            )
        return self

    @model_validator(mode="after")
    def _locked_text_stands_in_the_draft(self) -> Self:
        if self.locked and self.draft is None:
            raise FieldConflict("/draft", "`draft` is required with `locked`")
        if isinstance(self.draft, ObjectText):
            if self.strategy.writes_anew():
                detail = f"an object can only be revised, and {self.strategy.kind} writes anew here"
                raise FieldConflict("/draft", detail)
            return self._locked_members_stand_in(self.draft.value)
        for index, text in enumerate(self.locked):
            found = (self.draft or "").count(text)
            if found != 1:
                raise FieldConflict(
                    f"/locked/{index}",
                    "the text must occur in the draft exactly once, character for character; it"
                    f" occurs {found} times",
                )
        return self

    def made_form(self) -> Validator | None:
        """Return the validator that was made of a draft that is an object, if there is one."""
        if not isinstance(self.draft, ObjectText):
            return None
        form = schema_of(self.draft.value, self.locked)
        made = (each for each in self.validators if each.json_schemas() == {"/schema": form})
        return next(made, None)

    def _locked_members_stand_in(self, value: Mapping[str, Any]) -> Self:
        if self.locked and self.made_form() is None:
            detail = "is not supported with a JSON Schema of your own: say `const` in that"
            raise FieldConflict("/locked", detail)
        for pointer, validator in self.all_validators():
            for at, schema in validator.json_schemas().items():
                if not may_be_object(schema):
                    detail = "no object satisfies it, and the draft is one"
                    raise FieldConflict(f"{pointer}{at}", detail)
        for index, pointer in enumerate(self.locked):
            if not member_at(value, pointer):
                detail = "must be the JSON Pointer of a member of the draft, such as `/price`"
                raise FieldConflict(f"/locked/{index}", detail)
        return self

    @property
    def locked_texts(self) -> tuple[LockedText, ...]:
        """The passages that every draft must keep; those of an object are in its schema."""
        return () if isinstance(self.draft, ObjectText) else self.locked

    @model_validator(mode="after")
    def _feedback_is_about_the_draft(self) -> Self:
        if self.feedback is not None and self.draft is None:
            raise FieldConflict("/draft", "`draft` is required with `feedback`")
        if self.spans and self.feedback is None:
            raise FieldConflict("/feedback", "`feedback` is required with `spans`")
        if self.spans and isinstance(self.draft, ObjectText):
            detail = "`spans` is not supported for an object: use `locked` for its other members"
            raise FieldConflict("/spans", detail)
        self.marked()
        return self

    @model_validator(mode="after")
    def _context_fits(self) -> Self:
        total = sum(len(document.text) for document in self.context)
        if total > MAX_CONTEXT:
            raise FieldConflict(
                "/context", f"context has {total} characters; at most {MAX_CONTEXT} are allowed"
            )
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for field, names in (
            ("criteria", [criterion.name for criterion in self.judged_on()]),
            ("context documents", [document.name for document in self.context]),
            ("tools", [tool.name for tool in self.tools]),
            ("outputs", [output.name for output in self.outputs]),
        ):
            if len(set(names)) < len(names):
                raise FieldConflict(f"/{field.split()[0]}", f"two {field} have the same name")
        return self

    @model_validator(mode="after")
    def _scores_of_validators_have_names_of_their_own(self) -> Self:
        taken = {criterion.name for rubric in self.rubrics() for criterion in rubric}
        for pointer, validator in self.all_validators():
            if (counts := validator.counts_as()) is None:
                continue
            if counts.name in taken:
                raise FieldConflict(
                    f"{pointer}/score/name",
                    f"two scores have the name {counts.name!r}: give this one another",
                )
            taken.add(counts.name)
        return self

    @property
    def excerpt(self) -> str:
        """Return the beginning of the draft, or else of the task, on one line."""
        beginning = (self.draft or self.task or "")[: 4 * EXCERPT]
        words = " ".join(beginning.split())
        return words if len(words) <= EXCERPT else f"{words[: EXCERPT - 1].rstrip()}…"

    def judged_on(self) -> tuple[Criterion, ...]:
        """Return the criteria, or the default criterion if there are none, or none yet."""
        listed = () if self.criteria == AUTO else self.criteria
        return listed or (QUALITY,)

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        """Return every set of criteria that a critic is asked to judge on."""
        return (self.judged_on(), *self.strategy.rubrics())

    def all_validators(self) -> Iterator[tuple[str, Validator]]:
        """Yield every validator with its JSON Pointer; stages, passes and parts come last."""
        for index, validator in enumerate(self.validators):
            yield f"/validators/{index}", validator
        for item in self.strategy.item_validators():
            for index, validator in enumerate(item.validators):
                yield f"/strategy{item.pointer}/{index}", validator

    def endpoints(self) -> Iterator[tuple[str, Endpoint]]:
        """Yield every endpoint that may be called, with its JSON Pointer."""
        for pointer, validator in self.all_validators():
            if isinstance(validator, Endpoint):
                yield pointer, validator
        yield from ((f"/tools/{index}", tool) for index, tool in enumerate(self.tools))
        if self.webhook is not None:
            yield "/webhook", self.webhook

    def secrets(self) -> dict[str, str]:
        """Return what is secret in it, by JSON Pointer."""
        return {
            at + pointer: secret
            for at, of in self.endpoints()
            for pointer, secret in of.secrets().items()
        }

    def demanding(self) -> tuple[Validator, ...]:
        """Return the validators that count: all except those that only warn."""
        return tuple(
            validator for validator in self.validators if validator.on_fail is not OnFail.WARN
        )

    def in_words(self) -> tuple[str, ...]:
        """Return what the validators demand of the text; none of those that only warn."""
        return tuple(words for validator in self.demanding() if (words := validator.in_words()))

    def caveats(self) -> Iterator[Caveat]:
        """Yield what a result lacks whatever its validators find: a verdict that can be forged."""
        for pointer, validator in self.all_validators():
            if validator.caveat:
                path = pointer.removeprefix("/").removeprefix("strategy/")
                yield Caveat(
                    code="forgeable", path=path, detail=f"{validator.kind}: {validator.caveat}"
                )

    def marked(self) -> tuple[Span, ...]:
        """Return the places of the passages that alone may change; none if the whole draft may.

        Raises FieldConflict for one that the draft does not have exactly once.
        """
        return spans_of(self.draft or "", self.spans, self.locked_texts)

    def needs_a_writer(self) -> bool:
        """Return whether a text must be written that does not exist yet."""
        return self.draft is None or self.strategy.writes_anew()

    def reviews(self) -> Iterator[tuple[str, ReviewPlan]]:
        """Yield every plan of reviews, with its JSON Pointer."""
        if self.review is not None:
            yield "/review", self.review
        yield from ((f"/strategy{pointer}", review) for pointer, review in self.strategy.reviews())

    def limits(self) -> Limits:
        """Return the limits in force at the start."""
        return Limits(
            threshold=self.threshold,
            max_iterations=self.max_iterations,
            **self.stop.model_dump(),
        )
