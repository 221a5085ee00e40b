"""Drafts that are JSON: the schema of the validator is the format of the reply."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from app.contract.judgement import Critique, Finding, OnFail
from app.contract.requests import RefinementRequest
from tests.engine.engine_driver import EngineDriver, driver_scoring, judged_by, request
from workers.engine.asking import CutOff
from workers.engine.moves import Ask, StepError
from workers.engine.pipeline import strategy_for, task_of
from workers.engine.prompts import Amend, Reason, Redo, Revise, Solve, Write
from workers.engine.replies.reader import Refused, ReplyReader, Unreadable

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["total", "note"],
    "additionalProperties": False,
}
OTHER: dict[str, Any] = {**SCHEMA, "properties": {"total": {"type": "integer"}}}
DRAFT = '{\n  "total": 1,\n  "note": "a"\n}'


def schema_check(**changes: Any) -> dict[str, Any]:
    return {"kind": "json_schema", "schema": SCHEMA, **changes}


def asking(**fields: Any) -> RefinementRequest:
    return request(**{"validators": [schema_check()], **fields})


def revision(draft: str = DRAFT, **fields: Any) -> Revise:
    return Revise(task_of(asking(**fields), "482913"), draft, (), Critique(scores=()), ())


def played(*texts: str | StepError, scores: Iterable[float] = (0.4, 0.95), **fields: Any) -> Any:
    model = driver_scoring(*scores, writer=texts)
    return model, model.play(asking(**{"max_iterations": 2, **fields}))


def test_a_draft_is_asked_for_in_the_format_of_the_schema_which_the_words_do_not_repeat() -> None:
    checks = [schema_check(on_fail="revise"), {"kind": "length", "max_words": 9}]
    for asked in (Write(task_of(asking(validators=checks), "482913")), revision(validators=checks)):
        prompt = asked.prompt()
        assert (prompt.schema, prompt.is_document) == (SCHEMA, True)
        assert "additionalProperties" not in prompt.user
        assert "one JSON object" in prompt.user
        assert "at most 9 words" in prompt.user


@pytest.mark.parametrize(
    "checks",
    [
        [schema_check(on_fail="warn")],
        [schema_check(), schema_check(schema=OTHER)],
        [schema_check(schema={"type": "object", "required": ["total"]})],
        [schema_check(schema={"type": "array", "items": {"type": "string"}})],
        [{"kind": "json"}],
        [],
    ],
    ids=["only warns", "two schemas", "open", "an array", "no schema", "nothing"],
)
def test_other_schemas_stay_in_words(checks: list[dict[str, Any]]) -> None:
    task = task_of(asking(validators=checks), "482913")
    prompt = Write(task).prompt()
    assert prompt.schema is None
    for words in task.checks:
        assert words in prompt.user


def test_a_second_schema_that_only_warns_does_not_matter() -> None:
    checks = [schema_check(schema=OTHER, on_fail="warn"), schema_check()]
    assert Write(task_of(asking(validators=checks), "482913")).prompt().schema == SCHEMA


def test_answers_after_reasoning_and_numbered_steps_have_no_format() -> None:
    task = task_of(asking(), "482913")
    redo = Redo(task, "", "1. a", 1, (), Critique(scores=()))
    for asked in (Solve(task), Reason(task), redo):
        assert asked.prompt().schema is None
        assert json.dumps(SCHEMA) in asked.prompt().user


def asked_for(model: EngineDriver) -> dict[str, bool]:
    """Whether each text was asked for as a document, by its path."""
    return {it.path: it.prompt.is_document for it in model.asked("generator")}


PARTS = [{"name": "a", "instructions": "One."}, {"name": "b", "instructions": "Two."}]
STAGES = [{"name": "outline"}, {"name": "whole", "sections": True}, {"name": "last"}]
WEAK = "passes/format/iterations/0/"
ON_THE_WAY = [
    ({"kind": "nested", "parts": PARTS}, []),
    (
        {"kind": "multi_pass", "passes": [{"focus": "facts"}, {"focus": "format"}]},
        ["passes/format/iterations/1/revise"],
    ),
    ({"kind": "stepwise", "stages": STAGES}, ["stages/last/iterations/1/draft"]),
    ({"kind": "stepwise", "stages": STAGES[:2]}, []),
    ({"kind": "best_of_n", "n": 2}, ["iterations/1/draft", "iterations/2/draft"]),
]


@pytest.mark.parametrize(
    ("strategy", "documents"), ON_THE_WAY, ids=["parts", "passes", "stages", "sections", "samples"]
)
def test_only_the_whole_text_has_the_format(strategy: dict[str, Any], documents: list[str]) -> None:
    texts = iter(lambda: json.dumps({"total": 1, "note": "x"}), "")
    model = judged_by(lambda path, _: 0.4 if path.startswith(WEAK) else 0.9, texts)
    model.play(asking(strategy=strategy))
    assert [path for path, is_document in asked_for(model).items() if is_document] == documents


OBJECT = '{ "note": "a \\" b {", "total": 1 }'
READ = {
    "bare": OBJECT,
    "in a fence": f"```json\n{OBJECT}\n```",
    "in a chatty reply": f"Sure! Here is the JSON [v2]:\n\n```json\n{OBJECT}\n```\n\nEnjoy!",
    "after a line": f"Here it is: {OBJECT}",
    "after thinking": f'<think>{{"total": 2}} no</think>\n{OBJECT}',
    "twice the same": f'{OBJECT}\n\nAgain: {{"total":1,"note":"a \\" b {{"}}',
    "after the schema": f"{json.dumps(SCHEMA)}\n{OBJECT}",
    "with a tag within": '{"note": "</think>", "total": 1}',
}


@pytest.mark.parametrize("name", READ)
def test_the_object_is_the_draft_as_it_is_written(name: str) -> None:
    expected = READ[name] if name == "with a tag within" else OBJECT
    assert ReplyReader(READ[name], revision()).document() == expected


UNREADABLE = {
    "two objects that Python takes for one": ('{"total": 1}\n{"total": true}', "2 different"),
    "two objects": (f'{OBJECT}\n{{"total": 2}}', "2 different JSON objects"),
    "a comma too many": ('{"total": 1,}', "not JSON"),
    "single quotes": ("{'total': 1}", "not JSON"),
    "NaN": ('{"total": NaN}', "not JSON: NaN"),
    "a name twice": ('{"total": 1, "total": 2}', "'total' stands twice"),
    "cut off": ('{"total": 1, "note": "a', "cut off"),
    "within something broken": (f"{{ this is it: {OBJECT} and more }}", "cannot be read"),
    "in a list": (f"[{OBJECT}]", "no JSON object"),
    "prose": ("The total is 1.", "no JSON object"),
    "nothing but thinking": (f"<think>{OBJECT}", "thinking"),
    "nothing": ("", "no JSON object"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_not_one_json_object_is_asked_for_again(name: str) -> None:
    text, reason = UNREADABLE[name]
    with pytest.raises(Unreadable, match=reason):
        ReplyReader(text, revision()).document()


def test_a_refusal_is_told_from_a_reply_without_an_object() -> None:
    with pytest.raises(Refused):
        ReplyReader("I'm sorry, but I can't help with that.", revision()).document()


def test_a_draft_that_comes_back_unchanged_is_a_draft_that_stays() -> None:
    prose = "The total is 1.\n"
    assert ReplyReader(prose, revision(prose)).document() == prose.strip()


def test_a_reply_in_a_fence_and_with_words_around_it_ends_as_the_bare_object() -> None:
    model, outcome = played("The total is 1.", READ["in a chatty reply"], scores=[0.95])
    draft = outcome.best.scored.draft
    assert (draft.text, draft.is_reply) == (OBJECT, False)
    first, second = model.asked("generator")
    assert second.path == f"{first.path}/again/1"
    assert "no JSON object" in second.prompt.user
    assert second.prompt.schema == SCHEMA


def test_replies_without_an_object_fail_the_step() -> None:
    with pytest.raises(StepError, match="no JSON object") as failure:
        played("a", "b", "c")
    assert failure.value.code == "unreadable_draft"


LONG = json.dumps({"total": 1, "note": "word " * 400})
LONGER = LONG.replace("word", "term")
EDITS = json.dumps({"edits": [{"search": '"total": 1', "replace": '"total": 2'}]})


def test_a_long_draft_that_is_good_is_rewritten_and_not_edited() -> None:
    model, outcome = played(LONGER, scores=(0.6, 0.95), draft=LONG, edits="auto")
    assert [type(it.prompt_request) for it in model.asked("generator")] == [Revise]
    assert outcome.best.scored.draft.text == LONGER


def test_edits_that_the_client_demands_are_asked_for() -> None:
    model, outcome = played(EDITS, scores=(0.6, 0.95), draft=LONG, edits="delta")
    (asked,) = model.asked("generator")
    assert isinstance(asked.prompt_request, Amend)
    assert json.dumps(SCHEMA) in asked.prompt.user
    assert not asked.prompt.is_document
    assert outcome.best.scored.draft.text == LONG.replace("1", "2", 1)


def test_a_document_that_is_cut_off_is_not_asked_for_shorter() -> None:
    cut_off = StepError("reply_cut_off", "cut off")
    model, _ = played(cut_off, DRAFT, scores=[0.95])
    _, second = model.asked("generator")
    assert second.room == 1
    assert "give the whole text" in second.prompt.user


@pytest.mark.parametrize("code", ["model_refused", "prompt_too_long"])
def test_a_server_that_refuses_more_room_is_asked_for_edits(code: str) -> None:
    cut_off, refused = StepError("reply_cut_off", "cut off"), StepError(code, "65536 is too much")
    model, outcome = played(cut_off, refused, EDITS, scores=(0.4, 0.95), draft=LONG)
    assert [it.path for it in model.asked("generator")] == [
        "iterations/1/revise",
        "iterations/1/revise/again/1",
        "iterations/1/revise/edits",
    ]
    assert outcome.best.scored.draft.text == LONG.replace("1", "2", 1)


def test_a_refusal_without_more_room_fails_at_once() -> None:
    with pytest.raises(StepError, match="model_refused") as failure:
        played(StepError("model_refused", "no"), DRAFT)
    assert not isinstance(failure.value, CutOff)


def test_a_draft_that_violates_the_schema_is_revised_in_the_same_format() -> None:
    finding = Finding(
        source="validators/0",
        kind="json_schema",
        message="at /total: 'x' is not of type 'integer'",
        on_fail=OnFail.VETO,
    )
    model = driver_scoring(0.9, 0.9, writer=['{"total": "x", "note": ""}', DRAFT])
    model.check = lambda draft: (finding,) if '"x"' in draft else ()
    outcome = model.run(strategy_for(asking(max_iterations=2), "482913"), asking().limits())
    assert outcome.best.scored.draft.text == DRAFT
    revise = model.asked("generator")[-1]
    assert isinstance(revise, Ask)
    assert revise.prompt.schema == SCHEMA
    assert finding.message in revise.prompt.user
