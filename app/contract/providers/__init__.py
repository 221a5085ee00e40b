"""The model providers: how each is reached, what it can do, and what its models cost.

A provider is declared in a module of this package, or of an entry point `providers.NAME` in the
group `hone.contract`, as a `Provider` at its top level. Settings for
its address and key, offers, admission and the calls of workers follow from the declaration.

Prices are in `prices.json`, what models can read and write in `capacities.json`, both with their
sources and the day they were read. What is missing is unknown: None, never 0.
"""

import pkgutil
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache, lru_cache
from types import ModuleType
from typing import Literal, Self

from pydantic import Field, model_validator

from app.contract import Contract
from app.contract.plugins import declarations
from app.contract.values import value

DATED = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")
"""The end of a snapshot's name, such as `gpt-5-mini-2025-08-07`; it costs what its model costs."""


class Provider(Contract):
    """A server of models; its name is the part of a model's name before the colon."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    wire: str | None = Field(
        None,
        description="The module of `workers/models` that implements its wire format; None if its"
        " models run in the worker itself.",
    )
    base_url: str | None = Field(None, description="Its own server, unless settings override it.")
    address: str = Field("", description="Description of the setting for its address.")
    needs_key: bool = Field(False, description="Whether its own server requires a key.")
    models: tuple[str, ...] = Field((), description="All its model names; empty if any is valid.")
    writes: bool = Field(True, description="Whether it can write a text from a task alone.")
    costs: bool = Field(True, description="Whether calls may cost money.")
    is_offered: bool = Field(True, description="Whether clients see it; else it is for tests.")

    @model_validator(mode="after")
    def _is_reached_by_both_or_neither(self) -> Self:
        if (self.wire is None) != (self.base_url is None):
            raise ValueError("a provider must have both a wire format and a base URL, or neither")
        if self.base_url and "needs_key" not in self.model_fields_set:
            raise ValueError(f"{self.name} must state needs_key: whether its server requires a key")
        return self

    def serves(self, model: str) -> bool:
        """Return whether it has a model of that name, the part after the colon."""
        return bool(model) and (not self.models or model in self.models)

    def forms(self) -> tuple[str, ...]:
        """Return the names of its models, or their pattern, such as `openai:NAME`."""
        return tuple(f"{self.name}:{model}" for model in self.models or ("NAME",))

    @property
    def base_url_setting(self) -> str:
        """The name of the setting for its address; the variable is HONE_ and this in capitals."""
        return f"{self.name}_base_url"

    @property
    def api_key_setting(self) -> str:
        """The name of the setting for its key."""
        return f"{self.name}_api_key"

    @property
    def key_variable(self) -> str:
        """The variable from which its own clients read the key, such as OPENAI_API_KEY."""
        return self.api_key_setting.upper()


@value(slots=True)
class TokenCount:
    """The tokens of one call. `input` includes those read from the cache and those written to it,
    `output` includes `thinking`."""

    input: int
    output: int
    cached: int = 0
    cache_written: int = 0
    thinking: int = 0


class Band(Contract):
    """US dollars per million tokens, for calls with at most `up_to_input_tokens`."""

    up_to_input_tokens: int | None = None
    input: float = Field(ge=0)
    cached_input: float | None = Field(
        None, ge=0, description="Input that is read from the provider's cache; as input if null."
    )
    cache_write: float | None = Field(
        None, ge=0, description="Input that is written to the cache; as input if null."
    )
    output: float = Field(ge=0)

    def cost_usd(self, used: TokenCount) -> float:
        """Return the US dollars of one call."""
        read = self.input if self.cached_input is None else self.cached_input
        write = self.input if self.cache_write is None else self.cache_write
        fresh = used.input - used.cached - used.cache_written
        dear = fresh * self.input + used.cached * read + used.cache_written * write
        return (dear + used.output * self.output) / 1_000_000


class Price(Contract):
    """The price of a model: the first band that a call fits into applies; without one, unknown."""

    source: str = Field(description="Name of the source in the price list.")
    cache_source: str | None = Field(
        None, description="Source of the prices of cached input; `source` if null."
    )
    bands: tuple[Band, ...] = Field(min_length=1)

    def cost_usd(self, used: TokenCount) -> float | None:
        """Return the US dollars of one call, or None if its input fits into no band."""
        for band in self.bands:
            if band.up_to_input_tokens is None or used.input <= band.up_to_input_tokens:
                return band.cost_usd(used)
        return None


FREE = Price(source="", bands=(Band(input=0, output=0),))


class PriceList(Contract):
    """The data file; `sources` are addresses by name, models are named `provider:model`."""

    unit: str
    read: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="When the sources were read.")
    sources: dict[str, str]
    models: dict[str, Price]


def _found_in(module: ModuleType) -> Iterator[tuple[str, Provider]]:
    return ((each.name, each) for each in vars(module).values() if isinstance(each, Provider))


BY_NAME: Mapping[str, Provider] = {
    name: provider for _, name, provider in declarations(__name__, __path__, "providers", _found_in)
}
"""Every declared provider; settings may add OpenAI-compatible servers."""

PROVIDERS = tuple(BY_NAME.values())


def provider_of(model: str, named: Collection[str] = ()) -> Provider | None:
    """Return the provider of `provider:name`, or None for an unknown model.

    `named` are the names of the OpenAI-compatible servers that settings add.
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
    """Return the price list; the file is read once."""
    return PriceList.model_validate_json(pkgutil.get_data(__package__, "prices.json") or b"")


@lru_cache(maxsize=1_024)
def price_of(model: str) -> Price | None:
    """Return what `provider:name` costs, `FREE` if nothing, or None when that is unknown."""
    provider = provider_of(model)
    if provider and not provider.costs:
        return FREE
    prices = price_list().models
    return prices.get(model) or prices.get(DATED.sub("", model))


def cost_usd(
    model: str, input_tokens: int, output_tokens: int, cached: int = 0, cache_written: int = 0
) -> float | None:
    """Return the US dollars of one call, 0.0 where calls cost nothing, None where unknown.

    `cached` and `cache_written` are the parts of `input_tokens` that were read from the provider's
    cache or written to it.
    """
    price = price_of(model)
    if price is None:
        return None
    return price.cost_usd(TokenCount(input_tokens, output_tokens, cached, cache_written))


class Capacity(Contract):
    """What a model can read and write in one call, in tokens."""

    source: str = Field(description="Name of the source in the list.")
    context_tokens: int = Field(ge=1, description="Input and output together.")
    max_output_tokens: int = Field(ge=1, description="Output, thinking included.")
    thinks: Literal["by_default", "on_request", "never"] = Field(
        "never", description="Whether it thinks before it answers, unless a call says otherwise."
    )
    cacheable_from: int | None = Field(
        None, ge=1, description="Shortest prefix that its provider caches when told to."
    )


class CapacityList(Contract):
    """The data file; models are named without a provider, since several serve the same model."""

    unit: str
    read: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="When the sources were read.")
    sources: dict[str, str]
    models: dict[str, Capacity]


VENDOR = re.compile(r"^(?:(?:[a-z]{2,6}\.)?(?:anthropic|openai|google)\.)")
"""What Amazon Bedrock puts in front of a model's own name, such as `us.anthropic.`."""

EDITION = re.compile(r"(?:[-@](?:\d{8}|\d{4}-\d{2}-\d{2}))?(?:-v\d+)?(?::\d+)?$")
"""What may follow a model's own name: a date, and Bedrock's version."""


@cache
def capacity_list() -> CapacityList:
    """Return the list of capacities; the file is read once."""
    found = pkgutil.get_data(__package__, "capacities.json")
    return CapacityList.model_validate_json(found or b"")


@lru_cache(maxsize=1_024)
def capacity_of(model: str) -> Capacity | None:
    """Return what `provider:name` can read and write, or None when that is unknown.

    Whoever serves a model: `openai:gpt-5-mini`, `azure:gpt-5-mini` and `litellm:openai/gpt-5-mini`
    are the same.
    """
    name = model.partition(":")[2].rpartition("/")[2]
    return capacity_list().models.get(EDITION.sub("", VENDOR.sub("", name)))
