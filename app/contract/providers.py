"""The providers of models: what each can do, and what its models cost.

Prices stand in `prices.json` with their source and the day they were read. A price that is not
there is unknown: None, never 0.
"""

import pkgutil
import re
from collections.abc import Collection
from functools import cache
from typing import Literal

from pydantic import Field

from app.contract import Contract

DATED = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")
"""The end of a snapshot's name, such as `gpt-5-mini-2025-08-07`; it costs what its model costs."""


class Provider(Contract):
    """Who serves a model, the part of its name before the colon."""

    name: str
    wire: Literal["editor", "scripted", "openai", "anthropic"] = Field(
        description="How it is spoken to."
    )
    models: tuple[str, ...] = Field((), description="The only names it knows; empty: any.")
    needs_network: bool
    needs_key: bool = Field(description="Its own server refuses calls without a key.")
    writes: bool = Field(description="Can write a text from a task alone.")
    json_output: Literal["always", "asked_for"] = Field(
        description="Whether JSON asked for is always JSON, or asked of server and prompt."
    )
    costs: bool = Field(description="Whether calls may cost money.")

    def serves(self, model: str) -> bool:
        """Return whether it knows a model of that name, the part after the colon."""
        return bool(model) and (not self.models or model in self.models)


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


PROVIDERS: tuple[Provider, ...] = (
    Provider(
        name="offline",
        wire="editor",
        models=("editor",),
        needs_network=False,
        needs_key=False,
        writes=False,
        json_output="always",
        costs=False,
    ),
    Provider(
        name="scripted",
        wire="scripted",
        needs_network=False,
        needs_key=False,
        writes=True,
        json_output="always",
        costs=False,
    ),
    Provider(
        name="openai",
        wire="openai",
        needs_network=True,
        needs_key=True,
        writes=True,
        json_output="asked_for",
        costs=True,
    ),
    Provider(
        name="anthropic",
        wire="anthropic",
        needs_network=True,
        needs_key=True,
        writes=True,
        json_output="asked_for",
        costs=True,
    ),
)

BY_NAME = {provider.name: provider for provider in PROVIDERS}


def provider_of(model: str, named: Collection[str] = ()) -> Provider | None:
    """Return who serves `provider:name`, or None when nobody does.

    `named` are the names of the servers that settings add; each speaks OpenAI's chat completions.
    """
    name, _, rest = model.partition(":")
    if name in named:
        return BY_NAME["openai"].model_copy(update={"name": name, "needs_key": False})
    provider = BY_NAME.get(name)
    return provider if provider and provider.serves(rest) else None


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
