"""The OpenAPI document, with the bodies, headers and errors that FastAPI cannot derive."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json

from app.api import examples
from app.api import problems as refusals
from app.api.middleware import NOT_FOR_TOKENS, scope_needed
from app.api.problems import MEDIA_TYPE, problem_of
from app.contract import Contract, errors
from app.contract.access import Scope
from app.contract.batches import (
    BATCH_COMPLETED,
    Batch,
    BatchHead,
    BatchItem,
    BatchMessage,
    BatchResult,
)
from app.contract.errors import HoneError
from app.contract.events import DATA_OF
from app.contract.pairs import PreferencePair
from app.contract.snapshot import Snapshot
from app.contract.webhooks import WEBHOOK_EVENTS, WebhookMessage

Responses = dict[int | str, dict[str, Any]]
IN_VAIN = (errors.Conflict, errors.PreconditionFailed)
UNREADABLE = (errors.BodyTooLarge, refusals.UnsupportedMediaType, errors.InvalidRequest)
REPEATABLE = (errors.MalformedHeader, *UNREADABLE, errors.IdempotencyMismatch)
"""Errors of requests with a body and an `Idempotency-Key`."""

OF_SUBMISSION = (*REPEATABLE, errors.TooManyRequests, errors.QuotaExceeded, errors.Overloaded)

KINDS: tuple[type[HoneError], ...] = tuple(
    sorted(
        dict.fromkeys(
            kind
            for module in (errors, refusals)  # which imports some of the others
            for kind in vars(module).values()
            if isinstance(kind, type) and issubclass(kind, HoneError) and "code" in vars(kind)
        ),
        key=lambda kind: kind.status,
    )
)
"""Every error that a client can receive."""


def problems(*kinds: type[HoneError]) -> Responses:
    """Return the error responses of one operation; every operation has `unavailable`."""
    documented: Responses = {}
    kind: type[HoneError]
    for kind in (*kinds, errors.Unavailable):
        empty = {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
        response = documented.setdefault(
            kind.status, {"description": "", "content": {MEDIA_TYPE: empty}}
        )
        response["description"] += f"\n\n`{kind.code}`: {promise_of(kind)}"
        response["content"][MEDIA_TYPE]["examples"][kind.code] = {"value": _example(kind)}
        if kind.status in {429, 503}:
            response["headers"] = _header("Retry-After", "Seconds to wait.", "integer")
    for response in documented.values():
        response["description"] = response["description"].strip()
    return documented


def promise_of(described: type) -> str:
    """Return the docstring as text."""
    return cleandoc(described.__doc__ or "")


def body(
    contract: type[Contract], named: Mapping[str, examples.Example], *, is_required: bool = True
) -> dict[str, Any]:
    """Return `openapi_extra` for a route whose body is parsed by `body_of`."""
    content = {
        "schema": {"$ref": f"#/components/schemas/{contract.__name__}"},
        "examples": {name: {"value": value} for name, value in named.items()},
    }
    return {"requestBody": {"required": is_required, "content": {"application/json": content}}}


def batch_body() -> dict[str, Any]:
    """Return `openapi_extra` for the route whose body has a line per request."""
    description = "A `BatchItem` per line; the first line may be a `BatchHead`."
    content = {"schema": {"type": "string", "description": description}, "example": examples.BATCH}
    return {"requestBody": {"required": True, "content": {"application/jsonl": content}}}


def _example(kind: type[HoneError]) -> dict[str, Any]:
    error: HoneError
    if kind is errors.InvalidRequest:
        wrong = errors.FieldError(pointer="/threshold", detail="must be a number")
        error = kind(f"{wrong.pointer}: {wrong.detail}", errors=(wrong,))
    elif kind in (errors.RefinementNotFound, errors.NotStored):
        error = kind(examples.REFINEMENT_ID)
    elif kind is errors.BatchNotFound:
        error = errors.BatchNotFound(examples.BATCH_ID)
    else:
        error = kind(promise_of(kind))
    return problem_of(error, examples.LINKS["self"]).model_dump(mode="json", exclude_none=True)


def _header(name: str, description: str, kind: str = "string") -> dict[str, Any]:
    return {name: {"description": description, "schema": {"type": kind}}}


EXAMPLES: Mapping[str, examples.Example] = {
    "snapshot": examples.SNAPSHOT,
    "events": examples.EVENT_PAGE,
    "insights": examples.INSIGHTS,
    "usage": examples.USAGE,
}
"""Bodies of responses. They are referred to, because FastAPI drops nulls from what it is given."""


def _json(*names: str) -> dict[str, Any]:
    found = {name: {"$ref": f"#/components/examples/{name}"} for name in names}
    return {"application/json": {"examples": found}}


_ETAG = _header("ETag", "The number of the last event, quoted.")
_LINK = _header("Link", 'Link to the next page, with `rel="next"`.')
LOOKED_AT: Responses = {
    200: {"headers": _ETAG, "content": _json("snapshot")},
    304: {"description": "The client has the current snapshot already.", "headers": _ETAG},
}
LISTED: Responses = {200: {"headers": _LINK}}
ACCEPTED: Responses = {202: {"content": _json("snapshot")}}
_REPLAYED = _header(
    "Idempotency-Replayed", "`true` if an earlier request with this key has done it."
)
COMMANDED: Responses = {202: {"content": _json("snapshot"), "headers": _REPLAYED}}
RATED: Responses = {201: {"headers": _REPLAYED}}
_SUBMITTED = {
    **_header("Location", "Path of the refinement."),
    **_REPLAYED,
    **_header("Preference-Applied", "The `wait` that was applied."),
    **_ETAG,
}
SUBMITTED: Responses = {
    200: {
        "model": Snapshot,
        "description": "The refinement ended within the preferred wait.",
        "headers": _SUBMITTED,
    },
    202: {
        "description": "The refinement was accepted, now or by an earlier request with this key.",
        "headers": {**_SUBMITTED, **_header("Retry-After", "Seconds to wait.", "integer")},
        "content": _json("snapshot"),
    },
}
WATCHED: Responses = {
    200: {
        "description": "The events after `Last-Event-ID`: a stream of them, with `deltas` also of"
        " `StepDelta`, or as JSON an `EventPage`.",
        "headers": _LINK,
        "content": {
            "text/event-stream": {
                "schema": {
                    "anyOf": [
                        {"$ref": "#/components/schemas/Event"},
                        {"$ref": "#/components/schemas/StepDelta"},
                    ]
                },
                "example": examples.EVENT,
            },
            # As `application/json`, generators of clients would leave out the stream.
            "application/*": {
                "schema": {"$ref": "#/components/schemas/EventPage"},
                **_json("events")["application/json"],
            },
        },
    },
    204: {"description": "The client has received all events; the last one is terminal."},
}
REPORTED: Responses = {
    200: {
        "description": "The report, as Markdown.",
        "content": {
            "text/markdown": {"schema": {"type": "string"}, "example": examples.REPORT},
        },
    },
}
BATCH_SUBMITTED: Responses = {
    202: {
        "model": Batch,
        "description": "The batch was accepted, now or by an earlier request with this key.",
        "headers": {**_header("Location", "Path of the batch."), **_REPLAYED},
    },
}
_LINES = {"content": {"application/jsonl": {"schema": {"type": "string"}}}}
BATCH_RESULTS: Responses = {200: {"description": "A `BatchResult` per line.", **_LINES}}
PAIRS: Responses = {200: {"description": "A `PreferencePair` per line.", **_LINES}}
ACTIONS: Responses = {200: _LINES}
STATISTICS: Responses = {
    200: {
        "content": {
            **_json("usage", "insights"),
            "text/csv": {"schema": {"type": "string"}, "example": examples.USAGE_CSV},
        }
    }
}


OF_LINES = (BatchHead, BatchItem, BatchResult, PreferencePair)
"""Schemas of lines of JSON, to which nothing in the document refers."""

FOREIGN = {"HTTPValidationError", "ValidationError", "EventType"}
"""Schemas that no response has: FastAPI's own validation errors, and the types that events name."""

TAGS = {
    "refinements": "Submit texts, watch them get better, and decide.",
    "presets": "Named defaults for requests.",
    "batches": "Many requests at once.",
    "journal": "What has happened to a refinement.",
    "webhooks": "Results that come to you.",
    "offers": "What this server offers.",
    "statistics": "What was consumed and worth it, and what is known about scores and models.",
    "keys": "Who may use the server.",
    "tenants": "What a tenant may use, and all that it has.",
    "audit": "Who did what.",
    "health": "Whether the server works.",
}

VERSION = "1"
"""Version of the HTTP contract; a breaking change is `/v2`."""

DESCRIPTION = """\
Refinement as an API: submit a text, watch it get better, get the best draft.

A draft is judged and revised until it is good enough. Everything that happens is an event in the
journal of the refinement, numbered 1, 2, 3 ... without gaps; stream them from `/events`.

Every error response is `application/problem+json` (RFC 9457) with one of these codes:

| status | code | meaning |
|---|---|---|
"""


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document; the same code always produces the same document."""
    document = get_openapi(
        title="Hone",
        version=VERSION,
        openapi_version="3.1.0",
        description=DESCRIPTION + "\n".join(map(_row, KINDS)),
        routes=app.routes,
        separate_input_output_schemas=False,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=app.servers,
        tags=[{"name": name, "description": meaning} for name, meaning in TAGS.items()],
    )
    webhooks = {kind: {"post": _webhook(kind)} for kind in (*WEBHOOK_EVENTS, BATCH_COMPLETED)}
    contracts = {contract.__name__: contract for contract in _subclasses(Contract)}
    # FastAPI does not see them: bodies and errors are handled without it.
    named = {*_names_in([document["paths"], webhooks])} & contracts.keys()
    unseen = _schemas_of((*OF_LINES, *(contracts[name] for name in named)))
    schemas = _inherited(unseen | document["components"]["schemas"], contracts)
    schemas |= _typed_events(schemas["Event"])
    bodies = [
        operation.get("requestBody")
        for each in document["paths"].values()
        for operation in each.values()
    ]
    sent = _referred(bodies, schemas)
    for name, schema in schemas.items():
        for property_ in schema.get("properties", {}).values():
            _describe_default(property_, is_sent=name in sent)
    for name, told_apart_by in _discriminated(schemas):
        required = schemas[name].setdefault("required", [])
        if told_apart_by not in required:
            required.append(told_apart_by)
    document["components"]["schemas"] = {
        name: schemas[name] for name in sorted(schemas.keys() - FOREIGN)
    }
    document["components"]["examples"] = {
        name: {"value": example} for name, example in EXAMPLES.items()
    }
    document["components"]["securitySchemes"] = {"key": KEY_SCHEME, "token": TOKEN_SCHEME}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _drop_foreign(operation["responses"])
            if "{" in path:  # what does not match the pattern of a parameter is at no path
                not_found = problems(errors.NotFound)[errors.NotFound.status]
                operation["responses"].setdefault(str(errors.NotFound.status), not_found)
            if path.startswith("/v1/"):  # a parameter that the operation lacks
                invalid = problems(errors.InvalidRequest)[errors.InvalidRequest.status]
                operation["responses"].setdefault(str(errors.InvalidRequest.status), invalid)
            _say_who_may(operation, scope_needed(method.upper(), path))
            of_one = path.startswith("/v1/refinements/{refinement_id}")
            if method == "get" and of_one and not path.endswith(NOT_FOR_TOKENS):
                operation["security"].append({"token": []})
    document["webhooks"] = webhooks
    return document


def _schemas_of(contracts: Iterable[type[Contract]]) -> dict[str, Any]:
    """Return the schemas of contracts, and of what they refer to, by name."""
    _, found = models_json_schema(
        [(contract, "validation") for contract in contracts],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Any] = found.get("$defs", {})
    return schemas


def _inherited(schemas: dict[str, Any], classes: Mapping[str, type[Contract]]) -> dict[str, Any]:
    """Return the schemas, in which a class refers to its bases for the fields it has of them.

    A base is any contract with fields; what a class says otherwise than its base stays its own.
    """
    above = {base for name in schemas.keys() & classes.keys() for base in classes[name].__mro__}
    known = _schemas_of(each for each in classes.values() if each in above) | schemas
    for schema in known.values():
        for field in schema.get("properties", {}).values():
            if field.get("default", "") is None:  # the framework drops it from some of them
                del field["default"]
    derived = {
        name: _derived(known, name, [base.__name__ for base in _bases(classes[name])])
        if name in classes
        else schema
        for name, schema in known.items()
    }
    references = (base["$ref"] for each in derived.values() for base in each.get("allOf", ()))
    extended = {reference.rpartition("/")[2] for reference in references}
    used = _referred([derived[name] for name in schemas], derived) | schemas.keys()
    for name in extended:
        derived[name] = {
            key: value
            for key, value in derived[name].items()
            if key not in ("additionalProperties", "unevaluatedProperties")
        }
    return {name: derived[name] for name in derived if name in used}


def _subclasses(contract: type[Contract]) -> Iterator[type[Contract]]:
    for each in contract.__subclasses__():
        yield each
        yield from _subclasses(each)


def _bases(contract: type[Contract]) -> list[type[Contract]]:
    """Return the contracts with fields that a class is derived from directly."""
    return [
        base
        for base in contract.__bases__
        if issubclass(base, Contract) and base.model_fields and not base.__name__.startswith("_")
    ]


def _derived(schemas: Mapping[str, Any], name: str, bases: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a class without the fields that it shares with its bases."""
    schema = dict(schemas[name])
    own = dict(schema.get("properties", {}))
    required = list(schema.get("required", ()))
    references = []
    for base in bases:
        theirs = schemas[base]["properties"]
        shared = {field for field in theirs if own.get(field) == theirs[field]}
        if shared and set(schemas[base].get("required", ())) <= set(schema.get("required", ())):
            references.append({"$ref": f"#/components/schemas/{base}"})
            own = {field: each for field, each in own.items() if field not in shared}
            required = [field for field in required if field in own]
    if not references:
        return schema
    for key in ("properties", "required", "additionalProperties"):
        schema.pop(key, None)
    said = {"allOf": references, "properties": own, "required": required}
    kept = {key: value for key, value in said.items() if value}
    return {**schema, **kept, "unevaluatedProperties": False}


def _describe_default(property_: dict[str, Any], *, is_sent: bool) -> None:
    """Say a default in words: of what clients send, and of objects.

    Generators of clients require or send a field with a default, and a preset then has no say in
    it; they drop one whose default is an object.
    """
    if "default" not in property_:
        return
    default = property_["default"]
    if is_sent or (isinstance(default, dict | list) and "type" not in property_):
        del property_["default"]
        if default not in (None, "", [], {}):
            said = property_.get("description", "")
            property_["description"] = f"{said} Default: `{to_json(default).decode()}`.".strip()


def _referred(schema: Any, schemas: Mapping[str, Any]) -> set[str]:
    """Return the names of the schemas that one refers to, and those that these refer to."""
    found: set[str] = set()
    pending = [schema]
    while pending:
        new = {*_names_in(pending.pop())} & schemas.keys() - found
        found |= new
        pending += [schemas[name] for name in new]
    return found


def _names_in(value: Any) -> Iterator[str]:
    """Yield the names of the schemas to which a part of the document refers itself."""
    for part in _objects_in(value):
        if "$ref" in part:
            yield str(part["$ref"]).rpartition("/")[2]


def _objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object at any depth."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _objects_in(inner)


def _discriminated(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield the name of each schema of a union, and the property that tells them apart."""
    for part in _objects_in(schema):
        if isinstance(found := part.get("discriminator"), dict):
            for reference in found.get("mapping", {}).values():
                yield reference.rpartition("/")[2], found["propertyName"]


def _typed_events(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an event: one for each type, with the data of that type."""
    named = {kind: f"{kind.replace('.', ' ').title().replace(' ', '')}Event" for kind in DATA_OF}
    typed = {
        named[kind]: {
            "allOf": event["allOf"],
            "properties": {
                "type": {"type": "string", "const": kind.value},
                "data": {"$ref": f"#/components/schemas/{data.__name__}"},
            },
            "required": ["type", "data"],
            "title": named[kind],
            "type": "object",
            "description": event["description"],
        }
        for kind, data in DATA_OF.items()
    }
    references = {kind.value: f"#/components/schemas/{name}" for kind, name in named.items()}
    one = {
        "oneOf": [{"$ref": reference} for reference in references.values()],
        "discriminator": {"propertyName": "type", "mapping": references},
        "description": event["description"],
    }
    return {**typed, "Event": one}


def _webhook(kind: str) -> dict[str, Any]:
    """Return how a client's endpoint is called (OpenAPI 3.1, webhooks)."""
    if kind == BATCH_COMPLETED:
        return _call("BatchCompleted", "A batch with a `webhook` has ended.", BatchMessage)
    outcome = "is paused and asks a reviewer" if kind.endswith("paused") else "ended so"
    description = f"A refinement whose `webhook` names it {outcome}."
    return _call(kind.partition(".")[2].title(), description, WebhookMessage)


def _call(name: str, summary: str, message: type[Contract]) -> dict[str, Any]:
    signed = ("webhook-id", "webhook-timestamp", "webhook-signature")
    return {
        "operationId": f"on{name}",
        "summary": summary,
        "tags": ["webhooks"],
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "schema": {"type": "string"}}
            for name in signed
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": f"#/components/schemas/{message.__name__}"}}
            },
        },
        "responses": {
            "2XX": {"description": "It arrived."},
            "410": {"description": "It is not sent again."},
            "default": {"description": "It is sent again later, with the same `webhook-id`."},
        },
    }


KEY_SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "hone_...",
    "description": "An API key. Each operation names the scope that the key must have. A server"
    " that listens on loopback only requires none until the first key is created.",
}


TOKEN_SCHEME = {
    "type": "apiKey",
    "in": "query",
    "name": "token",
    "description": "A token that reads one refinement, of `POST /v1/refinements/{id}/tokens`.",
}


def _say_who_may(operation: dict[str, Any], scope: Scope | None) -> None:
    operation["security"] = [] if scope is None else [{"key": [scope.value]}]
    if scope is not None:
        responses: dict[str, Any] = operation["responses"]
        for status, refused in problems(
            errors.Unauthenticated, errors.Forbidden, errors.TooManyRequests
        ).items():
            responses.setdefault(str(status), refused)  # what is there names this 429 too
        operation["responses"] = {status: responses[status] for status in sorted(responses)}


def _drop_foreign(responses: dict[str, Any]) -> None:
    """Remove the 422 that FastAPI adds for every parameter; this API answers 400 or 404."""
    if responses.get("422", {}).get("description") == "Validation Error":
        del responses["422"]


def _row(kind: Any) -> str:
    return f"| {kind.status} | `{kind.code}` | {promise_of(kind).splitlines()[0]} |"
