"""The validator of SQL."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from app.contract.errors import FieldConflict, pointer_to
from app.contract.validators import Validator

SqlDialect = Literal[
    "athena", "bigquery", "clickhouse", "databricks", "doris", "drill", "druid", "duckdb", "hive",
    "materialize", "mysql", "oracle", "postgres", "presto", "redshift", "risingwave", "snowflake",
    "spark", "sqlite", "starrocks", "teradata", "trino", "tsql",
]  # fmt: skip
SqlName = Annotated[str, Field(min_length=1, max_length=300)]


Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Cell = Annotated[str, Field(max_length=10_000)] | bool | Integer | float | None
Rows = Annotated[
    tuple[Annotated[tuple[Cell, ...], Field(max_length=100)], ...], Field(max_length=1_000)
]


class SqlValidator(Validator):
    """The draft is SQL of one dialect and names only tables and columns that exist.

    A statement that the parser (sqlglot) recognises but does not parse in full does not pass.
    Statements are run only if `rows` are given, by SQLite on tables in memory with these rows,
    which they may change and which nothing else sees; a run has half a second of CPU time and 64
    MiB of memory.
    """

    kind: Literal["sql"]
    dialect: SqlDialect = "postgres"
    tables: dict[SqlName, Annotated[tuple[SqlName, ...], Field(max_length=1_000)]] | None = Field(
        None,
        max_length=500,
        description="Columns by table; an empty list allows any column. Without `tables`, names are"
        " not checked.",
    )

    rows: dict[SqlName, Rows] | None = Field(
        None,
        max_length=50,
        description="Rows by table: the draft is run on them. Other `tables` are empty. Columns"
        " have no types. Requires the dialect `sqlite`.",
    )
    expected_rows: Rows | None = Field(
        None, description="What the last statement that returns rows must return. Requires `rows`."
    )
    in_order: bool = Field(False, description="Whether the rows must come in that order.")

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        if self.rows is None:
            if self.expected_rows is not None:
                detail = "expected_rows requires rows, on which the draft is run"
                raise FieldConflict("/expected_rows", detail)
            return self
        if self.dialect != "sqlite":
            raise FieldConflict("/dialect", "rows require the dialect sqlite: it runs the draft")
        tables = self.tables or {}
        if unknown := [name for name in self.rows if name not in tables]:
            detail = f"rows of a table that is not in tables: {unknown[0]!r}"
            raise FieldConflict(pointer_to("rows", unknown[0]), detail)
        for name, columns in tables.items():
            _require_makeable(name, columns)
            _require_as_long(name, columns, self.rows.get(name, ()))
        if len({name.lower() for name in tables}) < len(tables):
            raise FieldConflict("/tables", "two tables have the same name")
        return self

    def in_words(self) -> str:
        words = f"as a whole is SQL for {self.dialect}"
        if self.rows is not None:
            words += " that runs"
        if self.expected_rows is not None:
            words += " and whose last query returns the expected rows of test tables"
        if self.tables is None:
            return words
        tables = "; ".join(
            f"{name} ({', '.join(columns) or 'any column'})"
            for name, columns in self.tables.items()
        )
        return f"{words} and names only these tables and columns: {tables or 'none'}"


def _require_makeable(name: str, columns: Sequence[str]) -> None:
    at = pointer_to("tables", name)
    if "." in name or name.lower().startswith("sqlite_") or not columns:
        raise FieldConflict(at, f"the table {name!r} needs a plain name and columns to be made")
    if len({column.lower() for column in columns}) < len(columns):
        raise FieldConflict(at, f"two columns of {name!r} have the same name")


def _require_as_long(name: str, columns: Sequence[str], rows: Rows) -> None:
    for index, row in enumerate(rows):
        if len(row) != len(columns):
            detail = f"a row of {name!r} does not have {len(columns)} values"
            raise FieldConflict(pointer_to("rows", name, index), detail)
