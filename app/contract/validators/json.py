"""Validators of JSON documents."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from app.contract.validators import Schema, Validator


class JsonValidator(Validator):
    """The draft is one JSON document (RFC 8259) in which no object has a name twice.

    It may stand in one code fence; this holds for all formats.
    """

    kind: Literal["json"]


class JsonSchemaValidator(Validator):
    """The draft is one JSON document that satisfies a JSON Schema (2020-12 unless it says so)."""

    kind: Literal["json_schema"]
    schema_: Schema = Field(alias="schema")

    def json_schemas(self) -> Mapping[str, Schema]:
        """Return the schema."""
        return {"/schema": self.schema_}
