"""Which model plays which role, how it is called, and who stands in for it."""

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


class ModelChoice(Contract):
    """A model for one role, how to call it, and who stands in for it."""

    model: ModelName
    temperature: float | None = Field(None, ge=0, le=2)
    max_output_tokens: int = Field(4_096, ge=1, le=200_000)
    fallbacks: tuple[ModelName, ...] = Field(
        (),
        max_length=5,
        description="Models asked in this order, within the same step and with the same settings,"
        " when the one before could not be reached, refused the call or could not be read.",
    )

    @model_validator(mode="after")
    def _names_a_model_once(self) -> Self:
        if len(set(self.names())) < len(self.names()):
            raise ValueError("fallbacks are other models than `model`, each named once")
        return self

    def names(self) -> tuple[ModelName, ...]:
        """Return every model that may be asked, in that order."""
        return (self.model, *self.fallbacks)


def _form(given: Any) -> str:
    return "choice" if isinstance(given, dict | ModelChoice) else "name"


ModelSpec = Annotated[
    Annotated[ModelName, Tag("name")] | Annotated[ModelChoice, Tag("choice")], Discriminator(_form)
]
"""A model by its name, or with how to call it: what is wrong is said of the form that was given."""


class Models(Contract):
    """Which model plays which role; a role left out uses the server's default model."""

    generator: ModelSpec | None = None
    critic: ModelSpec | None = None
    select: Literal["auto"] | None = Field(
        None,
        description="`auto`: the generator is drawn among `candidates`, by what each has achieved"
        " per dollar in this tenant's refinements that were drawn so.",
    )
    candidates: tuple[ModelName, ...] = Field((), max_length=10)

    @model_validator(mode="after")
    def _selects_among_candidates(self) -> Self:
        if (self.select is None) != (not self.candidates):
            raise ValueError("`select` and `candidates` are given together, or neither")
        if len(set(self.candidates)) < max(len(self.candidates), 2 if self.select else 0):
            raise ValueError("a generator is selected among 2 to 10 different candidates")
        if self.select and self.generator:
            raise ValueError("a generator that is selected cannot be named as well")
        return self
