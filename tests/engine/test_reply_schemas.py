"""The schemas of replies leave no way out, within what servers with constrained decoding accept."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from app.contract.judgement import Criterion, Critique, Span
from tests.engine.engine_driver import driver_scoring, request, verdict
from tests.engine.replies.case import READERS, TASK
from tests.models.calls import call
from workers.engine.judging import critique_reader
from workers.engine.prompts import (
    RETRY,
    Amend,
    Compare,
    Judge,
    ListCriteria,
    PromptRequest,
    Revise,
    RevisePassages,
    Task,
)
from workers.engine.replies.reader import ReplyReader
from workers.engine.strategies.plan_execute import Observation, Plan, PlannedStep, Replan
from workers.engine.verification import CheckSteps, Contradict, Question, Vote, Weigh
from workers.models.openai import OpenAI

DRAFT = "Refunds take 14 days."
CRITERIA = tuple(Criterion(name=f"criterion {n}", description="Is it so?") for n in range(1, 4))
ABOUT = Task(TASK, None, CRITERIA, "482913")
SEEN = (Observation(1, PlannedStep("Look."), True, "14 days"),)
ASKED: Mapping[str, PromptRequest] = {
    "critique": Judge(ABOUT, DRAFT),
    "critique of one criterion": Judge(Task(TASK, None, CRITERIA[:1], "482913"), DRAFT),
    "vote": Vote(ABOUT, ("a", "b", "c")),
    "weigh": Weigh(ABOUT, ("a", "b", "c"), ("x", "", "z")),
    "steps": CheckSteps(ABOUT, "1. a\n2. b", 2),
    "plan": Plan(ABOUT, 3),
    "replan": Replan(ABOUT, (), SEEN, 3),
    "edits": Amend(ABOUT, Revise(ABOUT, DRAFT, (), Critique(scores=()), ())),
    "passages": RevisePassages(
        ABOUT,
        Revise(ABOUT, DRAFT, (), Critique(scores=()), ()),
        (Span(start=0, end=7), Span(start=13, end=15)),
    ),
    "preference": Compare(ABOUT, "a", "b"),
    "checklist": ListCriteria(ABOUT),
    "questions": Question(ABOUT, DRAFT, 3),
    "contradictions": Contradict(ABOUT, DRAFT, (("How long?", "30 days."), ("What?", "All."))),
}
KEYWORDS = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "description",
}


def schema_of(name: str) -> dict[str, Any]:
    schema = ASKED[name].prompt().schema
    assert schema is not None
    return schema


def parts_of(schema: Mapping[str, Any], depth: int = 1) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Every schema within a schema, with its depth."""
    yield schema, depth
    for it in (*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])):
        yield from parts_of(it, depth + 1)


def least(schema: Mapping[str, Any], texts: Iterator[str]) -> Any:
    """The smallest value that satisfies a schema: empty lists, and of an enum the last value."""
    if "enum" in schema:
        return schema["enum"][-1]
    kind = schema["type"]
    if kind == "object":
        return {name: least(it, texts) for name, it in schema["properties"].items()}
    if isinstance(kind, list):
        return None
    return {"array": [], "string": next(texts), "boolean": False, "number": 0}[kind]


@pytest.mark.parametrize("name", ASKED)
def test_a_schema_is_within_the_subset_that_every_server_accepts(name: str) -> None:
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    for part, depth in parts_of(schema):
        assert set(part) <= KEYWORDS
        assert depth <= 5 + (part["type"] not in ("object", "array"))
        if part["type"] == "object":
            assert part["required"] == list(part["properties"])
            assert part["additionalProperties"] is False


@pytest.mark.parametrize(
    "name", ["critique", "critique of one criterion", "vote", "steps", "plan", "edits", "checklist"]
)
def test_the_smallest_reply_that_a_schema_allows_has_what_is_needed(name: str) -> None:
    texts = (f"Is it {number}?" for number in itertools.count())
    said = least(schema_of(name), texts)
    if name == "critique":  # null for all criteria is the one thing that no schema can rule out
        said["scores"]["c2"]["score"] = 0.5
    reply = ReplyReader(json.dumps(said), ASKED[name])
    if name.startswith("critique"):
        criteria = ASKED[name].task.criteria
        assert len(critique_reader(criteria, DRAFT)(reply).scores) == len(criteria)
    else:
        assert READERS[name](reply)


def test_a_lone_criterion_must_have_a_score() -> None:
    (score,) = [
        it
        for it, _ in parts_of(schema_of("critique of one criterion"))
        if "enum" in it and "number" in it["type"]
    ]
    assert None not in score["enum"]


@pytest.mark.parametrize("order", [list, sorted])
def test_what_a_score_follows_from_is_written_before_it_also_in_the_order_of_the_alphabet(
    order: Callable[[Iterable[str]], list[str]],
) -> None:
    body = json.loads(OpenAI("http://127.0.0.1").request(call(ASKED["critique"]), frozenset()).body)
    schema = body["response_format"]["json_schema"]["schema"]
    verdict = order(schema["properties"])
    assert verdict.index("findings") < verdict.index("scores")
    for score in schema["properties"]["scores"]["properties"].values():
        assert order(score["properties"]) == ["evidence", "reason", "score"]


def test_a_critic_that_measures_nothing_is_asked_again_with_a_schema_without_null() -> None:
    model = driver_scoring(verdict(None, None, names=("a", "b")), verdict(0.9, 0.9, names="ab"))
    model.play(request(draft=DRAFT, criteria=[{"name": "a"}, {"name": "b"}]))
    first, second = (it.prompt for it in model.asked("critic"))
    assert [has_null(it.schema) for it in (first, second)] == [True, False]
    assert (first.temperature, second.temperature) == (0, RETRY)


def has_null(schema: dict[str, object] | None) -> bool:
    return any(None in it.get("enum", ()) for it, _ in parts_of(schema or {}))


def test_a_critic_that_is_asked_again_for_another_reason_may_measure_less() -> None:
    lacking = verdict(0.9, names="a")
    model = driver_scoring(lacking, verdict(0.9, None, names="ab"))
    outcome = model.play(request(draft=DRAFT, criteria=[{"name": "a"}, {"name": "b"}]))
    assert [has_null(it.prompt.schema) for it in model.asked("critic")] == [True, True]
    assert [it.score for it in outcome.best.scored.scores] == [0.9, None]


def test_every_criterion_has_a_member_that_names_it() -> None:
    scores = schema_of("critique")["properties"]["scores"]["properties"]
    assert list(scores) == ["c1", "c2", "c3"]
    assert [it["description"] for it in scores.values()] == [
        f"criterion {n}: Is it so?" for n in range(1, 4)
    ]
    assert all(f"c{n}. criterion {n}:" in ASKED["critique"].prompt().user for n in range(1, 4))


def test_a_criterion_that_is_named_like_a_key_is_never_taken_for_another() -> None:
    criteria = (Criterion(name="c2"), Criterion(name="C1"))
    schema = Judge(Task(TASK, None, criteria, "482913"), DRAFT).prompt().schema
    assert schema is not None
    keys = list(schema["properties"]["scores"]["properties"])  # type: ignore[index]
    assert keys == ["criterion_1", "criterion_2"]
    reply = '{"scores": {"criterion_1": {"score": 0.1}, "criterion_2": {"score": 0.9}}}'
    read = critique_reader(criteria, DRAFT)(ReplyReader(reply, ASKED["critique"]))
    assert {it.criterion: it.score for it in read.scores} == {"c2": 0.1, "C1": 0.9}
