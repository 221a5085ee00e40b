"""The validator of SQL: its syntax, and whether its tables and columns exist, ignoring case."""

import logging
import math
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from app.contract.validators.sql import Rows, SqlValidator
from workers.children.child_process import OutOfTime
from workers.validators.violation import (
    HIDES_OTHERS,
    Body,
    Violation,
    abbreviated,
    offset_of,
)

MAX_DEPTH = 20
OF_SYSTEMS = re.compile(
    r"ctid|oid|tableoid|xmin|xmax|_?rowid_?|rownum|ora_rowscn|level|sysdate|user|all|default"
    r"|_partition\w+|_table_suffix|metadata\$\w+|\$\w+"
)
"""Columns that a system adds to each table, and what stands without one."""
NAMES_A_TABLE = (
    exp.From, exp.Join, exp.DML, exp.Merge, exp.Schema, exp.Alter, exp.AlterRename, exp.Create,
    exp.Drop, exp.TruncateTable, exp.Index, exp.Subquery,
)  # fmt: skip
"""What a table stands in; in locks, hints and settings the same syntax means something else."""

Columns = frozenset[str] | None
"""The columns of a source; `None` when they are unknown."""

SqlFlaw = tuple[exp.Expr, str, str]
"""The name, what is wrong with it, and how to fix it."""


class Tables:
    """The tables of a schema, and tables that earlier statements created."""

    def __init__(self, tables: Mapping[str, Sequence[str]]) -> None:
        self._columns: dict[str, Columns] = {}
        self._whole = {"dual", *map(str.lower, tables)}
        for name, columns in tables.items():
            self.add(name, frozenset(map(str.lower, columns)) or None)

    def add(self, name: str, columns: Columns) -> None:
        """Add a table; `a.b` is found as `b` too."""
        parts = name.lower().split(".")
        for start in range(len(parts)):
            self._columns[".".join(parts[start:])] = columns

    def __contains__(self, table: exp.Table) -> bool:
        # A schema that the request does not name may be the one that its tables are in.
        return _full_name(table) in self._columns or table.name.lower() in self._whole

    def columns(self, table: exp.Table) -> Columns:
        """Return the columns of a table, `None` if they are unknown; an alias may rename some."""
        found = self._columns.get(_full_name(table), self._columns.get(table.name.lower()))
        if table.args.get("pivots"):
            return None
        renamed = frozenset(map(str.lower, table.alias_column_names))
        return found and found | renamed

    def closest(self, name: str) -> str:
        """Return the fix for an unknown table name."""
        return _closest(name, self._columns)


def unknown_names(statement: exp.Expr, tables: Tables) -> Iterator[SqlFlaw]:
    """Yield every unknown name in a statement; then add a table that it creates."""
    if isinstance(statement, exp.Drop) and statement.args.get("exists"):
        return
    created = _created(statement)
    temporary = {cte.alias.lower() for cte in statement.find_all(exp.CTE)}
    if isinstance(statement, exp.DML):  # its target may be the alias of a table in its FROM
        temporary |= {table.alias.lower() for table in statement.find_all(exp.Table) if table.alias}
    for table in statement.find_all(exp.Table):
        is_named = isinstance(table.this, exp.Identifier) and table is not created
        is_named &= isinstance(table.parent, NAMES_A_TABLE) and table.arg_key != "params"
        if is_named and table not in tables and _full_name(table) not in temporary:
            fix = tables.closest(_full_name(table))
            yield table.this, f"unknown table {_full_name(table)!r}", fix
    changed = _changed(statement, tables) if isinstance(statement, exp.DML | exp.Merge) else {}
    for scope in traverse_scope(statement):
        yield from _unknown_columns(scope, tables, changed)
    if isinstance(statement, exp.DML):
        yield from _unknown_in_change(statement, tables, changed)
    if isinstance(statement, exp.Alter):
        tables.add(_full_name(statement.this), None)
    if created is not None:
        tables.add(_full_name(created), _defined(statement))


def _unknown_columns(
    scope: Scope, tables: Tables, changed: Mapping[str, Columns]
) -> Iterator[SqlFlaw]:
    selects = getattr(scope.expression, "selects", ())
    aliases = {each.alias.lower() for each in selects if isinstance(each, exp.Alias)}
    columns = {id(column): column for column in scope.columns}
    for clause in filter(None, map(scope.expression.args.get, ("having", "qualify"))):
        columns |= {id(column): column for column in clause.find_all(exp.Column)}
    sources: dict[str, Columns] = {}
    around: Scope | None = scope
    while around is not None:
        for name, source in around.sources.items():
            sources.setdefault(name.lower(), _columns_of(source, tables))
        around = around.parent
    sources = {**changed, **sources}
    for column in columns.values():
        if column.find_ancestor(exp.Query) is not scope.expression:
            continue  # a correlated one, which is looked up in its own scope
        if isinstance(scope.expression, exp.SetOperation):  # what sorts it are columns of its parts
            of_parts = {column.table.lower(): _columns_of(scope, tables)}
            yield from _lookup(column, sources | of_parts, aliases)
        else:
            yield from _lookup(column, sources, aliases)


def _changed(statement: exp.Expr, tables: Tables) -> dict[str, Columns]:
    """Return the tables that a statement changes or reads itself, for all queries inside."""
    own: dict[str, Columns] = {}
    for source in statement.find_all(exp.Table, exp.Subquery):
        if source.find_ancestor(exp.Query) is None and source.alias_or_name:
            columns = tables.columns(source) if isinstance(source, exp.Table) else None
            own[source.alias_or_name.lower()] = columns
    return own


def _unknown_in_change(
    statement: exp.Expr, tables: Tables, own: Mapping[str, Columns]
) -> Iterator[SqlFlaw]:
    """Look up what stands in INSERT, UPDATE, DELETE or MERGE itself, not in a query inside."""
    target = statement.this
    if isinstance(target, exp.Schema) and isinstance(target.this, exp.Table):
        known = tables.columns(target.this)
        for name in target.expressions:
            if known is not None and name.name.lower() not in known:
                yield (
                    name,
                    f"{target.this.name!r} has no column {name.name!r}",
                    _closest(name.name, known),
                )
    is_certain = not list(statement.find_all(exp.CTE, exp.Subquery))
    rows = {"excluded": None, "new": None, "old": None, **own}
    for column in statement.find_all(exp.Column):
        if column.find_ancestor(exp.Query) is None and (is_certain or column.table):
            yield from _lookup(column, rows if column.table else own, set())


def _lookup(
    column: exp.Column, sources: Mapping[str, Columns], aliases: set[str]
) -> Iterator[SqlFlaw]:
    name, table = column.name.lower(), column.table.lower()
    if not isinstance(column.this, exp.Identifier) or OF_SYSTEMS.fullmatch(name):
        return
    if column.args.get("db"):  # a path into a structure
        return
    known = frozenset[str]().union(*(columns or () for columns in sources.values()))
    is_certain = None not in sources.values()
    if table and table in sources:
        columns = sources[table]
        if columns is not None and name not in columns:
            yield column.this, f"{table!r} has no column {column.name!r}", _closest(name, columns)
    elif table and is_certain and table not in known:
        there = ", ".join(sorted(sources)) or "none"
        yield column.args["table"], f"unknown table {table!r}", f"use one of: {there}"
    elif not table and is_certain and name not in known | aliases | sources.keys():
        yield column.this, f"unknown column {column.name!r}", _closest(name, known)


def _columns_of(source: Any, tables: Tables, depth: int = 0) -> Columns:
    if isinstance(source, exp.Table):
        return tables.columns(source)
    if not isinstance(source, Scope) or depth > MAX_DEPTH:
        return None
    holder = source.expression.parent
    while isinstance(holder, exp.SetOperation):  # what a recursive query reads is its first part
        holder = holder.parent
    named = frozenset(map(str.lower, getattr(holder, "alias_column_names", ())))
    is_pivoted = isinstance(holder, exp.Subquery) and holder.args.get("pivots")
    query = source.expression
    while isinstance(query, exp.SetOperation):
        query = query.left
    is_known = query is source.expression or not query.is_star
    selects = query.selects if isinstance(query, exp.Select) and is_known else []
    if is_pivoted or not (selects or named):
        return None
    if not selects or len(named) == len(selects):
        return named
    if not all(selected.output_name for selected in selects):  # the system names an expression
        return None
    columns = named | {selected.output_name.lower() for selected in selects}
    return _spread(source, columns, tables, depth) if query.is_star else columns


def _spread(source: Scope, columns: frozenset[str], tables: Tables, depth: int) -> Columns:
    """Return the columns of a query with a star, including all columns of its sources."""
    for each in source.sources.values():
        inner = None if each is source else _columns_of(each, tables, depth + 1)
        if inner is None:
            return None
        columns |= inner
    return columns - {"*"}


def _created(statement: exp.Expr) -> exp.Table | None:
    if isinstance(statement, exp.Alter):
        renamed = statement.find(exp.AlterRename)
        return None if renamed is None else renamed.this
    if isinstance(into := statement.args.get("into"), exp.Into):
        return into.this if isinstance(into.this, exp.Table) else None
    if not isinstance(statement, exp.Create) or statement.kind not in {"TABLE", "VIEW"}:
        return None
    target = statement.this.this if isinstance(statement.this, exp.Schema) else statement.this
    return target if isinstance(target, exp.Table) else None


def _defined(create: exp.Expr) -> Columns:
    if create.find(exp.InheritsProperty):
        return None
    if isinstance(create.this, exp.Schema):
        return frozenset(each.name.lower() for each in create.this.find_all(exp.ColumnDef)) or None
    query = create.expression
    if isinstance(query, exp.Query) and not query.is_star:
        return frozenset(map(str.lower, query.named_selects))
    return None


def _full_name(table: exp.Table) -> str:
    return ".".join(part.name.lower() for part in table.parts)


def _closest(name: str, known: Any) -> str:
    near = get_close_matches(name.lower(), list(known)[:1000], 1)
    return f"did you mean {near[0]!r}?" if near else "use a name that the schema has"


FIX = "correct the syntax there; answer with SQL and nothing else"

# sqlglot logs what it cannot parse; here that is reported as a violation.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


def check_sql(validator: SqlValidator, draft: str) -> Iterator[Violation]:
    """Yield the first syntax error, or the first unknown tables and columns.

    A statement that is recognized but cannot be parsed completely does not pass. If there are rows,
    a draft without a flaw is run on them: then what fails, or the rows that are wrong, is yielded.
    """
    ends = time.process_time() + RUN_S
    is_sound = True
    for violation in _parsed(validator, draft):
        is_sound = False
        yield violation
    if is_sound and validator.rows is not None:
        yield from _run(validator, Body(draft).text, ends)


def _parsed(validator: SqlValidator, draft: str) -> Iterator[Violation]:
    body = Body(draft)
    try:
        statements = [each for each in sqlglot.parse(body.text, dialect=validator.dialect) if each]
        yield from _flaws(validator, statements, body)
        if not statements:
            yield Violation("the draft contains no SQL statement", FIX, weight=HIDES_OTHERS)
    except ParseError as error:
        yield _syntax(error, body)
    except SqlglotError as error:
        said = f"the draft is not SQL: {abbreviated(str(error), 200)}"
        yield Violation(said, FIX, weight=HIDES_OTHERS)
    except RecursionError:
        yield Violation("the draft is nested too deeply", "nest it less", weight=HIDES_OTHERS)


def _flaws(validator: SqlValidator, statements: list[exp.Expr], body: Body) -> Iterator[Violation]:
    tables = None if validator.tables is None else Tables(validator.tables)
    for statement in statements:
        if isinstance(statement, exp.Condition | exp.Alias | exp.Tuple):
            yield Violation(
                f"this is not an SQL statement: {abbreviated(statement.sql(validator.dialect))!r}",
                FIX,
            )
        elif isinstance(statement, exp.Command):
            yield Violation(
                f"this {statement.name.upper()} statement is not supported ({validator.dialect})",
                "use a query, or a statement that changes data or tables",
            )
        elif tables:
            for name, message, fix in unknown_names(statement, tables):
                at, length = _extent(name)
                yield body.violation(at, message, fix, length)


def _extent(name: exp.Expr) -> tuple[int, int]:
    start = name.meta.get("start", 0)
    return start, name.meta.get("end", start) - start + 1


def _syntax(error: ParseError, body: Body) -> Violation:
    first = error.errors[0] if error.errors else {}
    highlight = str(first.get("highlight") or "")
    said = str(first.get("description") or error).partition(" but got <Token")[0]
    # The parser reports the column of the last character.
    end = offset_of(body.text, int(first.get("line") or 1), int(first.get("col") or 1)) + 1
    length = max(1, len(highlight))
    said = re.sub(r" missing for <class '[\w.]*?(\w+)'>", r" missing in \1", said)
    message = f"the draft is not SQL: {abbreviated(said, 200)}"
    return body.violation(max(0, end - length), message, FIX, length, HIDES_OTHERS)


MEMORY_BYTES = 64 * 1024 * 1024
MOST_BYTES_OF_A_VALUE = 1_000_000
RUN_S = 0.4
"""CPU time of reading and running all statements: less than a check has, so that the violation says
what took it."""
STEPS = 10_000
"""Instructions of SQLite's virtual machine between two looks at the clock."""
MOST_ROWS = 1_001
"""Rows of a result that are kept: one more than a request can expect."""

ALLOWED = frozenset(
    {
        sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE,
        sqlite3.SQLITE_DELETE, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT,
        sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_TEMP_TABLE, sqlite3.SQLITE_CREATE_VIEW,
        sqlite3.SQLITE_CREATE_TEMP_VIEW, sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_CREATE_TEMP_INDEX, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_TEMP_TABLE,
        sqlite3.SQLITE_DROP_VIEW, sqlite3.SQLITE_DROP_TEMP_VIEW, sqlite3.SQLITE_DROP_INDEX,
        sqlite3.SQLITE_DROP_TEMP_INDEX, sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_REINDEX,
    }
)  # fmt: skip
"""What a draft may do: neither open files (ATTACH, VACUUM INTO), nor change settings (PRAGMA)."""


def _run(validator: SqlValidator, body: str, ends: float) -> Iterator[Violation]:
    """Yield why a draft fails on the rows of the request, or the rows that are wrong."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    try:
        _fill(database, validator)
        _bound(database, ends)
        found = _result(database, body)
    except (sqlite3.Error, sqlite3.Warning, MemoryError, OverflowError, UnicodeError) as error:
        if _is_interrupted(error) and time.process_time() < ends:
            # Not by `_bound`: SQLite says so whatever its progress handler raises, `OutOfTime` too.
            raise OutOfTime from error
        yield _failed(error)
    else:
        if validator.expected_rows is not None:
            yield from _wrong_rows(found, validator.expected_rows, in_order=validator.in_order)
    finally:
        database.close()


def _is_interrupted(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT


def _failed(error: Exception) -> Violation:
    said, fix = abbreviated(str(error), 200), "correct the statement; SQLite runs it"
    if _is_interrupted(error):
        said, fix = f"it takes more than {RUN_S:g} s", "make it faster"
    elif isinstance(error, MemoryError):
        said, fix = f"it takes more than {MEMORY_BYTES >> 20} MiB of memory", "make it smaller"
    return Violation(f"the draft fails when it is run: {said}", fix, weight=HIDES_OTHERS)


def _fill(database: sqlite3.Connection, validator: SqlValidator) -> None:
    """Make the tables of the request, with their rows; columns have no types."""
    database.execute(f"PRAGMA hard_heap_limit={MEMORY_BYTES}")
    for name, columns in (validator.tables or {}).items():
        named = ", ".join(map(_quoted, columns))
        database.execute(f"CREATE TABLE {_quoted(name)} ({named})")
        places = ", ".join("?" * len(columns))
        rows = (validator.rows or {}).get(name, ())
        database.executemany(f"INSERT INTO {_quoted(name)} VALUES ({places})", rows)  # noqa: S608


def _bound(database: sqlite3.Connection, ends: float) -> None:
    """Allow only what concerns these tables, until this CPU time and in so much memory."""
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES_OF_A_VALUE)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.set_progress_handler(lambda: time.process_time() > ends, STEPS)
    database.set_authorizer(_authorized)


def _authorized(action: int, _first: Any, second: Any, *_: Any) -> int:
    is_extension = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
    return sqlite3.SQLITE_OK if action in ALLOWED and not is_extension else sqlite3.SQLITE_DENY


def _result(database: sqlite3.Connection, body: str) -> Rows:
    """Run every statement; return the rows of the last one that returns rows."""
    found: Rows = ()
    for statement in _statements(body):
        cursor = database.execute(statement)
        if cursor.description is not None:
            found = tuple(cursor.fetchmany(MOST_ROWS))
            while cursor.fetchmany(MOST_ROWS):
                pass  # an error may come with any row
    return found


def _statements(body: str) -> Iterator[str]:
    statement = ""
    for piece in body.split(";"):
        statement += piece
        if sqlite3.complete_statement(f"{statement};"):
            yield statement
            statement = ""
        else:  # the semicolon was within a text or a comment
            statement += ";"
    yield statement.removesuffix(";")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _wrong_rows(found: Rows, expected: Rows, *, in_order: bool) -> Iterator[Violation]:
    """Yield each row that is missing or too many; in order, each that differs from its place."""
    are, wanted = [_comparable(row) for row in found], [_comparable(row) for row in expected]
    if in_order and len(are) == len(wanted):
        for number, (one, other) in enumerate(zip(are, wanted, strict=True), 1):
            if one != other:
                message = f"row {number} of the result is {_shown(one)}, expected {_shown(other)}"
                yield Violation(message, "change the query so that it returns the expected rows")
        return
    missing, extra = Counter(wanted), Counter(are)
    for row in (missing - extra).elements():
        yield Violation(f"the result lacks the row {_shown(row)}", "return this row too")
    for row in (extra - missing).elements():
        yield Violation(f"the result has the row {_shown(row)}, which is wrong", "leave it out")


def _comparable(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row in which equal numbers are equal: SQLite has no booleans."""
    return tuple(_number(cell) if isinstance(cell, int | float) else cell for cell in row)


def _number(value: float) -> float | int:
    if isinstance(value, int) or not math.isfinite(value):
        return int(value) if isinstance(value, int) else value
    return float(f"{value:.12g}")


def _shown(row: Sequence[Any]) -> str:
    return abbreviated(
        f"({', '.join('NULL' if cell is None else repr(cell) for cell in row)})", 200
    )
