"""Presets: named defaults of a tenant for the fields of requests."""

from collections.abc import Iterator
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, create_model, model_serializer
from pydantic_core import PydanticUndefined

from app.contract import Contract
from app.contract.requests import PresetName, RefinementRequest

OF_ONE_REQUEST = ("draft", "feedback", "spans", "locked", "start_after", "deadline", "preset")
"""Fields that no preset has."""


class _PresetFields(Contract):
    """Fields of requests, none of them required."""

    def given(self) -> dict[str, Any]:
        """Return the fields that it has, by name."""
        names = self.model_fields_set
        return {it: value for it in names if (value := getattr(self, it)) is not None}

    def secrets(self) -> dict[str, str]:
        """Return what is secret in it, by JSON Pointer."""
        return RefinementRequest.model_construct(**self.given()).secrets()

    @model_serializer(mode="wrap")
    def _without_absent(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: it for name, it in serialize(self).items() if it is not None}


def _optional() -> Iterator[tuple[str, Any]]:
    for name, field in RefinementRequest.model_fields.items():
        if name not in OF_ONE_REQUEST:
            required = copy(field)
            required.default, required.default_factory = PydanticUndefined, None
            yield name, (Annotated[field.annotation, required] | None, None)


if TYPE_CHECKING:

    class PresetRequest(_PresetFields): ...

else:
    PresetRequest = create_model(
        "PresetRequest",
        __base__=_PresetFields,
        __doc__="Defaults for the fields of requests. A field that is null or omitted has none.",
        **dict(_optional()),
    )


class Preset(Contract):
    """Named defaults of a tenant."""

    name: PresetName
    updated_at: datetime
    request: PresetRequest = Field(description="What it fills in; secrets are masked.")


class PresetList(Contract):
    """The presets of a tenant, by name."""

    data: tuple[Preset, ...]
