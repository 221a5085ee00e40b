"""The OpenAPI document, made from the routes and the contract."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from app.api.documentation import KINDS, promise_of
from app.contract.continuation import Continuation
from app.contract.errors import Problem
from app.contract.limits import LimitsChange
from app.contract.requests import RefinementRequest
from app.contract.reviews import Review

UNSEEN = (Problem, RefinementRequest, LimitsChange, Review, Continuation)
"""Schemas that FastAPI does not see: what is read and refused by hand."""

FOREIGN = {"HTTPValidationError", "ValidationError"}
"""Schemas of refusals that FastAPI would make."""

VERSION = "1"
"""Of the HTTP contract; a change that breaks clients is `/v2`."""

DESCRIPTION = """\
Refinement as an API: submit a text, watch it get better, get the best draft.

A refinement is judged and revised until it is good enough. Everything that happens to it is an
event in its journal, numbered 1, 2, 3 ... without gaps; watch them at `/events`.

Every refusal is `application/problem+json` (RFC 9457) with one of these codes:

| status | code | meaning |
|---|---|---|
"""


def document(app: FastAPI) -> dict[str, Any]:
    """Return the document; the same code gives the same document."""
    document = get_openapi(
        title="Hone",
        version=VERSION,
        openapi_version="3.1.0",
        description=DESCRIPTION + "\n".join(map(_row, KINDS)),
        routes=app.routes,
        separate_input_output_schemas=False,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    _, unseen = models_json_schema(
        [(contract, "validation") for contract in UNSEEN],
        ref_template="#/components/schemas/{model}",
    )
    schemas = document["components"]["schemas"] | unseen["$defs"]
    document["components"]["schemas"] = {
        name: schemas[name] for name in sorted(schemas.keys() - FOREIGN)
    }
    for path in document["paths"].values():
        for operation in path.values():
            _drop_foreign(operation["responses"])
    return document


def _drop_foreign(responses: dict[str, Any]) -> None:
    """FastAPI announces a 422 of its own for every parameter; here that is a 400 or a 404."""
    if responses.get("422", {}).get("description") == "Validation Error":
        del responses["422"]


def _row(kind: Any) -> str:
    return f"| {kind.status} | `{kind.code}` | {promise_of(kind).splitlines()[0]} |"
