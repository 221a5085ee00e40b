"""What the editor makes of a JSON draft is read like any other model's."""

import pytest

from app.contract.judgement import Critique, Finding
from app.contract.requests import RefinementRequest
from workers.editor import editor_reply
from workers.engine.pipeline import task_of
from workers.engine.prompts import Revise
from workers.engine.replies.reader import ReplyReader

SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["total", "note"],
    "additionalProperties": False,
}
BAD = Finding(source="validators/0", kind="json_schema", message="the draft is not JSON")


@pytest.mark.parametrize(
    ("draft", "expected"),
    [
        ('{"total": "1", "note": "x",}', '{"total": 1, "note": "x"}'),
        ('Here it is:\n{"total": 1, "note": "x"}\nBye.', '{"total": 1, "note": "x"}'),
        ("```json\n{'total': 1, 'note': 'x'}\n```", '{"total": 1, "note": "x"}'),
        ("The total is 1.", "The total is 1."),
        ('{"total": 1} {"total": 2}', '{"total": 1} {"total": 2}'),
    ],
)
def test_a_document_is_repaired_or_stays_as_it_is(draft: str, expected: str) -> None:
    request = RefinementRequest.model_validate(
        {
            "draft": draft,
            "criteria": [{"name": "conciseness"}],
            "validators": [{"kind": "json_schema", "schema": SCHEMA}],
        }
    )
    asked = Revise(task_of(request, "482913"), draft, (), Critique(scores=()), (BAD,))
    assert ReplyReader(editor_reply(asked), asked).document() == expected
