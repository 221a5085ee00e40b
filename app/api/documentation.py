"""What the OpenAPI document says about bodies, headers and refusals, which FastAPI cannot know."""

from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

from app.api import examples, refusals
from app.api.problems import MEDIA_TYPE, problem_of
from app.contract import errors
from app.contract.errors import HoneError
from app.contract.events import EventPage
from app.contract.model import Contract
from app.contract.snapshot import Snapshot

Responses = dict[int | str, dict[str, Any]]

KINDS: tuple[type[HoneError], ...] = (
    errors.MalformedHeader,
    errors.NotFound,
    refusals.MethodNotAllowed,
    refusals.NotAcceptable,
    refusals.RequestTimeout,
    errors.Conflict,
    errors.BodyTooLarge,
    refusals.UnsupportedMediaType,
    errors.InvalidRequest,
    errors.IdempotencyMismatch,
    refusals.HeadersTooLarge,
    refusals.Internal,
    errors.Overloaded,
    errors.Unavailable,
)
"""Every refusal there is."""


def problems(*kinds: type[HoneError]) -> Responses:
    """Return the refusals of one operation; `unavailable` belongs to all of them."""
    documented: Responses = {}
    kind: type[HoneError]
    for kind in (*kinds, errors.Unavailable):
        empty = {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
        response = documented.setdefault(
            kind.status, {"description": "", "content": {MEDIA_TYPE: empty}}
        )
        response["description"] += f"\n\n`{kind.code}`: {promise_of(kind)}"
        response["content"][MEDIA_TYPE]["examples"][kind.code] = {"value": _example(kind)}
        if kind.status == 503:
            response["headers"] = _header("Retry-After", "Seconds to wait.", "integer")
    for response in documented.values():
        response["description"] = response["description"].strip()
    return documented


def promise_of(described: type) -> str:
    """Return the docstring as text."""
    return cleandoc(described.__doc__ or "")


def body(contract: type[Contract], named: Mapping[str, examples.Example]) -> dict[str, Any]:
    """Return `openapi_extra` for a route whose body is read by `body_of`."""
    content = {
        "schema": {"$ref": f"#/components/schemas/{contract.__name__}"},
        "examples": {name: {"value": value} for name, value in named.items()},
    }
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def _example(kind: type[HoneError]) -> dict[str, Any]:
    error: HoneError
    if kind is errors.InvalidRequest:
        wrong = errors.FieldError(pointer="/threshold", detail="Input should be a valid number")
        error = kind(f"{wrong.pointer}: {wrong.detail}", errors=(wrong,))
    elif kind is errors.RefinementNotFound:
        error = errors.RefinementNotFound(examples.REFINEMENT_ID)
    else:
        error = kind(promise_of(kind))
    return problem_of(error, examples.LINKS["self"]).model_dump(exclude_none=True)


def _header(name: str, description: str, kind: str = "string") -> dict[str, Any]:
    return {name: {"description": description, "schema": {"type": kind}}}


def _json(example: examples.Example) -> dict[str, Any]:
    return {"application/json": {"example": example}}


_ETAG = _header("ETag", "The number of the last event, quoted.")
_LINK = _header("Link", 'The next page, with `rel="next"`.')
LOOKED_AT: Responses = {
    200: {"headers": _ETAG, "content": _json(examples.SNAPSHOT)},
    304: {"description": "The snapshot is the one that is known.", "headers": _ETAG},
}
LISTED: Responses = {200: {"headers": _LINK}}
ACCEPTED: Responses = {202: {"content": _json(examples.SNAPSHOT)}}
_SUBMITTED = {
    **_header("Location", "Where the refinement is."),
    **_header("Idempotency-Replayed", "`true` when the key stood for this refinement already."),
    **_header("Preference-Applied", "The `wait` that was honoured."),
    **_ETAG,
}
SUBMITTED: Responses = {
    200: {
        "model": Snapshot,
        "description": "It ended within the wait that was preferred.",
        "headers": _SUBMITTED,
    },
    202: {
        "description": "It was accepted and will end, or is still there.",
        "headers": {**_SUBMITTED, **_header("Retry-After", "Seconds to wait.", "integer")},
        "content": _json(examples.SNAPSHOT),
    },
}
WATCHED: Responses = {
    200: {
        "model": EventPage,
        "description": "Events from the one after `Last-Event-ID` on.",
        "headers": _LINK,
        "content": {
            "text/event-stream": {"example": examples.EVENT_STREAM},
            **_json(examples.EVENT_PAGE),
        },
    },
    204: {"description": "Every event up to the terminal one was seen."},
}
REPORTED: Responses = {
    200: {
        "description": "The report, as Markdown or as a page.",
        "content": {
            "text/markdown": {"schema": {"type": "string"}, "example": examples.REPORT},
            "text/html": {"schema": {"type": "string"}},
        },
    },
}
