"""What a server offers: strategies, validators and models, each with its JSON Schema."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from app.contract import Contract
from app.contract.providers import Band
from app.contract.waiting import WaitReason


class Offer(Contract):
    """One kind of strategy or validator, as a request names it."""

    kind: str
    description: str
    defaults: dict[str, Any] = Field(description="Default values of the optional fields.")
    schema_: dict[str, Any] = Field(alias="schema", description="JSON Schema of the object.")


class OfferList(Contract):
    """All strategies, or all validators, that this server offers."""

    data: tuple[Offer, ...]


class PricedModel(Contract):
    """A model with a known price: the first band that a call fits into applies."""

    model: str
    bands: tuple[Band, ...] = Field(description="US dollars per million tokens.")


class OpenBreaker(Contract):
    """The reason for which no calls are made now; single calls probe whether they work again."""

    reason: WaitReason
    detail: str
    since: datetime
    next_probe_at: datetime
    probes: int = Field(ge=0, description="Calls that tried since then.")


class ModelLimit(Contract):
    """The caps of a model by settings, and its limits as workers learnt them in the last hour."""

    name: str = Field(
        description="`provider:name`, `provider` for all its models together, or `provider:*` for"
        " every one of them by itself."
    )
    caps: dict[str, float] | None = Field(
        None, description="Caps by `HONE_LIMITS`: requests and tokens a minute, calls in flight."
    )
    calls_per_s: float | None = Field(
        None, description="Calls a second that all workers together make at most, while limited."
    )
    in_flight: int = Field(0, ge=0, description="Calls in progress at the last report of workers.")
    paused_until: datetime | None = Field(
        None, description="When the next call is made after one that was refused by a limit."
    )
    breaker: OpenBreaker | None = None


class ModelOffer(Contract):
    """Models of one provider, named `provider:name`."""

    provider: str
    missing: str | None = Field(description="Why it cannot be called; null if it can.")
    writes: bool = Field(description="Whether it can write a text from a task alone.")
    names: tuple[str, ...] = Field(description="All its model names; empty if any name is valid.")
    priced: tuple[PricedModel, ...]
    limits: tuple[ModelLimit, ...] = Field(
        (),
        description="Models with caps, a limit or an open breaker; empty: all calls are made.",
    )
    defaults: dict[str, Any]
    schema_: dict[str, Any] = Field(alias="schema", description="JSON Schema of a model choice.")


class ModelList(Contract):
    """All providers of this server, and the default model of every role."""

    default: str
    data: tuple[ModelOffer, ...]


class Health(Contract):
    """The process is up."""

    status: Literal["ok"] = "ok"


class Readiness(Contract):
    """Redis responds. A warning is not a failure: submitted refinements wait."""

    status: Literal["ready"] = "ready"
    workers: int = Field(ge=0, description="Workers with a recent heartbeat.")
    waiting: int = Field(0, ge=0, description="Refinements of all tenants that wait for a worker.")
    warnings: tuple[str, ...]
