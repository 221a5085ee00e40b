"""SQL that must parse, over tables and columns that there are."""

from typing import get_args

import pytest
from sqlglot.dialects import Dialects

from app.contract.validators.sql import SqlDialect, SqlValidator
from workers.validators.running import compile_validators
from workers.validators.sql import check_sql
from workers.validators.violation import Violation

TABLES = {"users": ["id", "name", "email"], "public.orders": ["id", "user_id", "total"], "log": []}


def found(draft: str, dialect: str = "postgres") -> list[Violation]:
    validator = SqlValidator.model_validate({"kind": "sql", "dialect": dialect, "tables": TABLES})
    return list(check_sql(validator, draft))


def test_every_dialect_is_one_that_the_parser_knows() -> None:
    assert {*get_args(SqlDialect)} <= {each.value for each in Dialects}


@pytest.mark.parametrize(
    "draft",
    [
        "SELECT 1",
        (
            "SELECT u.name, sum(total) AS spent FROM Users u JOIN orders ON user_id = u.id"
            " GROUP BY u.name ORDER BY spent"
        ),
        "WITH big AS (SELECT * FROM orders WHERE total > 9) SELECT big.user_id, total FROM big",
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)"
            " SELECT i FROM n"
        ),
        "SELECT name FROM users u WHERE EXISTS (SELECT 1 FROM orders WHERE user_id = u.id)",
        "SELECT x.n FROM (SELECT name AS n FROM users) x",
        "SELECT anything FROM log",
        "SELECT users FROM users",
        "SELECT g FROM generate_series(1, 9) AS g",
        "SELECT id FROM users UNION SELECT user_id FROM orders",
        (
            "INSERT INTO users (id, name) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE"
            " SET name = excluded.name"
        ),
        "INSERT INTO users SELECT id, id, id FROM orders",
        "UPDATE users SET name = 'a' WHERE id = 1",
        "UPDATE users AS u SET name = o.total FROM orders o WHERE o.user_id = u.id",
        "DELETE FROM orders WHERE user_id IN (SELECT id FROM users)",
        "CREATE TABLE t (a int, b int); INSERT INTO t (a, b) VALUES (1, 2); SELECT a FROM t",
        "CREATE VIEW v AS SELECT name FROM users; SELECT name FROM v",
        "```sql\nSELECT id FROM public.orders -- all\n```",
        "DROP TABLE users",
        "SELECT id, name FROM users UNION ALL SELECT id, total FROM orders ORDER BY name",
        (
            "SELECT u.name, s.n FROM users u CROSS JOIN LATERAL"
            " (SELECT count(*) AS n FROM orders WHERE user_id = u.id) s"
        ),
        "SELECT user_id, sum(total) t FROM orders GROUP BY user_id HAVING sum(total) > 3 AND t > 1",
        "ALTER TABLE users ADD COLUMN age int; UPDATE users SET age = 3",
        "ALTER TABLE users RENAME TO people; SELECT id FROM people",
        "SELECT a.n FROM users AS a(i, n)",
        "UPDATE users SET name = DEFAULT",
        "SELECT count FROM (SELECT count(*) FROM users) c",
        "SELECT ctid FROM app.users",
        "UPDATE orders SET total = (SELECT max(id) FROM users WHERE email = orders.total)",
        "DELETE FROM users u WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id)",
        "SELECT s.sum FROM (SELECT id, sum(total) FROM orders GROUP BY 1) s",
        "SELECT name FROM users UNION SELECT lower(name) FROM users ORDER BY name",
        "SELECT o.id FROM orders o FOR UPDATE OF o SKIP LOCKED",
        "CREATE INDEX i ON users USING gin (name gin_trgm_ops)",
        "DROP TABLE IF EXISTS t; CREATE TABLE t (a int) INHERITS (orders); SELECT total FROM t",
        "SELECT i, name FROM (SELECT id, name FROM users) AS q(i)",
        "SELECT * INTO copied FROM users; SELECT name FROM copied",
        "INSERT INTO users (id) VALUES (1) RETURNING (xmax = 0) AS inserted",
        "~~~sql\nSELECT id FROM users\n~~~",
    ],
)
def test_accepts(draft: str) -> None:
    assert found(draft) == []


@pytest.mark.parametrize(
    ("draft", "dialect"),
    [
        ("DELETE o FROM orders o JOIN users u ON u.id = o.user_id", "mysql"),
        ("UPDATE u SET u.name = 'x' FROM users u JOIN orders o ON o.user_id = u.id", "tsql"),
        ("SELECT s.t FROM users OUTER APPLY (SELECT sum(total) AS t FROM orders) s", "tsql"),
        ("SELECT sysdate FROM dual", "oracle"),
        ("SELECT name.device.kind FROM users", "bigquery"),
        ("SELECT id, a, v FROM users UNPIVOT (v FOR a IN (name, email))", "bigquery"),
        (
            "SELECT [1] FROM (SELECT id, total FROM orders) s PIVOT (sum(total) FOR id IN ([1])) p",
            "tsql",
        ),
        ("SELECT /*+ BROADCAST(u) */ u.id FROM users u", "spark"),
        ("SELECT rowid, name FROM users", "sqlite"),
    ],
)
def test_accepts_what_a_dialect_has(draft: str, dialect: str) -> None:
    assert found(draft, dialect) == []


@pytest.mark.parametrize(
    ("draft", "said", "quote"),
    [
        ("SELECT a b c FROM users", "Unexpected token at line 1, column 12", "c"),
        ("SELECT FROM\nWHERE", "Expected table name at line 2, column 1", "WHERE"),
        ("SELECT name FROM user", "unknown table 'user'", "user"),
        ("SELECT nmae FROM users", "unknown column 'nmae' at line 1, column 8", "nmae"),
        ("SELECT u.total FROM users u", "'u' has no column 'total'", "total"),
        ("SELECT o.id FROM users u", "unknown table 'o'", "o"),
        ("WITH a AS (SELECT id FROM users) SELECT name FROM a", "unknown column 'name'", "name"),
        ("SELECT (SELECT nope FROM orders) FROM users", "unknown column 'nope'", "nope"),
        ("SELECT name FROM users WHERE id = (SELECT max(o.nope) FROM orders o)", "'o' has", "nope"),
        ("INSERT INTO users (id, nope) VALUES (1, 2)", "'users' has no column 'nope'", "nope"),
        ("UPDATE users SET nope = 1", "unknown column 'nope'", "nope"),
        ("DELETE FROM users WHERE nope = 1", "unknown column 'nope'", "nope"),
        ("CREATE TABLE t (a int); SELECT b FROM t", "unknown column 'b'", "b"),
        ("```sql\nSELECT nope FROM users\n```", "at line 2, column 8", "nope"),
        (
            "SELECT user_id FROM orders GROUP BY user_id HAVING max(totl) > 1",
            "column 'totl'",
            "totl",
        ),
        ("SELECT id FROM users UNION SELECT id FROM log ORDER BY nope", "column 'nope'", "nope"),
        ("UPDATE users SET id = (SELECT max(totl) FROM orders)", "column 'totl'", "totl"),
        ("CREATE INDEX i ON usrs (id)", "unknown table 'usrs'", "usrs"),
        ("SELECT id FROM app.orders", "unknown table 'app.orders'", "orders"),
        ("SELECT id FROM users WHERE", "'this' missing in Where", "WHERE"),
        ("SELECT 'x", "not SQL", None),
        ("EXPLAIN SELECT 1", "this EXPLAIN statement is not supported", None),
        ("hello", "not an SQL statement: 'hello'", None),
        ("this is not sql", "not an SQL statement", None),
        ("-- nothing", "no SQL statement", None),
    ],
)
def test_points_at_what_is_wrong(draft: str, said: str, quote: str | None) -> None:
    (hit,) = found(draft)
    assert said in hit.message
    assert hit.quote == quote


def test_proposes_the_closest_name() -> None:
    assert found("SELECT nmae FROM users")[0].fix == "did you mean 'name'?"


def test_a_dialect_has_its_own_syntax() -> None:
    assert found("SELECT `id` FROM users", "mysql") == []
    assert found("SELECT TOP 3 id FROM [users]", "tsql") == []
    assert found("SELECT TOP 3 id FROM [users]", "postgres")


def test_without_tables_only_the_syntax_counts() -> None:
    assert list(check_sql(SqlValidator(kind="sql"), "SELECT a FROM b")) == []


@pytest.mark.parametrize(
    "draft", ["SELECT " + "(" * 50_000, "SELECT 1" + " + 1" * 400_000, "SELECT " + "NOT " * 40_000]
)
async def test_hostile_sql_comes_to_an_end(draft: str) -> None:
    assert await compile_validators([SqlValidator(kind="sql")]).run(draft)
