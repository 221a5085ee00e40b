"""Bodies of requests: JSON, validated in bounded time and memory, with a pointer to each error."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import Any, Generic, TypeVar

from fastapi import Request
from pydantic import ValidationError
from pydantic_core import ErrorDetails, SchemaValidator, from_json, to_json

from app.api.problems import UnsupportedMediaType
from app.contract import Contract
from app.contract.errors import FieldError, InvalidRequest
from app.contract.invalid_values import in_one, is_of_type, sentence_of
from app.contract.object_drafts import flaws_of_draft
from app.contract.overlays import Overlay, RequestLayer, named_preset
from app.contract.requests import RefinementRequest

MAX_VALUES = 100_000
"""Values of a body: numbers, strings, lists, objects and literals, on all levels."""

MAX_MEMBERS = 1_000
"""Members of an object."""

FEW_VALUES = 1_000
"""Values of a body whose every error is looked for."""

BUILT_ERRORS = 5_000
"""Errors that are built at most: pydantic has no way to build only the first."""

MAX_ERRORS = 50
MAX_DETAIL = 500
MAX_PART = 200  # characters of a name in a pointer

C = TypeVar("C", bound=Contract)


@dataclass(frozen=True, slots=True)
class RequestBody(Generic[C]):
    """A parsed body, and the SHA-256 (hex) of its bytes."""

    content: C
    sha256: str


async def submission_in(request: Request) -> RequestBody[RefinementRequest]:
    """Return the request for a refinement in a body, laid over the preset that it names.

    Without a name that is the preset `default` of the tenant, if there is one. The hash is that of
    the body as it was sent.
    """
    state = request.scope["state"]
    presets, tenant = state["store"].presets, state["caller"].tenant
    raw = await json_body(request)
    content, digest = raw, sha256(raw).hexdigest()
    default = await presets.default_of(tenant)
    if default or b"preset" in raw or b"\\u" in raw:  # else it names none
        tree = json_in(raw)
        named = {} if default is None else {"preset": default}
        tree = named | tree if isinstance(tree, dict) else {}
        if name := named_preset(tree):
            preset = RequestLayer(await presets.fields(tenant, name), f"the preset {name}")
            request.state.overlay = overlay = Overlay(preset, RequestLayer(tree))
            content = to_json(overlay.fields)
    return RequestBody(parsed(RefinementRequest, content), digest)


def body_as(
    contract: type[C], *, is_required: bool = True
) -> Callable[[Request], Awaitable[RequestBody[C]]]:
    """Return a dependency that parses a body as `contract`; unless required, none is `{}`."""

    async def read(request: Request) -> RequestBody[C]:
        raw = await json_body(request, is_required=is_required)
        if not raw and not is_required:
            return RequestBody(contract(), sha256().hexdigest())
        return RequestBody(parsed(contract, raw), sha256(raw).hexdigest())

    return read


async def json_body(request: Request, *, is_required: bool = True) -> bytes:
    """Return the body; it must say that it is JSON, unless it is empty and not required."""
    if is_required:
        _require_json(request)
    # Request.body() would keep it for as long as the response takes, a minute with `wait`.
    raw = b"".join([part async for part in request.stream()])
    if raw and not is_required:
        _require_json(request)
    return raw


def _require_json(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise UnsupportedMediaType("Content-Type must be application/json")


def json_in(raw: bytes) -> Any:
    """Return the JSON of a body, else raise InvalidRequest; its limits are those of `parsed`."""
    if (values := value_count(raw)) > MAX_VALUES:
        raise _refusal(f"the body must have at most {MAX_VALUES} values")
    tree = _json_of(raw)
    if values > FEW_VALUES:
        _require_few_members(tree)
    for at in REQUESTS_IN:
        if isinstance(_member(tree, *at, "draft"), dict):
            _require_kept(raw, at)
    return tree


REQUESTS_IN: Sequence[Sequence[str]] = ((), ("request",), ("batch", "defaults"))
"""Where a body, or a line of a batch, has a request."""


def _member(tree: Any, *names: str) -> Any:
    for name in names:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _require_kept(raw: bytes, at: Sequence[str]) -> None:
    """Raise InvalidRequest for what reading and writing would change in a draft, an object."""
    flaws = islice(flaws_of_draft(raw.decode(), at), MAX_ERRORS)
    errors = tuple(FieldError(pointer=pointer, detail=why) for pointer, why in flaws)
    if errors:
        raise InvalidRequest.at(*errors)


def parsed(contract: type[C], raw: bytes) -> C:
    """Return the body as `contract`, else raise InvalidRequest with a pointer to each error.

    The body must be JSON (RFC 8259) in UTF-8 with at most 100,000 values on at most 200 levels, and
    1,000 members per object; NaN, infinity and lone surrogates are rejected. Of duplicate keys the
    last counts; a draft that is an object has none, and no number that would change. Types are not
    converted: "3" is not a number. In a body of more than 1,000 values, only the first wrong item
    of a list or map is reported.
    """
    tree = json_in(raw)
    try:
        content: C = _failing_fast(contract).validate_json(raw, strict=True)
        return content
    except ValidationError as invalid:
        found = _built(invalid)
    if value_count(raw) <= FEW_VALUES:
        found = _all_errors(contract, raw)
    wrong = _by_pointer(found, tree)
    errors = (
        FieldError(
            pointer=pointer,
            detail=_shortened(in_one(sentence_of(error, contract) for error in at), MAX_DETAIL),
        )
        for pointer, at in islice(wrong.items(), MAX_ERRORS)
    )
    raise InvalidRequest.at(*errors, unlisted=max(0, len(wrong) - MAX_ERRORS))


def _by_pointer(found: Sequence[ErrorDetails], tree: Any) -> Mapping[str, list[ErrorDetails]]:
    """Return what is wrong with each value, in the order of the body.

    Branches of a union that allow no object or list at all are left out where the inside of one is
    wrong.
    """
    at: dict[str, list[ErrorDetails]] = {}
    for error in _own_errors(found):
        at.setdefault(_pointer_to(error, tree), []).append(error)
    outer = {
        pointer[:end] for pointer in at for end, character in enumerate(pointer) if character == "/"
    }
    return {
        pointer: wrong
        for pointer, wrong in at.items()
        if pointer not in outer or not all(map(is_of_type, wrong))
    }


def _own_errors(found: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors that do not only follow from others, as of a list without invalid items."""
    outer = {error["loc"][:depth] for error in found for depth in range(len(error["loc"]))}
    return [
        error
        for error in found
        if error["type"] != "default_factory_not_called"
        and not (error["type"] == "too_short" and error["loc"] in outer)
    ]


def value_count(raw: bytes) -> int:
    """Return how many values the JSON has, or a higher number, in about 10 ns per byte.

    Parsed, a value takes up to 150 times its size.
    """
    values = _separators(raw)
    if values <= FEW_VALUES:
        return values
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # what is left of a quote ends a string
    if plain.count(b'"') > 4 * MAX_VALUES:  # two for a name, two for its value
        return values
    return _separators(b"".join(plain.split(b'"')[::2]))


def _separators(raw: bytes) -> int:
    return 1 + raw.count(b",") + raw.count(b"[") + raw.count(b"{")


@cache
def _failing_fast(contract: type[Contract]) -> SchemaValidator:
    """Return a validator that ends a list or map with its first wrong item."""
    # Without the last argument, the finished validators of nested models would be used.
    return SchemaValidator(_fail_fast(contract.__pydantic_core_schema__), None, False)


def _fail_fast(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_fail_fast(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):  # schemas by name, of fields or of choices
        return {name: _fail_fast(each) for name, each in schema.items()}
    changed = {
        name: each if name in ("default", "metadata", "serialization") else _fail_fast(each)
        for name, each in schema.items()
    }
    is_many = kind in ("dict", "frozenset", "list", "set", "tuple")
    return changed | {"fail_fast": True} if is_many else changed


def _all_errors(contract: type[Contract], raw: bytes) -> list[ErrorDetails]:
    try:
        contract.model_validate_json(raw, strict=True)
    except ValidationError as invalid:
        return _built(invalid)
    raise AssertionError("a body is valid or not, however many errors are looked for")


def _built(invalid: ValidationError) -> list[ErrorDetails]:
    if invalid.error_count() > BUILT_ERRORS:
        raise _refusal(f"the body has more than {BUILT_ERRORS} errors")
    return invalid.errors(include_url=False, include_input=False)


def _require_few_members(tree: Any) -> None:
    """Raise InvalidRequest for an object with too many members: each may be an error."""
    pending = deque([("", tree)])
    while pending:
        pointer, value = pending.popleft()
        if isinstance(value, dict):
            if len(value) > MAX_MEMBERS:
                raise _refusal(f"an object must have at most {MAX_MEMBERS} members", pointer)
            pending.extend(
                (f"{pointer}/{_escaped(name)}", held)
                for name, held in value.items()
                if held and isinstance(held, dict | list)
            )
        elif isinstance(value, list):
            pending.extend(
                (f"{pointer}/{index}", held)
                for index, held in enumerate(value)
                if held and isinstance(held, dict | list)
            )


def _json_of(raw: bytes) -> Any:
    try:
        return from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        why = str(error) if raw.strip() else "it is empty; send an object, such as {}"
        raise _refusal(f"the body is not JSON: {why}") from None


def _refusal(detail: str, pointer: str = "") -> InvalidRequest:
    return InvalidRequest.at(FieldError(pointer=pointer, detail=detail))


def _pointer_to(error: ErrorDetails, tree: Any) -> str:
    inside = getattr(error.get("ctx", {}).get("error"), "pointer", "")
    return _pointer(error["loc"], tree, is_missing=error["type"] == "missing") + inside


def _pointer(loc: Sequence[int | str], tree: Any, *, is_missing: bool) -> str:
    """Return the JSON Pointer of `loc` in the body; parts that name a type are left out."""
    pointer = ""
    for depth, part in enumerate(loc, start=1):
        is_there = part in tree if isinstance(tree, dict) else _is_index(part, tree)
        if is_there:
            tree = tree[part]
        elif not (is_missing and depth == len(loc)):
            continue
        pointer += f"/{_escaped(part)}"
    return pointer


def _escaped(part: int | str) -> str:
    return _shortened(str(part), MAX_PART).replace("~", "~0").replace("/", "~1")


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


def _is_index(part: int | str, tree: Any) -> bool:
    return isinstance(tree, list) and isinstance(part, int) and part < len(tree)
