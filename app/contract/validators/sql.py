"""The validator of SQL."""

from typing import Annotated, Literal

from pydantic import Field

from app.contract.validators import Validator

SqlDialect = Literal[
    "athena", "bigquery", "clickhouse", "databricks", "doris", "drill", "druid", "duckdb", "hive",
    "materialize", "mysql", "oracle", "postgres", "presto", "redshift", "risingwave", "snowflake",
    "spark", "sqlite", "starrocks", "teradata", "trino", "tsql",
]  # fmt: skip
SqlName = Annotated[str, Field(min_length=1, max_length=300)]


class SqlValidator(Validator):
    """The draft is SQL of one dialect and names only tables and columns that exist.

    Statements are parsed, never run. A statement that the parser (sqlglot) recognises but does not
    parse in full does not pass.
    """

    kind: Literal["sql"]
    dialect: SqlDialect = "postgres"
    tables: dict[SqlName, Annotated[tuple[SqlName, ...], Field(max_length=1_000)]] | None = Field(
        None,
        max_length=500,
        description="Columns by table; an empty list allows any column. Without `tables`, names are"
        " not checked.",
    )

    def in_words(self) -> str:
        """Return the dialect, and the tables."""
        words = f"as a whole is SQL for {self.dialect}"
        if self.tables is None:
            return words
        tables = "; ".join(
            f"{name} ({', '.join(columns) or 'any column'})"
            for name, columns in self.tables.items()
        )
        return f"{words} and names only these tables and columns: {tables or 'none'}"
