"""From JSON to data classes; fields of a newer server that they do not have are left out."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any, TypeVar

Decoded = TypeVar("Decoded")


def decode(kind: type[Decoded], value: Any) -> Decoded:
    """Return the value as `kind`. What a server of another release leaves out is None."""
    return typing.cast("Decoded", _as(kind, value))


def _as(kind: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, value)
    if isinstance(value, list) and origin is list:
        return [_as(arguments[0], it) for it in value]
    if isinstance(value, dict) and origin is dict:
        return {name: _as(arguments[1], it) for name, it in value.items()}
    if isinstance(value, dict) and dataclasses.is_dataclass(kind):
        return _object(kind, value)
    return value


def _object(kind: Any, value: dict[str, Any]) -> Any:
    return kind(**{name: _as(it, value.get(name)) for name, it in _fields(kind).items()})


def _one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, dict):
        lists = [it for it in kinds if typing.get_origin(it) is list]
        return _as(lists[0], value) if isinstance(value, list) and lists else value
    classes: list[Any] = [it for it in kinds if dataclasses.is_dataclass(it)]
    fitting = [it for it in classes if _fits(it, value)]
    if fitting:
        return _as(max(fitting, key=lambda it: len(_fields(it).keys() & value.keys())), value)
    mappings = [it for it in kinds if typing.get_origin(it) is dict]
    return _as(mappings[0], value) if mappings else value


def _fits(kind: Any, value: dict[str, Any]) -> bool:
    """Return whether the tags of a class, fields with one literal, are those of the value."""
    tags = {
        name: typing.get_args(it)
        for name, it in _fields(kind).items()
        if typing.get_origin(it) is typing.Literal
    }
    return all(len(allowed) > 1 or value.get(name) in allowed for name, allowed in tags.items())


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)
