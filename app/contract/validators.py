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
from app.contract.outside_validators import HttpValidator, PythonTestsValidator
from app.contract.source_validators import CitationsValidator
from app.contract.text_validators import (
    MEASURES,
    UNITS,
    ContainsValidator,
    ExcludesValidator,
    LengthValidator,
    ReadabilityMeasure,
    ReadabilityValidator,
    RegexValidator,
    SpellingValidator,
    Unit,
)
from app.contract.validator import Validator

AnyValidator = Annotated[
    LengthValidator
    | ContainsValidator
    | ExcludesValidator
    | RegexValidator
    | ReadabilityValidator
    | SpellingValidator
    | JsonValidator
    | JsonSchemaValidator
    | YamlValidator
    | TomlValidator
    | XmlValidator
    | MarkdownValidator
    | PythonValidator
    | SqlValidator
    | CitationsValidator
    | PythonTestsValidator
    | HttpValidator,
    Field(discriminator="kind"),
]

__all__ = [
    "MEASURES",
    "UNITS",
    "AnyValidator",
    "CitationsValidator",
    "ContainsValidator",
    "ExcludesValidator",
    "HttpValidator",
    "JsonSchemaValidator",
    "JsonValidator",
    "LengthValidator",
    "MarkdownValidator",
    "PythonTestsValidator",
    "PythonValidator",
    "ReadabilityMeasure",
    "ReadabilityValidator",
    "RegexValidator",
    "SpellingValidator",
    "SqlValidator",
    "TomlValidator",
    "Unit",
    "Validator",
    "XmlValidator",
    "YamlValidator",
]
