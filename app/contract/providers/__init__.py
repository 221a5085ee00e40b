"""The providers of models: how each is reached, what it can do, and what its models cost.

A provider is declared in a module of this package, as a `Provider` at its top level. The settings
that hold its address and key, what is offered, what is admitted and what a worker calls follow
from that.

Prices stand in `prices.json` with their source and the day they were read. A price that is not
there is unknown: None, never 0.
"""

import pkgutil
import re
from collections.abc import Collection, Iterator
from functools import cache
from importlib import import_module
from typing import Self

from pydantic import Field, model_validator

from app.contract import Contract

DATED = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")
"""The end of a snapshot's name, such as `gpt-5-mini-2025-08-07`; it costs what its model costs."""


class Provider(Contract):
    """Who serves a model, the part of its name before the colon."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    wire: str | None = Field(
        None,
        description="The module of `workers/models` that speaks its wire format; None: its models"
        " run in the worker itself.",
    )
    base_url: str | None = Field(None, description="Its own server, where settings name no other.")
    address: str = Field("", description="What the setting of its address means.")
    needs_key: bool = Field(False, description="Its own server refuses calls without a key.")
    models: tuple[str, ...] = Field((), description="The only names it knows; empty: any.")
    writes: bool = Field(True, description="Can write a text from a task alone.")
    costs: bool = Field(True, description="Whether calls may cost money.")
    is_offered: bool = Field(True, description="Shown to clients; else it is for tests.")

    @model_validator(mode="after")
    def _is_reached_by_both_or_neither(self) -> Self:
        if (self.wire is None) != (self.base_url is None):
            raise ValueError("a provider has a wire format and a base URL, or neither")
        return self

    def serves(self, model: str) -> bool:
        """Return whether it knows a model of that name, the part after the colon."""
        return bool(model) and (not self.models or model in self.models)

    def forms(self) -> tuple[str, ...]:
        """Return what its models are called: every name, or how a name is made."""
        return tuple(f"{self.name}:{model}" for model in self.models or ("NAME",))

    @property
    def base_url_setting(self) -> str:
        """The setting of its address; the variable is HONE_ and this in capitals."""
        return f"{self.name}_base_url"

    @property
    def api_key_setting(self) -> str:
        """The setting of its key."""
        return f"{self.name}_api_key"

    @property
    def key_variable(self) -> str:
        """The variable that its own clients read the key from as well."""
        return self.api_key_setting.upper()


class Band(Contract):
    """US dollars per million tokens for a call with at most that many input tokens."""

    up_to_input_tokens: int | None = None
    input: float = Field(ge=0)
    output: float = Field(ge=0)


class Price(Contract):
    """What a model costs: the first band that a call fits decides; none fits: unknown."""

    source: str = Field(description="Name of the source in the price list.")
    bands: tuple[Band, ...] = Field(min_length=1)

    def cost_usd(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return the US dollars of one call, or None when no band holds so much input."""
        for band in self.bands:
            if band.up_to_input_tokens is None or input_tokens <= band.up_to_input_tokens:
                return (input_tokens * band.input + output_tokens * band.output) / 1_000_000
        return None


class PriceList(Contract):
    """The data file; `sources` are addresses by name, models are named `provider:model`."""

    unit: str
    read: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="When the sources were read.")
    sources: dict[str, str]
    models: dict[str, Price]


def _declared() -> Iterator[Provider]:
    """Yield the providers, module by module, in the order of the alphabet."""
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        module = import_module(f"{__name__}.{name}")
        yield from (each for each in vars(module).values() if isinstance(each, Provider))


PROVIDERS: tuple[Provider, ...] = tuple(_declared())
"""Every provider that is declared; settings may add servers that speak OpenAI's format."""

BY_NAME = {provider.name: provider for provider in PROVIDERS}
if len(BY_NAME) < len(PROVIDERS):
    raise TypeError(f"a provider is declared twice: {[provider.name for provider in PROVIDERS]}")


def provider_of(model: str, named: Collection[str] = ()) -> Provider | None:
    """Return who serves `provider:name`, or None for an unknown model.

    `named` are the names of the servers that settings add; each speaks OpenAI's chat completions.
    """
    name, _, rest = model.partition(":")
    if name in named:
        return added(name)
    provider = BY_NAME.get(name)
    return provider if provider and provider.serves(rest) else None


def added(name: str) -> Provider:
    """Return the provider behind a server that settings add under a name of their own."""
    return BY_NAME["openai"].model_copy(update={"name": name, "needs_key": False})


@cache
def price_list() -> PriceList:
    """Return the data file, read once."""
    return PriceList.model_validate_json(pkgutil.get_data(__package__, "prices.json") or b"")


def price_of(model: str) -> Price | None:
    """Return what `provider:name` costs, or None when that is unknown."""
    prices = price_list().models
    return prices.get(model) or prices.get(DATED.sub("", model))


def cost_usd(model: str, input_tokens: int, output_tokens: int) -> float | None:
    """Return the US dollars of one call, 0.0 where calls cost nothing, None where unknown."""
    provider = provider_of(model)
    if provider and not provider.costs:
        return 0.0
    price = price_of(model)
    return price.cost_usd(input_tokens, output_tokens) if price else None
