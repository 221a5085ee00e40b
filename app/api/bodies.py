"""A request body becomes a contract, or an InvalidRequest that points at what is wrong.

RFC 8259 in UTF-8 and nothing else: no NaN, no infinity, no lone surrogate, at most 200 levels. Of
two equal keys the last counts. Types are not converted: "3" is no number.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Generic, TypeVar

from fastapi import Request
from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json

from app.api.refusals import UnsupportedMediaType
from app.contract.errors import FieldError, InvalidRequest
from app.contract.model import Contract

MAX_ERRORS = 50
MAX_DETAIL = 500

C = TypeVar("C", bound=Contract)


@dataclass(frozen=True, slots=True)
class Body(Generic[C]):
    """A body that was understood, and the SHA-256 (hex) of its bytes."""

    content: C
    sha256: str


def body_of(contract: type[C]) -> Callable[[Request], Awaitable[Body[C]]]:
    """Return a dependency that reads a body as `contract`."""

    async def read(request: Request) -> Body[C]:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json" and not (
            media_type.startswith("application/") and media_type.endswith("+json")
        ):
            raise UnsupportedMediaType("send the body as Content-Type: application/json")
        raw = await request.body()
        return Body(parsed(contract, raw), sha256(raw).hexdigest())

    return read


def parsed(contract: type[C], raw: bytes) -> C:
    """Return the body as `contract`, else raise InvalidRequest."""
    tree = _json_of(raw)
    try:
        return contract.model_validate_json(raw, strict=True)
    except ValidationError as invalid:
        told = invalid.errors(include_url=False, include_input=False)
        wrong = [error for error in told if error["type"] != "default_factory_not_called"]
        errors = tuple(_field_error(error, tree) for error in wrong[:MAX_ERRORS])
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        where = f"{errors[0].pointer}: " if errors[0].pointer else ""
        raise InvalidRequest(f"{where}{errors[0].detail}{more}", errors=errors) from None


def _json_of(raw: bytes) -> Any:
    try:
        return from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        why = str(error) if raw.strip() else "it is empty; send an object, such as {}"
        detail = f"the body is not JSON: {why}"
        raise InvalidRequest(detail, errors=(FieldError(pointer="", detail=detail),)) from None


def _field_error(error: ErrorDetails, tree: Any) -> FieldError:
    detail = error["msg"].removeprefix("Value error, ")
    return FieldError(
        pointer=_pointer(error["loc"], tree, is_missing=error["type"] == "missing")
        + getattr(error.get("ctx", {}).get("error"), "pointer", ""),
        detail=detail if len(detail) <= MAX_DETAIL else f"{detail[:MAX_DETAIL]}...",
    )


def _pointer(loc: tuple[int | str, ...], tree: Any, *, is_missing: bool) -> str:
    """Follow `loc` through the body; parts that name a type and no place are left out."""
    pointer = ""
    for depth, part in enumerate(loc, start=1):
        is_there = part in tree if isinstance(tree, dict) else _is_index(part, tree)
        if is_there:
            tree = tree[part]
        elif not (is_missing and depth == len(loc)):
            continue
        pointer += "/" + str(part).replace("~", "~0").replace("/", "~1")
    return pointer


def _is_index(part: int | str, tree: Any) -> bool:
    return isinstance(tree, list) and isinstance(part, int) and part < len(tree)
