"""The validators a request can name: checks that need no model."""

from typing import Annotated

from pydantic import Field

from app.contract.format_validators import (
    JsonSchemaValidator,
    JsonValidator,
    MarkdownValidator,
    PythonValidator,
    SqlValidator,
    TomlValidator,
    XmlValidator,
    YamlValidator,
)
from app.contract.text_validators import (
    UNITS,
    ContainsValidator,
    ExcludesValidator,
    LengthValidator,
    RegexValidator,
    Unit,
)
from app.contract.validator import Validator

AnyValidator = Annotated[
    LengthValidator
    | ContainsValidator
    | ExcludesValidator
    | RegexValidator
    | JsonValidator
    | JsonSchemaValidator
    | YamlValidator
    | TomlValidator
    | XmlValidator
    | MarkdownValidator
    | PythonValidator
    | SqlValidator,
    Field(discriminator="kind"),
]

__all__ = [
    "UNITS",
    "AnyValidator",
    "ContainsValidator",
    "ExcludesValidator",
    "JsonSchemaValidator",
    "JsonValidator",
    "LengthValidator",
    "MarkdownValidator",
    "PythonValidator",
    "RegexValidator",
    "SqlValidator",
    "TomlValidator",
    "Unit",
    "Validator",
    "XmlValidator",
    "YamlValidator",
]
