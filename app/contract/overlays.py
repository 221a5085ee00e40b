"""Partial requests, and how they lie over one another: presets, batches, continuations.

A field of the upper request replaces that of the lower one as a whole; nothing is merged within a
field. `null` is a value like any other, in the fields that may have it: it takes away what the
lower request has. A field that neither has gets the default of the server.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import TYPE_CHECKING, Any

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    create_model,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, from_json, to_json

from app.contract import Contract
from app.contract.endpoints import REVEALED
from app.contract.errors import FieldConflict, FieldError, InvalidRequest, pointer_to
from app.contract.invalid_values import sentence_of
from app.contract.requests import PRESET_NAME, PresetName, RefinementRequest
from app.contract.strategies import STRATEGIES

OF_ONE_REQUEST = ("draft", "feedback", "spans", "locked", "start_after", "deadline", "preset")
"""Fields that no preset has."""

OF_THE_PARENT = ("draft", "preset")
"""Fields that no continuation changes: the draft is that of an iteration."""


class _RequestFields(Contract):
    """Fields of a request, none of them required."""

    def fields(self) -> dict[str, Any]:
        """Return the fields that it has as JSON, secrets included."""
        found: dict[str, Any] = from_json(self.model_dump_json(by_alias=True, context=REVEALED))
        return found

    def secrets(self) -> dict[str, str]:
        """Return what is secret in it, by JSON Pointer."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return RefinementRequest.model_construct(**given).secrets()

    def require_without(self, names: Collection[str], detail: str) -> None:
        """Raise InvalidRequest if it has one of the fields `names`; `detail` says why."""
        given = [name for name in names if name in self.model_fields_set]
        if given:
            errors = (FieldError(pointer=pointer_to(name), detail=detail) for name in given)
            raise InvalidRequest.at(*errors)

    @model_serializer(mode="wrap")
    def _given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {
            name: value for name, value in serialize(self).items() if name in self.model_fields_set
        }

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of a request, which requires no field either."""
        return handler(RefinementRequest.__pydantic_core_schema__)


if TYPE_CHECKING:

    class PartialRequest(_RequestFields, RefinementRequest): ...

else:
    PartialRequest = create_model(
        "PartialRequest",
        __base__=_RequestFields,
        __doc__=_RequestFields.__doc__,
        **{
            name: (field.annotation, field)
            for name, field in RefinementRequest.model_fields.items()
        },
    )


@dataclass(frozen=True, slots=True)
class RequestLayer:
    """The fields of one request as JSON, and what they are fields of; None: the client's body."""

    fields: Mapping[str, Any]
    source: str | None = None


class Overlay:
    """A request made of several, the lowest first."""

    def __init__(self, *layers: RequestLayer) -> None:
        self._of = {name: layer for layer in layers for name in layer.fields}

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the whole request, each of the uppermost layer that has it."""
        return {name: layer.fields[name] for name, layer in self._of.items()}

    def request(self) -> RefinementRequest:
        """Return the whole request; raise InvalidRequest for fields that do not go together."""
        try:
            return RefinementRequest.model_validate_json(to_json(self.fields))
        except ValidationError as invalid:
            error = invalid.errors()[0]
            conflict = error.get("ctx", {}).get("error")
            pointer = conflict.pointer if isinstance(conflict, FieldConflict) else ""
            wrong = FieldError(pointer=pointer, detail=sentence_of(error))
        raise self.blamed(InvalidRequest.at(wrong))

    def blamed(self, error: InvalidRequest) -> InvalidRequest:
        """Return an error of the whole request; it says which lower layer has a wrong field."""
        errors = tuple(map(self._traced, error.errors))
        return error if errors == error.errors else InvalidRequest.at(*errors)

    def _traced(self, error: FieldError) -> FieldError:
        layer = self._of.get(error.pointer.split("/", 2)[1] if error.pointer else "")
        if layer is None or layer.source is None:
            return error
        detail = f"{error.detail} (a field of {layer.source})"
        return error.model_copy(update={"detail": detail})


TEXTS: Sequence[Mapping[str, Any]] = (
    {"task": "A text."},
    {"draft": "1. A text."},
    {"task": "A text.", "draft": "1. A text."},
)
"""What a request has at least; which of it is needed depends on the strategy."""

LENGTH = {"validators": [{"kind": "length", "max_words": 100}]}
CALLS_TOOLS = next(kind for kind, strategy in STRATEGIES.items() if strategy.uses_tools)
ADDED: Sequence[Mapping[str, Any]] = ({}, LENGTH, LENGTH | {"strategy": {"kind": CALLS_TOOLS}})
"""What a request may add for fields that need it."""


def require_possible(fields: Mapping[str, Any]) -> None:
    """Raise InvalidRequest if every request that does not replace one of the fields is invalid."""
    refused = list[InvalidRequest]()
    for added, texts in product(ADDED, TEXTS):
        try:
            Overlay(RequestLayer(added), RequestLayer(fields), RequestLayer(texts)).request()
        except InvalidRequest as error:
            refused.append(error)
        else:
            return
    # A conflict at another field may be solved by what a request has there.
    certain = [error for error in refused if _field_of(error) in fields.keys() - {"strategy"}]
    if certain:
        details = [error.detail for error in certain]
        raise max(certain, key=lambda error: details.count(error.detail))


def _field_of(error: InvalidRequest) -> str:
    return error.errors[0].pointer.partition("/")[2].partition("/")[0]


def named_preset(fields: Mapping[str, Any]) -> str | None:
    """Return the name of the preset that a request names, if it can be one."""
    name = fields.get("preset")
    return name if isinstance(name, str) and PRESET_NAME.fullmatch(name) else None


class Preset(Contract):
    """Named defaults of a tenant."""

    name: PresetName
    updated_at: datetime
    request: PartialRequest = Field(description="What it fills in; secrets are masked.")


class PresetList(Contract):
    """The presets of a tenant, by name."""

    data: tuple[Preset, ...]
