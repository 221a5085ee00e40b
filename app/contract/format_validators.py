"""Validators of formats: what a draft is written in."""

from typing import Any, Literal

from pydantic import Field

from app.contract.validator import Validator


class JsonValidator(Validator):
    """The draft is one JSON document (RFC 8259) in which no object has a name twice.

    It may stand in one code fence; this holds for all formats.
    """

    kind: Literal["json"]


class JsonSchemaValidator(Validator):
    """The draft is one JSON document that satisfies a JSON Schema (2020-12 unless it says so)."""

    kind: Literal["json_schema"]
    schema_: dict[str, Any] | bool = Field(alias="schema")
