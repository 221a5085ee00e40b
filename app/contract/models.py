"""The model of each role, the settings of its calls, and its fallbacks."""

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from app.contract import Contract

Role = Literal["generator", "critic"]
ROLES: tuple[Role, ...] = get_args(Role)

ModelName = Annotated[
    str,
    Field(
        min_length=3,
        max_length=200,
        pattern=r"^[a-z0-9_]+:.+$",
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


def _form(given: Any) -> str:
    return "choice" if isinstance(given, dict | ModelChoice) else "name"


ModelSpec = Annotated[
    Annotated[ModelName, Tag("name")] | Annotated[ModelChoice, Tag("choice")], Discriminator(_form)
]
"""A model by its name, or with the settings of its calls; errors are about the given form."""


class Models(Contract):
    """The model of each role; an omitted role uses the server's default model."""

    generator: ModelSpec | None = None
    critic: ModelSpec | None = None
    select: Literal["auto"] | None = Field(
        None,
        description="`auto`: the generator is drawn from `candidates`, by what each has achieved"
        " per dollar in this tenant's refinements with a drawn generator.",
    )
    candidates: tuple[ModelName, ...] = Field((), max_length=10)

    @model_validator(mode="after")
    def _selects_among_candidates(self) -> Self:
        if (self.select is None) != (not self.candidates):
            raise ValueError("`select` and `candidates` must be given together, or neither")
        if len(set(self.candidates)) < max(len(self.candidates), 2 if self.select else 0):
            raise ValueError("`candidates` must be 2 to 10 different models")
        if self.select and self.generator:
            raise ValueError("`generator` is not supported with `select`")
        return self
