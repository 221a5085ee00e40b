"""A draft that is a JSON object: its text, its form, and what becomes of a reply."""

import json
from itertools import repeat
from typing import Any

import pytest
from pydantic import ValidationError

from app.contract.object_drafts import ObjectText, object_text, pointer_at, schema_of
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, driver_scoring, judged_by, request, verdict
from tests.engine.test_escape import judging
from workers.engine.pipeline import task_of

PRODUCT = {"sku": "L-1", "name": "Lamp", "price": 39.9, "tags": ["light"], "text": "A lamp, it is."}
BETTER = {**PRODUCT, "text": "A lamp for desks."}


HALF = json.dumps({**BETTER, "text": "A lamp \ud83d"})
"""An object with a text that cannot be encoded, as ASCII that can."""


def product(**fields: Any) -> RefinementRequest:
    return RefinementRequest.model_validate_json(
        json.dumps({"draft": PRODUCT, "criteria": [{"name": "quality"}], **fields}), strict=True
    )


def test_a_record_has_the_object_and_the_text_is_the_same_after_it() -> None:
    given = product(locked=["/price"])
    again = RefinementRequest.model_validate_json(given.model_dump_json(by_alias=True))
    assert (again, again.draft) == (given, object_text(PRODUCT))
    assert isinstance(again.draft, ObjectText)
    assert json.loads(given.model_dump_json())["draft"] == PRODUCT


def test_a_string_that_looks_the_same_is_a_text() -> None:
    given = request(draft=object_text(PRODUCT))
    assert (given.validators, task_of(given, "482913").is_object) == ((), False)


def test_the_form_has_each_member_with_its_type_and_a_locked_one_with_its_value() -> None:
    (validator,) = product(locked=["/price", "/tags/0"]).validators
    (schema,) = validator.json_schemas().values()
    assert not isinstance(schema, bool)
    assert schema["properties"]["price"] == {"const": 39.9}
    assert schema["properties"]["tags"]["prefixItems"] == [{"const": "light"}]
    assert schema["properties"]["text"] == {"type": "string"}
    assert (schema["required"], schema["additionalProperties"]) == ([*PRODUCT], False)


def test_a_revision_becomes_the_text_of_its_object_whatever_its_layout() -> None:
    model = driver_scoring(0.4, 0.9, writer=[json.dumps(BETTER)])
    outcome = model.play(product())
    assert outcome.reason is StopReason.THRESHOLD_MET
    draft = outcome.best.scored.draft
    assert (draft.text, draft.is_reply) == (object_text(BETTER), False)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("A lamp.", "JSON"),
        (json.dumps([BETTER]), "JSON"),
        (json.dumps({"text": "A lamp."}), "lacks the member /sku"),
        (HALF, "at /text: it has half a surrogate pair"),
        (json.dumps(BETTER).replace("39.9", "1e400"), "at /price: the number 1e400 is not kept"),
        (json.dumps(BETTER)[:-1] + ', "sku": "L-1"}', "at /sku: the object has this name twice"),
    ],
)
def test_what_is_no_such_object_is_asked_for_again(reply: str, why: str) -> None:
    model = driver_scoring(0.4, 0.9, writer=[reply, json.dumps(BETTER)])
    assert model.play(product()).best.scored.draft.text == object_text(BETTER)
    assert why in model.asked("generator")[-1].prompt.user


@pytest.mark.parametrize("reply", [r'"A lamp \ud83d\n\nfor desks."', r'{"text": "A lamp \ud83d"}'])
def test_a_text_out_of_json_is_never_half_a_character(reply: str) -> None:
    model = driver_scoring(0.4, 0.9, 0.9, writer=[reply, "A lamp for desks.", "A lamp."])
    text = model.play(request(draft="A lamp, it is.")).best.scored.draft.text
    assert text.encode()


def test_edits_change_members_and_keep_the_text_of_the_object() -> None:
    edits = {"edits": [{"search": '"A lamp, it is."', "replace": '"A lamp for desks."'}]}
    model = driver_scoring(0.4, 0.9, writer=[json.dumps(edits)])
    assert model.play(product(edits="delta")).best.scored.draft.text == object_text(BETTER)


@pytest.mark.parametrize("new", ["\\ud83d", '", "price": 1, "text": "', '"'])
def test_edits_that_leave_no_such_object_are_asked_for_again(new: str) -> None:
    bad = {"edits": [{"search": "A lamp, it is.", "replace": new}]}
    good = {"edits": [{"search": "A lamp, it is.", "replace": "A lamp for desks."}]}
    model = driver_scoring(0.4, 0.9, writer=[json.dumps(bad), json.dumps(good)])
    assert model.play(product(edits="delta")).best.scored.draft.text == object_text(BETTER)


def test_members_keep_the_order_of_the_clients_object() -> None:
    listed = {**PRODUCT, "tags": [{"a": 1, "b": [{"c": 1, "d": 2}]}]}
    turned = {name: listed[name] for name in reversed(PRODUCT)}
    turned["tags"] = [{"b": [{"d": 2, "c": 1}], "a": 1}, {"b": [], "a": 2}]
    model = driver_scoring(0.4, 0.9, writer=[json.dumps(turned)])
    kept = json.loads(model.play(product(draft=listed)).best.scored.draft.text)
    assert [*kept] == [*PRODUCT]
    assert [[*it] for it in kept["tags"]] == [["a", "b"], ["a", "b"]]
    assert [*kept["tags"][0]["b"][0]] == ["c", "d"]


@pytest.mark.parametrize("kind", ["multi_pass", "best_of_n", "self_correction"])
def test_other_strategies_return_an_object_too(kind: str) -> None:
    model = EngineDriver(iter(()), repeat(json.dumps(BETTER)))
    model.critic = judging(model)
    given = product(strategy={"kind": kind}, criteria=[])
    assert isinstance(json.loads(model.play(given).best.scored.draft.text), dict)


@pytest.mark.parametrize(
    "strategy",
    [
        {"kind": "multi_pass", "passes": [{"focus": "style"}, {"focus": "format"}]},
        {"kind": "stepwise", "stages": [{"name": name, "mode": "revise"} for name in "ab"]},
    ],
)
@pytest.mark.parametrize(("own", "is_strict"), [([], True), ([{"type": "object"}], False)])
def test_every_pass_and_stage_is_told_that_it_writes_the_object(
    strategy: dict[str, Any], own: list[dict[str, Any]], is_strict: bool
) -> None:
    written = [json.dumps({**PRODUCT, "text": f"A {name}."}) for name in ("lamp", "light")]
    model = judged_by(lambda path, _: 0.9 if "iterations/1/" in path else 0.4, written)
    validators = [{"kind": "json_schema", "schema": schema} for schema in own]
    model.play(product(strategy=strategy, criteria=[], validators=validators))
    prompts = [asked.prompt for asked in model.asked("generator")]
    assert len(prompts) == 2
    assert [prompt.is_document for prompt in prompts] == [is_strict] * 2
    assert all("one JSON object" in prompt.user for prompt in prompts)


@pytest.mark.parametrize(
    ("message", "line"),
    [("Stilted.", "in /text: Stilted."), ("At /text: stilted.", "At /text: stilted.")],
)
def test_a_finding_says_once_where_the_words_are(message: str, line: str) -> None:
    said = {"kind": "quality", "message": message, "quote": "it is"}
    model = driver_scoring(0, 0.9, writer=[json.dumps(BETTER)])
    model.critic = iter([verdict(0.4, findings=[said]), verdict(0.9)])
    model.play(product())
    assert f'at "it is": {line}' in model.asked("generator")[0].prompt.user


@pytest.mark.parametrize(
    ("words", "pointer"),
    [('"a/b"', "/a~1b"), ("[", "/c"), ('"x"', "/c/1/d"), ("null", "/f/g"), ('"h"', "/h")],
)
def test_a_position_has_the_pointer_of_its_innermost_member(words: str, pointer: str) -> None:
    text = object_text({"a/b": 1, "c": [1, {"d": "x", "e": []}], "f": {"g": None}, "h": {}})
    assert pointer_at(text, text.index(words)) == pointer
    assert pointer_at(text, 0) is pointer_at("A text.", 1) is None


def test_lists_of_several_forms_allow_each_and_an_empty_one_any_scalar() -> None:
    forms = schema_of([{"a": 1}, {"a": 2}, {"b": ""}])["items"]["anyOf"]
    assert [it["required"] for it in forms] == [["a"], ["b"]]
    assert "null" in schema_of([])["items"]["type"]


DEEP: dict[str, Any] = {"a": 1}
for _ in range(20):
    DEEP = {"a": DEEP}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"draft": [1]}, "must be a string or an object"),
        ({"draft": {}}, "at least one member"),
        ({"draft": DEEP}, "levels deep"),
        ({"draft": {"a": "x" * 200_000}}, "at most 200000"),
        ({"locked": ["/nothing"]}, "JSON Pointer"),
        ({"locked": ["price"]}, "JSON Pointer"),
        ({"feedback": "Shorter.", "spans": [{"quote": "Lamp"}]}, "not supported for an object"),
        ({"strategy": {"kind": "nested"}}, "not an object"),
        ({"strategy": {"kind": "stepwise"}}, "writes anew"),
        ({"validators": [{"kind": "json"}] * 20}, "takes one of the 20"),
        (
            {"locked": ["/sku"], "validators": [{"kind": "json_schema", "schema": {}}]},
            "say `const`",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        product(**fields)
