"""Any strategy refines a stage, a pass or a part: what it is given, what it inherits, how deep."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from app.contract.errors import FieldConflict
from app.contract.judgement import Finding, OnFail
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from app.contract.strategies import DEEPEST
from tests.engine.engine_driver import EngineDriver, drafts, judged_by, request
from tests.engine.scripted_replies import revised
from workers.engine.moves import Ask, Check, Judged, StepError, ToolResult
from workers.validators.running import compile_validators

PART: dict[str, Any] = {"name": "one", "instructions": "The first chapter."}
JSON: dict[str, Any] = {"kind": "json"}
TOOL = {"name": "find", "description": "Finds.", "url": "https://example.com", "parameters": {}}
STEP = {"name": "", "instruction": "Find it.", "tool": "find", "arguments": {}}


def good(path: str, _: str) -> float:
    return 0.9


def judged(model: EngineDriver) -> list[str]:
    return [move.path for move in model.moves if isinstance(move, Judged)]


def in_itself(depth: int) -> dict[str, Any]:
    """Parts in parts; the innermost strategy is `iterative`."""
    plan: dict[str, Any] = {"kind": "iterative"}
    for _ in range(depth - 1):
        plan = {"kind": "nested", "parts": [PART], "body": plan}
    return plan


def test_strategies_are_played_four_deep_each_below_the_path_of_the_other() -> None:
    model = judged_by(good, drafts())
    outcome = model.play(request(strategy=in_itself(DEEPEST)))
    assert judged(model) == [
        "parts/one/parts/one/parts/one/iterations/1",
        "parts/one/parts/one/iterations/1",
        "parts/one/iterations/1",
        "iterations/1",
    ]
    assert outcome.passed


def test_strategies_are_not_played_deeper() -> None:
    with pytest.raises(ValidationError, match="at most 4 deep"):
        request(strategy=in_itself(DEEPEST + 1))


def test_the_limits_of_an_item_are_its_own_or_those_of_what_it_is_a_part_of() -> None:
    stages = [
        {"name": "first", "max_iterations": 1},
        {"name": "last", "mode": "revise", "threshold": 0.7, "body": {"kind": "multi_pass",
         "passes": [{"focus": "style"}, {"focus": "facts", "threshold": 0.6}]}},
    ]  # fmt: skip
    part = {**PART, "threshold": 0.5}
    plan = {"kind": "nested", "parts": [part], "body": {"kind": "stepwise", "stages": stages}}
    model = judged_by(lambda path, _: 0.4 if "/iterations/0" in path else 0.9, drafts())
    model.play(request(strategy=plan, threshold=0.8))
    told = {it.path: it.threshold for it in model.moves if isinstance(it, Judged)}
    at = "parts/one/stages"
    assert told[f"{at}/first/iterations/1"] == 0.5
    assert told[f"{at}/last/iterations/0"] == 0.7
    assert told[f"{at}/last/passes/style/iterations/0"] == 0.7
    assert told[f"{at}/last/passes/facts/iterations/1"] == 0.6
    assert (told["parts/one/iterations/1"], told["iterations/1"]) == (0.5, None)


async def test_validators_of_parts_in_parts_check_their_own() -> None:
    inner = {**PART, "validators": [{"kind": "length", "max_words": 5}]}
    outer = {**PART, "validators": [JSON]}
    body = {"kind": "nested", "parts": [inner], "body": {"kind": "self_correction"}}
    asked = request(strategy={"kind": "nested", "parts": [outer], "body": body})
    model = judged_by(good, drafts())
    model.play(asked)
    checked = {it.path: it.scopes for it in model.moves if isinstance(it, Check)}
    assert checked == {
        "parts/one/parts/one/iterations/1/check": ("body/parts/one",),
        "parts/one/iterations/1/check": ("parts/one",),
    }
    items = asked.strategy.item_validators()
    assert {it.scope: it.pointer for it in items} == {
        "parts/one": "/parts/0/validators",
        "body/parts/one": "/body/parts/0/validators",
    }
    said = compile_validators((), items=items)
    found = await said.examine("no JSON", scopes=("parts/one", "body/parts/one"))
    assert [it.source for it in found.findings] == ["validators/parts/one/0"]


def test_the_score_of_a_part_without_a_critic_is_the_share_of_its_own_validators() -> None:
    part = {**PART, "validators": [JSON, {"kind": "length", "max_words": 1}]}
    plan = {"kind": "nested", "parts": [part], "body": {"kind": "self_correction"}}
    wrong = Finding(source="validators/parts/one/0", kind="json", message="no", on_fail=OnFail.VETO)
    model = judged_by(good, ["wrong", "right"])
    model.check = lambda draft: (wrong,) if draft == "wrong" else ()
    asked = request(strategy=plan, validators=[{"kind": "length", "max_words": 9}] * 3)
    model.play(asked)
    scores = [it.judgement.scored.score for it in model.moves if isinstance(it, Judged)]
    assert scores == [0.5, 1.0, 0.9]


def test_what_a_stage_observed_is_known_to_those_after_it_and_to_the_critic_of_the_whole() -> None:
    stages = [{"name": "facts", "body": {"kind": "plan_execute"}}, {"name": "text"}]
    model = judged_by(good, drafts())
    found = revised(met=True, evidence=((1, "42 euros"),))
    model.planner = iter([json.dumps({"steps": [STEP]}), found])
    model.tool = lambda _: ToolResult(True, "It costs 42 euros.")
    outcome = model.play(request(strategy={"kind": "stepwise", "stages": stages}, tools=[TOOL]))
    asked = [it for it in model.moves if isinstance(it, Ask)]
    knowing = {it.path for it in asked if "42 euros" in it.prompt.user}
    assert knowing >= {"stages/text/iterations/1/draft", "iterations/1/critique"}
    assert [it.name for it in outcome.observed] == ["stages/facts: Step 1: Find it."]


@pytest.mark.parametrize(
    "strategy",
    [
        {"kind": "nested", "parts": [PART], "body": {"kind": "plan_execute"}},
        {"kind": "multi_pass", "passes": [{"focus": "facts", "body": {"kind": "plan_execute"}}]},
    ],
)
def test_what_a_part_or_a_pass_observed_is_known_to_the_critic_of_the_whole(
    strategy: dict[str, Any],
) -> None:
    model = judged_by(good, drafts())
    found = revised(met=True, evidence=((1, "42 euros"),))
    model.planner = iter([json.dumps({"steps": [STEP]}), found])
    model.tool = lambda _: ToolResult(True, "It costs 42 euros.")
    model.play(request(strategy=strategy, tools=[TOOL], criteria=[{"name": "true"}]))
    assert "42 euros" in next(
        it.prompt.user for it in model.asked("critic") if it.path == "iterations/1/critique"
    )


def test_a_part_that_is_not_proven_keeps_the_whole_from_passing() -> None:
    body = {"kind": "chain_of_verification"}
    model = judged_by(good, drafts())
    gone = StepError("model_unavailable", "gone")
    answer = model.critic

    def critic() -> Any:
        while True:
            yield gone if model.paths[-1].endswith("verify/questions") else next(answer)

    model.critic = critic()
    outcome = model.play(request(strategy={"kind": "nested", "parts": [PART], "body": body}))
    assert not outcome.passed
    assert [(it.code, it.path) for it in outcome.caveats][-1] == (
        "unverified", "parts/one/iterations/1/verify",
    )  # fmt: skip


def test_what_is_missing_far_inside_is_missing() -> None:
    two = [PART, {**PART, "name": "two"}]
    body = {"kind": "nested", "parts": two}
    model = judged_by(good, ["Text.", StepError("model_unavailable", "gone")])
    outcome = model.play(request(strategy={"kind": "nested", "parts": [PART], "body": body}))
    assert outcome.missing == ("parts/one/parts/two",)
    assert (outcome.passed, outcome.reason) == (False, StopReason.INCOMPLETE)


def refused(strategy: dict[str, Any], **fields: Any) -> FieldConflict:
    with pytest.raises(ValidationError) as invalid:
        request(strategy=strategy, **fields)
    (error,) = invalid.value.errors()
    conflict = error["ctx"]["error"]
    assert isinstance(conflict, FieldConflict)
    return conflict


def stage(**fields: Any) -> dict[str, Any]:
    return {"kind": "stepwise", "stages": [{"name": "a"}, {"name": "b", **fields}]}


VOTE = {"kind": "self_consistency", "n": 2}
JUDGE = {"kind": "critique"}
STAGE, PASS = "/strategy/stages/1", "/strategy/passes/0"
UNFIT = [
    (stage(mode="revise", body=VOTE), f"{STAGE}/body", "`draft` is not supported"),
    (stage(body=JUDGE), f"{STAGE}/body", "`draft` is required"),
    (stage(body={"kind": "self_correction"}), f"{STAGE}/validators", "requires a validator"),
    (stage(body=VOTE, criteria=[{"name": "plain"}]), f"{STAGE}/criteria", "not supported"),
    (stage(mode="revise", body={"kind": "reasoning_revision"}), f"{STAGE}/body", "numbered"),
    (
        {"kind": "multi_pass", "passes": [{"focus": "style", "body": JUDGE}]},
        f"{PASS}/body",
        "`draft` is required",
    ),
    ({"kind": "nested", "parts": [PART], "body": {"kind": "nested"}}, "/strategy/body/parts", "or"),
    (
        {"kind": "nested", "parts": [PART], "body": stage(body=JUDGE)},
        "/strategy/body/stages/1/body",
        "`draft` is required",
    ),
]


@pytest.mark.parametrize(("strategy", "pointer", "why"), UNFIT)
def test_a_body_that_cannot_do_what_it_is_given_is_refused_where_it_stands(
    strategy: dict[str, Any], pointer: str, why: str
) -> None:
    conflict = refused(strategy)
    assert conflict.pointer == pointer
    assert why in str(conflict)


def test_a_body_that_writes_more_drafts_than_its_stage_may_have_is_refused() -> None:
    with pytest.raises(ValidationError, match="max_iterations must be at least 4"):
        request(strategy=stage(body={"kind": "best_of_n", "n": 4}))


def test_tools_are_for_a_body_at_any_depth_that_plans() -> None:
    plan: RefinementRequest = request(strategy=stage(body={"kind": "plan_execute"}), tools=[TOOL])
    assert plan.tools
    assert refused(stage(), tools=[TOOL]).pointer == "/tools"
