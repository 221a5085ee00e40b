"""Validators of JSON documents."""

import json
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from app.contract.validators import Schema, Validator


class JsonValidator(Validator):
    """The draft is one JSON document (RFC 8259) without duplicate names in an object.

    It may be enclosed in one code fence; this applies to all formats.
    """

    kind: Literal["json"]

    def in_words(self) -> str:
        return "as a whole is one JSON document without duplicate names in an object"

    def can_fix(self) -> bool:
        """Broken syntax is repaired if no value is lost."""
        return True


class JsonSchemaValidator(Validator):
    """The draft is one JSON document that satisfies a JSON Schema (2020-12, or its `$schema`)."""

    kind: Literal["json_schema"]
    schema_: Schema = Field(alias="schema")

    def in_words(self) -> str:
        schema = json.dumps(self.schema_, ensure_ascii=False)
        return f"as a whole is one JSON document that satisfies this JSON Schema: {schema}"

    def can_fix(self) -> bool:
        """As JSON; values are converted to the types of the schema."""
        return True

    def json_schemas(self) -> Mapping[str, Schema]:
        return {"/schema": self.schema_}
