"""Validators of a stage, a pass or a part check it; those of the request check the whole."""

import pytest
from pydantic import ValidationError

from app.contract.errors import FieldConflict
from app.contract.judgement import CriterionScore, Finding, FindingsReply, OnFail
from app.contract.status import StopReason
from app.service.admission import check_validators
from tests.engine.engine_driver import EngineDriver, drafts, judged_by, request
from workers.engine.moves import Check, Judged
from workers.validators.running import compile_validators

BULLETS: dict[str, object] = {"kind": "regex", "pattern": r"(?m)^- "}
SHORT: dict[str, object] = {"kind": "length", "max_words": 120}
MEASURED: dict[str, object] = {
    "kind": "http", "url": "https://e.com", "score": {"as": "decides"}, "on_fail": "warn",
}  # fmt: skip
OUTLINE: dict[str, object] = {
    "name": "outline",
    "criteria": [{"name": "complete"}],
    "max_iterations": 1,
}
POLISH: dict[str, object] = {"name": "polish", "mode": "revise", "max_iterations": 1}


def good(path: str, _: str) -> float:
    return 0.9


def checks(model: EngineDriver) -> list[tuple[str, tuple[str, ...]]]:
    return [(it.path, it.scopes) for it in model.moves if isinstance(it, Check)]


def stepwise(*stages: dict[str, object]) -> dict[str, object]:
    return {"kind": "stepwise", "stages": list(stages)}


def test_those_of_a_stage_check_it_and_the_requests_check_the_last_one_and_the_whole() -> None:
    model = judged_by(good, ["- one\n- two", "the text", "the polished text"])
    strategy = stepwise(
        {**OUTLINE, "validators": [BULLETS]}, {"name": "draft"}, {**POLISH, "validators": [SHORT]}
    )
    model.play(request(strategy=strategy, validators=[SHORT]))
    assert checks(model) == [
        ("stages/outline/iterations/1/check", ("stages/outline",)),
        ("stages/polish/iterations/0/check", ("", "stages/polish")),
        ("iterations/1/check", ("",)),
    ]


def test_a_stage_that_its_own_validator_vetoes_is_not_verified() -> None:
    veto = Finding(
        source="validators/stages/outline/0", kind="regex", message="no", on_fail=OnFail.VETO
    )
    model = judged_by(good, ["an outline"] * 4)
    model.check = lambda draft: (veto,)
    strategy = stepwise({**OUTLINE, "validators": [BULLETS]}, {"name": "draft"})
    model.play(request(strategy=strategy))
    assert not any("stages/draft" in it.path for it in model.moves)


def test_the_writer_of_a_stage_is_told_what_its_own_validators_check() -> None:
    model = judged_by(good, ["- one\n- two", "the text"])
    model.play(request(strategy=stepwise({**OUTLINE, "validators": [SHORT]}, {"name": "draft"})))
    outline, draft = model.asked("generator")
    assert "at most 120 words" in outline.prompt.user
    assert "at most 120 words" not in draft.prompt.user


def test_those_of_a_pass_check_it() -> None:
    model = judged_by(lambda *_: 0.5, ["a", "b", "c", "d"])
    passes = [{"focus": "structure", "validators": [BULLETS]}, {"focus": "style"}]
    strategy = {"kind": "multi_pass", "passes": passes}
    model.play(request(strategy=strategy, draft="Shops pay.", validators=[SHORT]))
    scopes = [it for _, it in checks(model)]
    assert scopes[0] == ("",)
    assert scopes[1:3] == [("passes/structure",)] * 2
    assert set(scopes[3:]) == {("",)}


def test_those_of_a_part_check_it_and_the_last_stage_of_its_body_but_not_the_joined_whole() -> None:
    model = judged_by(good, ["outline", "one", "outline", "two"])
    parts = [
        {"name": "one", "instructions": "First.", "validators": [SHORT]},
        {"name": "two", "instructions": "Second."},
    ]
    body = stepwise({**OUTLINE, "validators": [BULLETS]}, {"name": "draft"})
    model.play(request(strategy={"kind": "nested", "parts": parts, "body": body}))
    assert checks(model) == [
        ("parts/one/stages/outline/iterations/1/check", ("stages/outline",)),
        ("parts/one/stages/draft/iterations/1/check", ("parts/one",)),
        ("parts/one/iterations/1/check", ("parts/one",)),
        ("parts/two/stages/outline/iterations/1/check", ("stages/outline",)),
    ]


def test_the_score_of_a_stages_validator_counts_in_that_stage_alone() -> None:
    model = judged_by(good, ["- one", "the text"])
    scores = (CriterionScore(criterion="http", score=0.3),)
    model.check = lambda draft: FindingsReply(scores=scores)
    strategy = stepwise({**OUTLINE, "validators": [MEASURED]}, {"name": "draft"})
    outcome = model.play(request(strategy=strategy))
    judged = {it.path: it.judgement for it in model.moves if isinstance(it, Judged)}
    stage = judged["stages/outline/iterations/1"].scored
    assert (stage.score, stage.score_from) == (0.3, "validators")
    assert (outcome.best.scored.score, outcome.score_from) == (0.9, "critique")


def own_finding(path: str, *, skipped: bool = False) -> Finding:
    return Finding(
        source=f"validators/{path}/0",
        kind="regex",
        message="no bullets",
        on_fail=OnFail.VETO,
        skipped=skipped,
    )


PASSES = {"kind": "multi_pass", "passes": [{"focus": "style", "validators": [BULLETS]}]}
PARTS = {
    "kind": "nested",
    "parts": [
        {"name": "one", "instructions": "First.", "validators": [BULLETS]},
        {"name": "two", "instructions": "Second."},
    ],
}


@pytest.mark.parametrize(("strategy", "path"), [(PASSES, "passes/style"), (PARTS, "parts/one")])
@pytest.mark.parametrize("skipped", [False, True])
def test_a_text_does_not_pass_whose_part_or_pass_was_vetoed_or_not_checked(
    strategy: dict[str, object], path: str, *, skipped: bool
) -> None:
    model = judged_by(good, ["one", "two", "three", "four", "five", "six"])
    model.check = lambda draft: FindingsReply(findings=(own_finding(path, skipped=skipped),))
    outcome = model.play(request(strategy=strategy))
    code = "validator_skipped" if skipped else "goal_not_met"
    (caveat,) = outcome.caveats
    assert (caveat.code, caveat.path) == (code, path)
    assert caveat.detail == f"validators/{path}/0: no bullets"
    assert (outcome.passed, outcome.reason) == (False, StopReason.INCOMPLETE)


def test_a_part_that_misses_a_floor_of_its_own_criteria_is_said() -> None:
    criteria = [{"name": "plain", "floor": 0.8}]
    parts = [{"name": "one", "instructions": "First.", "criteria": criteria}]
    model = judged_by(lambda path, _: 0.5 if path.startswith("parts") else 0.9, ["one"] * 4)
    outcome = model.play(request(strategy={"kind": "nested", "parts": parts}))
    assert [(it.code, it.path) for it in outcome.caveats] == [("goal_not_met", "parts/one")]
    assert not outcome.passed


def test_a_stage_that_was_not_checked_is_said_where_that_is_accepted() -> None:
    skipped = own_finding("stages/outline", skipped=True)
    model = judged_by(good, ["an outline", "the text"])
    model.check = lambda draft: (skipped.model_copy(update={"on_fail": OnFail.WARN}),)
    strategy = stepwise({**OUTLINE, "validators": [BULLETS]}, {"name": "draft"})
    outcome = model.play(request(strategy=strategy, accept=["validator_skipped"]))
    assert [(it.code, it.path) for it in outcome.caveats] == [
        ("validator_skipped", "stages/outline")
    ]
    assert outcome.passed


async def test_findings_say_whose_validator_they_are_of() -> None:
    strategy = stepwise({**OUTLINE, "validators": [BULLETS]}, {"name": "draft"})
    asked = request(strategy=strategy, validators=[SHORT, {"kind": "contains", "texts": ["fee"]}])
    items = asked.strategy.item_validators()
    port = compile_validators(asked.validators, items=items)
    found = (await port.examine("text", scopes=("", "stages/outline"))).findings
    assert [it.source for it in found] == ["validators/1", "validators/stages/outline/0"]


def test_a_mistake_in_one_is_pointed_at_where_it_stands() -> None:
    body = stepwise({**OUTLINE, "validators": [{**BULLETS, "pattern": "("}]}, {"name": "draft"})
    parts = [{"name": "one", "instructions": "First."}]
    asked = request(strategy={"kind": "nested", "parts": parts, "body": body})
    (error,) = check_validators(list(asked.all_validators()))
    assert error.pointer == "/strategy/body/stages/0/validators/0/pattern"


def test_names_of_scores_are_unique_in_all_of_the_request() -> None:
    strategy = stepwise({**OUTLINE, "validators": [MEASURED]}, {"name": "draft"})
    with pytest.raises(ValidationError) as refused:
        request(strategy=strategy, validators=[MEASURED])
    (error,) = refused.value.errors()
    conflict = error["ctx"]["error"]
    assert isinstance(conflict, FieldConflict)
    assert conflict.pointer == "/strategy/stages/0/validators/0/score/name"


@pytest.mark.parametrize("kind", ["iterative", "best_of_n", "self_correction"])
def test_a_strategy_without_items_has_no_place_for_them(kind: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        request(strategy={"kind": kind, "validators": [SHORT]}, validators=[SHORT])


@pytest.mark.parametrize("kind", ["nested", "stepwise"])
def test_those_of_a_body_that_asks_no_critic_check_it(kind: str) -> None:
    item, body = {"name": "answer", "validators": [BULLETS]}, {"kind": "self_consistency", "n": 2}
    model = judged_by(good, ["forty-two"] * 5)
    strategy = (
        {"kind": "nested", "parts": [item | {"instructions": "The number."}], "body": body}
        if kind == "nested"
        else stepwise(item | {"body": body})
    )
    model.play(request(strategy=strategy))
    scope = f"{'parts' if kind == 'nested' else 'stages'}/answer"
    assert [scopes for _, scopes in checks(model)][:2] == [(scope,)] * 2


VERIFYING = {"kind": "chain_of_verification", "max_questions": 1}


@pytest.mark.parametrize(
    ("strategy", "draft"),
    [
        (
            {"kind": "nested", "parts": [{"name": "a", "instructions": "x"}], "body": VERIFYING},
            None,
        ),
        (
            {
                "kind": "multi_pass",
                "passes": [{"focus": "facts", "body": VERIFYING, "max_iterations": 1}],
            },
            "One two three four five six.",
        ),
        (stepwise({"name": "a", "body": VERIFYING, "max_iterations": 1}), None),
    ],
    ids=["nested", "multi_pass", "stepwise"],
)
def test_what_a_verifying_body_has_found_false_does_not_pass_as_a_whole(
    strategy: dict[str, object], draft: str | None
) -> None:
    def score(path: str, _: str) -> float:
        return 0.5 if path.startswith("iterations/0") else 0.95

    model = judged_by(score, drafts(), lambda: True)
    given = {"draft": draft} if draft else {}
    outcome = model.play(request(strategy=strategy, threshold=0.9, **given))
    assert (outcome.passed, outcome.reason) == (False, StopReason.INCOMPLETE)
    assert "goal_not_met" in {caveat.code for caveat in outcome.caveats}
