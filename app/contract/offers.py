"""What a server offers: strategies, validators and models, each with its JSON Schema."""

from typing import Any, Literal

from pydantic import Field

from app.contract import Contract
from app.contract.providers import Band


class Offer(Contract):
    """One kind of strategy or validator, as a request names it."""

    kind: str
    description: str
    defaults: dict[str, Any] = Field(description="What a field that is left out stands for.")
    schema_: dict[str, Any] = Field(alias="schema", description="JSON Schema of the object.")


class OfferList(Contract):
    """Everything of one kind that this server offers."""

    data: tuple[Offer, ...]


class PricedModel(Contract):
    """A model whose price is known: the first band that a call fits decides."""

    model: str
    bands: tuple[Band, ...] = Field(description="US dollars per million tokens.")


class ModelOffer(Contract):
    """Models of one provider, named `provider:name`."""

    provider: str
    configured: bool = Field(description="It can be called; else `missing` says what to set.")
    missing: str | None
    writes: bool = Field(description="It can write a text from a task alone.")
    names: tuple[str, ...] = Field(description="The only names there are; empty: any.")
    priced: tuple[PricedModel, ...]
    defaults: dict[str, Any]
    schema_: dict[str, Any] = Field(alias="schema", description="JSON Schema of a choice of model.")


class ModelList(Contract):
    """Every provider this server knows, and the model of a role that names none."""

    default: str
    data: tuple[ModelOffer, ...]


class Health(Contract):
    """The process is up."""

    status: Literal["ok"] = "ok"


class Readiness(Contract):
    """Redis answers. A warning is no failure: what is submitted waits."""

    status: Literal["ready"] = "ready"
    workers: int = Field(ge=0, description="Workers that gave a sign of life lately.")
    warnings: tuple[str, ...]
