"""The model of each seat, the settings of its calls, and its fallbacks.

A role is generator or critic. A seat is what one model is chosen for: a role, or a part of it, such
as `generator/2`, `generator/stages/outline` and `critic/NAME`.
"""

from collections.abc import Container, Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from app.contract import Contract, patterns
from app.contract.errors import FieldConflict
from app.contract.invalid_values import ONE_MODEL

Role = Literal["generator", "critic"]
ROLES: tuple[Role, ...] = get_args(Role)
GENERATOR = "generator"

ModelName = Annotated[
    str,
    Field(
        min_length=3,
        max_length=200,
        pattern=patterns.MODEL.regex,
        description="`provider:name`, such as `openai:gpt-5-mini` or `offline:editor`.",
    ),
]


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[ReasoningEffort, ...] = get_args(ReasoningEffort)
"""From no thinking at all to as much as the model can."""


class ModelChoice(Contract):
    """A model for one role, the settings of its calls, and its fallbacks."""

    model: ModelName
    temperature: float | None = Field(None, ge=0, le=2)
    max_output_tokens: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Maximum output tokens of one call, thinking included. By default it follows"
        " the text: what a reply of the expected length takes, with room for thinking, up to what"
        " the model can give.",
    )
    reasoning_effort: ReasoningEffort | None = Field(
        None,
        description="How much the model thinks before it answers, in its provider's terms; by"
        " default the provider's. A model that does not know a level gets the next higher one, a"
        " model that does not think none.",
    )
    fallbacks: tuple[ModelName, ...] = Field(
        (),
        max_length=5,
        description="Models called in this order, within the same step and with the same settings,"
        " if the previous one rejected the call, sent an unreadable reply, or cannot be called"
        " within `fallback_after_s`.",
    )
    fallback_after_s: float = Field(
        10,
        ge=0,
        le=86_400,
        description="Maximum seconds of a wait for a model before the next one is called instead.",
    )

    @model_validator(mode="after")
    def _names_a_model_once(self) -> Self:
        if len(set(self.names())) < len(self.names()):
            raise ValueError("fallbacks must be different from `model` and from each other")
        return self

    def names(self) -> tuple[ModelName, ...]:
        """Return every model that may be called, in that order."""
        return (self.model, *self.fallbacks)


def seat_at(seats: Container[str], seat: str, path: str) -> str:
    """Return the seat of the model that is called.

    That is `seat`, or `generator/stages/outline` if a model was drawn for the stage that the path
    is in.
    """
    of_stage = f"{seat}/{'/'.join(path.split('/', 2)[:2])}"
    return of_stage if of_stage in seats else seat


def _form(given: Any) -> str:
    if isinstance(given, list | tuple):
        return "several"
    return "choice" if isinstance(given, dict | ModelChoice) else "name"


ModelSpec = Annotated[
    Annotated[ModelName, Tag("name")] | Annotated[ModelChoice, Tag("choice")],
    Discriminator(_form, "one_model", ONE_MODEL),
]
"""A model by its name, or with the settings of its calls; errors are about the given form."""

Generators = Annotated[
    Annotated[ModelName, Tag("name")]
    | Annotated[ModelChoice, Tag("choice")]
    | Annotated[tuple[ModelSpec, ...], Field(min_length=2, max_length=4), Tag("several")],
    Discriminator(_form),
]
"""One model, or several of which the next one writes when those before it are stuck."""


ESCALATE_AFTER = 2


class Models(Contract):
    """The model of each role; an omitted role uses the server's default model."""

    generator: Generators | None = Field(
        None,
        description="A model, or with `escalate` a list of 2 to 4: the cheapest first, the"
        " strongest last.",
    )
    escalate: Literal["when_stuck"] | None = Field(
        None,
        description="With several generators: the next one revises the best draft once the one"
        " before it is stuck: no draft has passed after `escalate_after` of them, or they stand"
        " still.",
    )
    escalate_after: int = Field(
        ESCALATE_AFTER,
        ge=1,
        le=50,
        description="Judged drafts of one generator after which the next one writes.",
    )
    critic: ModelSpec | None = None
    select: Literal["auto", "gain"] | None = Field(
        None,
        description="`auto`: generator and critic are drawn from their candidates, by what each has"
        " gained per dollar in this tenant's refinements of the same kind; `gain`: by what it has"
        " gained alone, so that models without a known price can take part.",
    )
    candidates: tuple[ModelName, ...] = Field(
        (), max_length=10, description="Models that may be drawn as generator."
    )
    critic_candidates: tuple[ModelName, ...] = Field(
        (),
        max_length=10,
        description="Models that may be drawn as critic, by how far they agree with people and"
        " validators.",
    )

    @model_validator(mode="after")
    def _selects_among_candidates(self) -> Self:
        if (self.select is None) != (not self.drawn_from()):
            raise ValueError("`select` and `candidates` must be given together, or neither")
        for role, (field, candidates) in self.drawn_from().items():
            if len(set(candidates)) < max(len(candidates), 2):
                raise ValueError(f"`{field}` must be 2 to 10 different models")
            if getattr(self, role):
                raise ValueError(f"`{role}` is not supported with `{field}`")
        return self

    @model_validator(mode="after")
    def _escalates_among_several(self) -> Self:
        several = self.generator if isinstance(self.generator, tuple) else ()
        if bool(several) != (self.escalate is not None):
            raise ValueError("`escalate` and a list of generators must be given together")
        if not several and self.escalate_after != ESCALATE_AFTER:
            raise FieldConflict("/escalate_after", "`escalate_after` needs `escalate`")
        if any(spec in several[:index] for index, spec in enumerate(several)):
            raise ValueError("generators must differ in their model or its settings")
        return self

    def named(self) -> Mapping[str, tuple[str, ModelName | ModelChoice]]:
        """Return the models that are named, by seat, each after its JSON Pointer.

        The first of several generators has the seat `generator`, the next one `generator/2`.
        """
        found: dict[str, tuple[str, ModelName | ModelChoice]] = {}
        if isinstance(self.generator, tuple):
            seats = (GENERATOR, *self.later_generators())
            for index, (seat, spec) in enumerate(zip(seats, self.generator, strict=True)):
                found[seat] = f"/models/generator/{index}", spec
        elif self.generator is not None:
            found[GENERATOR] = "/models/generator", self.generator
        if self.critic is not None:
            found["critic"] = "/models/critic", self.critic
        return found

    def later_generators(self) -> tuple[str, ...]:
        """Return the seats of the generators after the first one."""
        several = self.generator if isinstance(self.generator, tuple) else ()
        return tuple(f"{GENERATOR}/{number}" for number in range(2, len(several) + 1))

    def drawn_from(self) -> Mapping[str, tuple[str, tuple[ModelName, ...]]]:
        """Return the roles whose model is drawn, each with the field of its candidates and them."""
        if not (self.candidates or self.critic_candidates):
            return {}
        named: dict[str, tuple[str, tuple[ModelName, ...]]] = {
            "generator": ("candidates", self.candidates),
            "critic": ("critic_candidates", self.critic_candidates),
        }
        return {role: candidates for role, candidates in named.items() if candidates[1]}
