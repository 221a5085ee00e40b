"""The validators a request can name: checks that need no model."""

from typing import Annotated, Any, Literal

from pydantic import Field

from app.contract.judgement import OnFail
from app.contract.model import Contract

Count = Annotated[int, Field(ge=0, le=1_000_000)]


class Validator(Contract):
    """What every validator has in common."""

    on_fail: OnFail = Field(
        OnFail.VETO,
        description="`veto`: the draft cannot pass; `revise`: a finding only; `warn`: reported.",
    )


class LengthValidator(Validator):
    """Bounds on characters, words and sentences, each inclusive."""

    kind: Literal["length"]
    min_characters: Count | None = None
    max_characters: Count | None = None
    min_words: Count | None = None
    max_words: Count | None = None
    min_sentences: Count | None = None
    max_sentences: Count | None = None


class ContainsValidator(Validator):
    """Every one of `texts` stands in the draft."""

    kind: Literal["contains"]
    texts: tuple[Annotated[str, Field(min_length=1, max_length=2_000)], ...] = Field(
        min_length=1, max_length=100
    )
    case_sensitive: bool = True


class RegexValidator(Validator):
    """The draft matches (or does not match) a pattern in RE2 syntax, anywhere in the draft."""

    kind: Literal["regex"]
    pattern: str = Field(min_length=1, max_length=1_000)
    expect: Literal["match", "no_match"] = "match"
    case_sensitive: bool = True


class JsonSchemaValidator(Validator):
    """The draft is one JSON document that satisfies a JSON Schema (2020-12 unless it says so)."""

    kind: Literal["json_schema"]
    schema_: dict[str, Any] | bool = Field(alias="schema")


AnyValidator = Annotated[
    LengthValidator | ContainsValidator | RegexValidator | JsonSchemaValidator,
    Field(discriminator="kind"),
]
