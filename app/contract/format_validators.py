"""Validators of formats: what a draft is written in."""

from typing import Annotated, Any, Literal

from pydantic import Field

from app.contract.validator import Validator

SqlDialect = Literal[
    "athena", "bigquery", "clickhouse", "databricks", "doris", "drill", "druid", "duckdb", "hive",
    "materialize", "mysql", "oracle", "postgres", "presto", "redshift", "risingwave", "snowflake",
    "spark", "sqlite", "starrocks", "teradata", "trino", "tsql",
]  # fmt: skip
SqlName = Annotated[str, Field(min_length=1, max_length=300)]


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


class MarkdownValidator(Validator):
    """The draft has these headings, and its Markdown is whole.

    Whole: every block of code ends, headings go down one level at a time, every row of a table has
    as many cells as its header, and every link has a text and a destination.
    """

    kind: Literal["markdown"]
    headings: tuple[Annotated[str, Field(pattern=r"^#{0,6}\s*[^#\s]", max_length=200)], ...] = (
        Field(
            (),
            max_length=50,
            description="Required; `## Usage` at that level, `Usage` at any. Case is ignored.",
        )
    )


class PythonValidator(Validator):
    """The draft is Python that compiles on `version`, fenced or not. It is never run."""

    kind: Literal["python"]
    version: Literal["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"] = Field(
        "3.11", description="The oldest Python that it must compile on."
    )
    ruff: tuple[Annotated[str, Field(pattern=r"^[A-Z]{1,4}[0-9]{0,4}$")], ...] = Field(
        (), max_length=50, description="Rules of ruff, or their prefixes, such as `F` and `B006`."
    )


class SqlValidator(Validator):
    """The draft is SQL of one dialect and names only tables and columns that there are.

    Statements are parsed, never run. What the parser (sqlglot) can only recognise does not pass.
    """

    kind: Literal["sql"]
    dialect: SqlDialect = "postgres"
    tables: dict[SqlName, Annotated[tuple[SqlName, ...], Field(max_length=1_000)]] | None = Field(
        None,
        max_length=500,
        description="Columns by table; none listed: any. Without `tables` names are not checked.",
    )
