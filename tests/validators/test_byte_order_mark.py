"""A byte order mark, with which many programs begin a file, is no part of the document."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from app.contract.validators import AnyValidator
from workers.validators import first_findings
from workers.validators.violation import Body, Violation

ONE: TypeAdapter[Any] = TypeAdapter(AnyValidator)
MARK = "\ufeff"
ROWS = {"tables": {"t": ["a"]}, "rows": {"t": [[1]]}, "expected_rows": [[1]]}
DOCUMENTS: list[tuple[dict[str, Any], str, str]] = [
    ({"kind": "json"}, '{"a": 1}\r\n', '{"a" 1}\r\n'),
    ({"kind": "json_schema", "schema": {"required": ["a"]}}, '{"a": 1}', '{"a" 1}'),
    ({"kind": "yaml"}, "a: 1\n", "a: 1\nb: [\n"),
    ({"kind": "toml"}, "a = 1\r\n", "a 1\r\n"),
    ({"kind": "xml"}, "<a/>", "<a><b></a>"),
    ({"kind": "python", "version": "3.11"}, "import os\nprint(os)\n", "import os\nprint(os\n"),
    ({"kind": "sql"}, "SELECT 1", "SELECT 1 FROM ("),
    ({"kind": "sql", "dialect": "sqlite", **ROWS}, "SELECT a FROM t", "SELECT a FROM u"),
    ({"kind": "markdown", "headings": ["# T"]}, "# T\n\nx\n", "# T\n\n### U\n"),
]


def violations(fields: dict[str, Any], draft: str) -> list[Violation]:
    found = first_findings(ONE.validate_python(fields), draft)
    return [each for each in found if isinstance(each, Violation)]


@pytest.mark.parametrize(("fields", "sound", "broken"), DOCUMENTS)
def test_a_document_behind_it_passes_and_what_is_wrong_has_its_place(
    fields: dict[str, Any], sound: str, broken: str
) -> None:
    assert violations(fields, MARK + sound) == []
    (plain, *_), (marked, *_) = violations(fields, broken), violations(fields, MARK + broken)
    assert marked.quote == plain.quote
    assert marked.span == (plain.span and (plain.span[0] + 1, plain.span[1] + 1))


@pytest.mark.parametrize(
    "draft", ["{MARK}a", "{MARK}```\na\n```", "```\n{MARK}a\n```", "{MARK}~~~\na\n~~~"]
)
def test_it_may_stand_before_a_fence_or_in_it(draft: str) -> None:
    body = Body(draft.format(MARK=MARK))
    assert (body.text, body.draft[body.start]) == ("a", "a")
