"""SQL that is run on the tables of a request, in memory, within limits, and nowhere else."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.contract.validators.sql import SqlValidator
from tests.validators import violations
from workers.children.child_process import OutOfTime, cpu_limit
from workers.validators.running import compile_validators
from workers.validators.sql import RUN_S
from workers.validators.violation import HIDES_OTHERS, MAX_VIOLATIONS, Violation

TABLES = {"orders": ["id", "customer", "total"], "customers": ["id", "name"]}
ODD = "Cy; 'O'"
ROWS = {
    "orders": [[1, 1, 10.5], [2, 1, 4.5], [3, 2, 7]],
    "customers": [[1, "Ann"], [2, "Bo"], [3, ODD]],
}


def validator(**fields: Any) -> SqlValidator:
    given = {"kind": "sql", "dialect": "sqlite", "tables": TABLES, "rows": ROWS, **fields}
    return SqlValidator.model_validate(given)


def found(draft: str, **fields: Any) -> list[Violation]:
    return violations(validator(**fields), draft)


def messages(draft: str, *expected: list[Any], **fields: Any) -> list[str]:
    return [it.message for it in found(draft, expected_rows=list(expected), **fields)]


@pytest.mark.parametrize(
    ("draft", "expected"),
    [
        ("SELECT count(*) FROM orders", [[3]]),
        (
            (
                "SELECT name, sum(total) FROM customers c JOIN orders o ON o.customer = c.id"
                " GROUP BY name"
            ),
            [["Bo", 7], ["Ann", 15.0]],
        ),
        ("UPDATE orders SET total = 0 WHERE id = 3; SELECT total FROM orders WHERE id = 3", [[0]]),
        ("CREATE TABLE t AS SELECT id FROM orders; SELECT max(id) FROM t;", [[3]]),
        ("SELECT name FROM customers WHERE name LIKE '%;%' -- a; comment", [[ODD]]),
        ("SELECT id > 1, NULL FROM customers WHERE id < 3", [[False, None], [True, None]]),
        ("SELECT 0.1 + 0.2", [[0.3]]),
        ("```sql\nSELECT id FROM orders WHERE total > 100\n```", []),
    ],
)  # fmt: skip
def test_the_rows_that_are_expected_pass(draft: str, expected: list[list[Any]]) -> None:
    assert found(draft, expected_rows=expected) == []


def test_every_row_that_is_wrong_is_a_violation() -> None:
    assert messages("SELECT id FROM orders", [1], [2], [4]) == [
        "the result lacks the row (4)",
        "the result has the row (3), which is wrong",
    ]


def test_rows_that_occur_twice_are_counted() -> None:
    assert messages("SELECT customer FROM orders", [1], [2]) == [
        "the result has the row (1), which is wrong"
    ]


def test_the_order_of_rows_counts_only_if_it_is_asked_for() -> None:
    draft = "SELECT id FROM orders ORDER BY id DESC"
    assert messages(draft, [1], [2], [3]) == []
    assert messages(draft, [1], [2], [3], in_order=True) == [
        "row 1 of the result is (3), expected (1)",
        "row 3 of the result is (1), expected (3)",
    ]


def test_what_fails_only_when_it_is_run_is_a_violation_that_hides_others() -> None:
    (violation,) = found("SELECT json_extract('{', '$.a') FROM orders")
    assert "malformed JSON" in violation.message
    assert violation.weight == HIDES_OTHERS


def test_a_draft_that_is_not_sound_is_not_run() -> None:
    (violation,) = found("SELECT amount FROM orders", expected_rows=[])
    assert "unknown column 'amount'" in violation.message


def test_without_rows_nothing_is_run() -> None:
    assert found("SELECT json_extract('{', '$.a') FROM orders", rows=None) == []


def test_no_more_violations_are_reported_than_of_other_validators() -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)"
    assert len(messages(f"{endless} SELECT i FROM n")) == MAX_VIOLATIONS


IS_LONG = "takes more than 0.4 s|needs more than 0.5 s"
"""What is said of a run: the latter by the process, where the kernel's count of ticks is ahead."""

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        (ENDLESS.format("i"), IS_LONG),
        (
            ENDLESS.format("group_concat(hex(randomblob(9000)))"),
            f"{IS_LONG}|memory|too big",
        ),
        ("SELECT zeroblob(2000000)", "too big"),
        (
            (
                "CREATE TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
                " SELECT zeroblob(900000) AS b FROM n"
            ),
            f"takes more than 64 MiB|{IS_LONG}",
        ),
    ],
)
async def test_a_run_is_bounded_in_time_and_memory(draft: str, said: str) -> None:
    (finding,) = await compile_validators([validator(expected_rows=[])]).run(draft)
    assert any(it in finding.message for it in said.split("|"))


@pytest.mark.parametrize("selected", ["i", "max(i)"])
def test_a_run_that_is_ended_before_its_time_is_up_is_not_said_to_take_too_long(
    selected: str,
) -> None:
    with cpu_limit(RUN_S / 10), pytest.raises(OutOfTime):
        found(ENDLESS.format(selected))


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH DATABASE '{}' AS a",
        "VACUUM INTO '{}'",
        "PRAGMA writable_schema = 1",
        "SELECT load_extension('{}')",
        "CREATE VIRTUAL TABLE v USING fts5(a)",
        "CREATE TRIGGER t AFTER INSERT ON orders BEGIN SELECT 1; END",
    ],
)
def test_nothing_but_the_tables_is_reached(statement: str, tmp_path: Path) -> None:
    target = tmp_path / "file"
    assert found(statement.format(target))
    assert not target.exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"dialect": "postgres"}, "dialect sqlite"),
        ({"rows": None, "expected_rows": []}, "requires rows"),
        ({"rows": {"others": []}}, "not in tables: 'others'"),
        ({"rows": {"orders": [[1, 2]]}}, "does not have 3 values"),
        ({"tables": {"a.b": ["x"]}, "rows": {}}, "plain name"),
        ({"tables": {"a": []}, "rows": {}}, "plain name and columns"),
        ({"tables": {"a": ["x", "X"]}, "rows": {}}, "two columns"),
        ({"tables": {"a": ["x"], "A": ["x"]}, "rows": {}}, "two tables"),
        ({"rows": {"orders": [[[], 1, 1]]}}, "valid"),
    ],
)
def test_tables_that_cannot_be_made_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        validator(**fields)
