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


class YamlValidator(Validator):
    """The draft is YAML: a mapping or sequence, or several, in which no mapping repeats a key.

    Read as YAML 1.1 by libyaml, without the tags that make objects of a programming language.
    """

    kind: Literal["yaml"]


class TomlValidator(Validator):
    """The draft is one TOML document (1.0)."""

    kind: Literal["toml"]


class XmlValidator(Validator):
    """The draft is one well-formed XML document, namespaces included, without a DTD."""

    kind: Literal["xml"]
