"""The result against the draft it started from, asked in both orders."""

from dataclasses import replace
from typing import Any

import pytest

from app.contract.judgement import Comparison, Finding, OnFail
from tests.engine.engine_driver import EngineDriver, drafts, driver_scoring, request, verdict
from tests.engine.scripted_replies import preference
from workers.engine.moves import StepError, Stopped
from workers.engine.prompts import Compare
from workers.engine.search import Outcome

OWN = "We refund."


def compared(
    *answers: Any, scores: tuple[float, ...] = (0.4, 0.9), **fields: Any
) -> tuple[EngineDriver, Outcome]:
    """Play until the last score passes, and answer the comparison so."""
    model = EngineDriver(iter([*map(verdict, scores), *answers]), drafts())
    return model, model.play(request(**{"draft": OWN, "compare": True, **fields}))


def comparison(*answers: Any, **fields: Any) -> Comparison:
    found = compared(*answers, **fields)[1].comparison
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ("BA", "better"),
        ("AB", "worse"),
        (["tie", "tie"], "tie"),
        ("AA", "undecided"),
        ("BB", "undecided"),
        (["B", "tie"], "undecided"),
    ],
)
def test_a_verdict_counts_when_it_is_the_same_in_both_orders(answers: Any, told: str) -> None:
    assert comparison(*map(preference, answers)).verdict == told


def test_the_two_texts_change_places_and_nothing_else_is_told() -> None:
    model, outcome = compared(preference("B"), preference("A"))
    one, other = [it for it in model.asked("critic") if it.path.startswith("compare")]
    result = outcome.best.scored.draft.text
    assert (one.path, other.path) == ("compare/1", "compare/2")
    assert (one.prompt_request, other.prompt_request) == (
        Compare(one.prompt_request.task, OWN, result),
        Compare(one.prompt_request.task, result, OWN),
    )
    assert one.prompt.system == other.prompt.system
    assert not any(word in one.prompt.user for word in ["0.4", "0.9", "0.85", "iteration"])
    assert outcome.comparison is not None
    orders = [(it.first, it.better) for it in outcome.comparison.orders]
    assert orders == [("earlier", "result"), ("result", "result")]


def test_without_a_draft_of_the_clients_the_first_one_judged_stands_for_it() -> None:
    told = comparison(preference("B"), preference("A"), draft=None)
    assert (told.against, told.verdict) == ("iterations/1", "better")


def test_parts_are_not_what_a_whole_is_compared_with() -> None:
    stages = [{"name": "outline", "max_iterations": 1, "threshold": 0.1}]
    strategy = {"kind": "stepwise", "stages": stages}
    told = comparison(draft=None, strategy=strategy, scores=(0.4, 0.9))
    assert (told.against, told.verdict, told.orders) == ("iterations/1", "tie", ())


def test_where_validators_alone_judge_the_critic_is_asked_for_this_alone() -> None:
    fields = {"strategy": {"kind": "self_correction"}, "validators": [{"kind": "json"}]}
    wrong = Finding(source="validators/0", kind="json", message="no", on_fail=OnFail.VETO)
    model = EngineDriver(iter(map(preference, "BA")), iter(['{"days": 14}']))
    model.check = lambda draft: () if draft.startswith("{") else (wrong,)
    outcome = model.play(request(draft=OWN, compare=True, **fields))
    assert outcome.comparison is not None
    assert outcome.comparison.verdict == "better"
    assert [it.path for it in model.asked("critic")] == ["compare/1", "compare/2"]


def test_a_result_that_is_the_draft_itself_is_a_tie_and_no_model_is_asked() -> None:
    told = comparison(scores=(0.9,))
    assert (told.against, told.verdict, told.orders) == ("iterations/0", "tie", ())


def test_an_answer_that_cannot_be_read_is_asked_for_again() -> None:
    model, outcome = compared("B, I think", preference("B"), preference("A"))
    assert outcome.comparison is not None
    assert outcome.comparison.verdict == "better"
    assert "compare/1/again/1" in model.paths


@pytest.mark.parametrize("refusal", [Stopped(), StepError("model_unavailable", "down")])
def test_refused_or_failed_there_is_no_comparison_and_it_ends_as_it_would(refusal: Any) -> None:
    plain = driver_scoring(0.4, 0.9).play(request(draft=OWN))
    for said in ([refusal, preference("A")], ["neither"] * 6):
        outcome = compared(*said)[1]
        (told,) = outcome.caveats
        assert (told.code, told.path) == ("item_dropped", "compare")
        assert replace(outcome, caveats=()) == plain
