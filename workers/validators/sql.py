"""The `sql` validator: a draft that is SQL of one dialect, over the tables there are."""

import logging
from collections.abc import Iterator
from itertools import islice

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from app.contract.validators import SqlValidator
from workers.validators.places import body_of, offset_of, violation_at
from workers.validators.sql_names import Tables, unknown_names
from workers.validators.violation import Violation, shortened

MAX_VIOLATIONS = 20
FIX = "correct the syntax there; answer with SQL and nothing else"

# It warns of what it cannot parse, which is reported here as a violation.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


def check_sql(validator: SqlValidator, draft: str) -> Iterator[Violation]:
    """Yield the first error of syntax, or the first names that no table and no column has.

    What is recognised but cannot be parsed to its end has not passed.
    """
    body, offset = body_of(draft)
    try:
        statements = [each for each in sqlglot.parse(body, dialect=validator.dialect) if each]
        yield from islice(_flaws(validator, statements, draft, offset), MAX_VIOLATIONS)
        if not statements:
            yield Violation("the draft holds no SQL statement", FIX)
    except ParseError as error:
        yield _syntax(error, body, draft, offset)
    except SqlglotError as error:
        yield Violation(f"the draft is not SQL: {shortened(str(error), 200)}", FIX)
    except RecursionError:
        yield Violation("the draft is nested too deeply", "nest it less")


def _flaws(
    validator: SqlValidator, statements: list[exp.Expr], draft: str, offset: int
) -> Iterator[Violation]:
    tables = None if validator.tables is None else Tables(validator.tables)
    for statement in statements:
        if isinstance(statement, exp.Condition | exp.Alias | exp.Tuple):
            yield Violation(
                f"this is no SQL statement: {shortened(statement.sql(validator.dialect))!r}", FIX
            )
        elif isinstance(statement, exp.Command):
            yield Violation(
                f"the statement {statement.name.upper()} can be recognised, but not checked"
                f" ({validator.dialect})",
                "use a query, or a statement that changes data or tables",
            )
        elif tables:
            for name, message, fix in unknown_names(statement, tables):
                at, length = _extent(name)
                yield violation_at(draft, offset + at, message, fix, length)


def _extent(name: exp.Expr) -> tuple[int, int]:
    start = name.meta.get("start", 0)
    return start, name.meta.get("end", start) - start + 1


def _syntax(error: ParseError, body: str, draft: str, offset: int) -> Violation:
    first = error.errors[0] if error.errors else {}
    highlight = str(first.get("highlight") or "")
    said = str(first.get("description") or error).partition(" but got <Token")[0]
    # The column is that of the last character.
    end = offset_of(body, int(first.get("line") or 1), int(first.get("col") or 1)) + 1
    length = max(1, len(highlight))
    message = f"the draft is not SQL: {shortened(said, 200)}"
    return violation_at(draft, offset + max(0, end - length), message, FIX, length)
