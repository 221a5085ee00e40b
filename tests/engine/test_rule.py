"""Which draft is kept where scores are noisy, and when one score is not enough."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.contract.calls import at_most
from app.contract.judgement import Finding, OnFail
from app.contract.requests import RefinementRequest
from app.contract.statistics import Learnt
from app.contract.status import StopReason
from tests.engine.engine_driver import (
    EngineDriver,
    driver_scoring,
    judged_by,
    request,
    verdict,
)
from workers.engine.moves import Judged, Stopped
from workers.engine.pipeline import strategy_for
from workers.engine.prompts import Judge
from workers.engine.quality import BANK, CALIBRATED_FROM, HYPOTHESES, WITHIN
from workers.engine.search import Outcome

NO_EVIDENCE = (0.0,) * len(HYPOTHESES)
BORE_OUT = (100, 96)
"""Of so many scores of revisions, how many were as predicted."""
KNOWN = Learnt(bank=BANK, refinements=CALIBRATED_FROM, evidence=NO_EVIDENCE, predicted=BORE_OUT)


def play(model: EngineDriver, body: RefinementRequest, **known: Any) -> Outcome:
    return model.run(strategy_for(body, "482913", **known), body.limits())


def judged(model: EngineDriver) -> list[Judged]:
    return [move for move in model.moves if isinstance(move, Judged)]


def confirmed(model: EngineDriver) -> list[str]:
    """The paths at which drafts were judged again."""
    return [it.path for it in model.asked("critic") if "confirm" in it.path]


def test_a_revision_that_is_probably_no_worse_is_returned_though_it_scores_less() -> None:
    model = driver_scoring(0.6, 0.58, 0.57)
    assert model.play(request()).best.path == "iterations/3"
    assert [it.best.path for it in judged(model)] == [f"iterations/{it}" for it in (1, 2, 3)]


@given(st.lists(st.floats(0, 0.84), min_size=2, max_size=8))
@example([0.7, 0.3, 0.2])
@example([0.84, 0.45, 0.45, 0.45])
def test_the_result_scores_at_most_a_little_less_than_any_judged_draft(scores: list[float]) -> None:
    body = request(max_iterations=len(scores), stop={"escape": False})
    best = driver_scoring(*scores).play(body).best.scored.score
    assert best is not None
    assert best >= max(scores) - WITHIN


def test_a_result_that_scores_less_than_another_draft_says_why() -> None:
    lower = driver_scoring(0.6, 0.58, 0.57).play(request()).lower
    assert lower is not None
    assert (lower.code, lower.path) == ("lower_score", "iterations/1")
    assert driver_scoring(0.7, 0.3, 0.2).play(request()).lower is None


def test_a_higher_score_that_a_rule_excludes_is_named_with_the_rule() -> None:
    floor = {"criteria": [{"name": "one", "floor": 0.5}, {"name": "two"}]}
    pairs = [(0.6, 0.4), (0.4, 1.0)]
    model = driver_scoring(*[verdict(*it, names=("one", "two")) for it in pairs])
    lower = model.play(request(**floor, max_iterations=2)).lower
    assert lower is not None
    assert lower.detail == (
        "iterations/2 scored 0.70 and this draft 0.50: that draft misses the floor of a criterion"
    )


def test_a_chain_goes_on_from_a_low_draft_though_it_returns_a_higher_one() -> None:
    model = driver_scoring(0.7, 0.5, 0.35, 0.3)
    outcome = model.play(request(max_iterations=4))
    parents = [it.judgement.scored.draft.parent for it in judged(model)]
    assert (outcome.best.path, parents[-1]) == ("iterations/1", "iterations/3")


def test_a_critic_without_noise_is_taken_at_its_word() -> None:
    outcome = play(driver_scoring(0.6, 0.58, 0.57), request(), is_exact=True)
    assert (outcome.best.path, outcome.lesson) == ("iterations/1", None)


def test_a_tolerance_overrides_the_rule() -> None:
    scores = (0.6, 0.58, 0.5)
    assert driver_scoring(*scores).play(request(stop={"tolerance": 0})).best.iteration == 1
    assert driver_scoring(*scores).play(request(stop={"tolerance": 0.05})).best.iteration == 2


def test_the_draft_that_crossed_the_threshold_is_returned() -> None:
    outcome = driver_scoring(0.3, 0.35, 0.86).play(request())
    assert (outcome.reason, outcome.best.path) == (StopReason.THRESHOLD_MET, "iterations/3")


def test_a_vetoed_draft_is_never_kept_for_its_score() -> None:
    veto = (Finding(source="validators/0", kind="regex", message="no", on_fail=OnFail.VETO),)
    model = driver_scoring(0.4, 0.8, 0.2)
    model.check = lambda draft: veto if draft.startswith("word2.") else ()
    validated = request(validators=[{"kind": "regex", "pattern": "x"}])
    assert model.play(validated).best.path == "iterations/3"


def test_the_best_of_samples_is_the_one_with_the_highest_score() -> None:
    sampled = request(strategy={"kind": "best_of_n", "n": 3})
    assert driver_scoring(0.5, 0.55, 0.54).play(sampled).best.path == "iterations/2"


def test_an_estimate_is_given_once_enough_is_known() -> None:
    few = KNOWN.model_copy(update={"refinements": CALIBRATED_FROM - 1})
    wrong = KNOWN.model_copy(update={"predicted": (100, 80)})
    assert play(driver_scoring(0.9), request(), learnt=wrong).estimate is None
    assert play(driver_scoring(0.9), request()).estimate is None
    assert play(driver_scoring(0.9), request(), learnt=few).estimate is None
    model = driver_scoring(0.9)
    estimate = play(model, request(), learnt=KNOWN).estimate
    assert estimate is not None
    assert estimate.value < 0.9
    assert estimate.chance is None
    assert judged(model)[-1].estimate == estimate


def test_scores_of_validators_and_agreement_have_no_estimate_and_teach_nothing() -> None:
    correcting = request(
        strategy={"kind": "self_correction"}, validators=[{"kind": "regex", "pattern": "x"}]
    )
    outcome = play(driver_scoring(), correcting, learnt=KNOWN)
    assert (outcome.estimate, outcome.lesson) == (None, None)
    model = driver_scoring(writer=["Answer: 4"] * 3)
    voting = request(strategy={"kind": "self_consistency", "n": 3})
    outcome = play(model, voting, learnt=KNOWN)
    assert (outcome.score_from, outcome.estimate, outcome.lesson) == ("agreement", None, None)


def test_an_outcome_carries_what_its_scores_teach() -> None:
    lesson = driver_scoring(0.5, 0.7, 0.2).play(request()).lesson
    assert lesson is not None
    assert (lesson.refinements, lesson.first_drafts[0]) == (1, 1)
    assert any(lesson.evidence)


def test_a_text_worked_on_in_passes_has_no_estimate_and_its_last_pass_teaches() -> None:
    passes = [{"focus": "structure", "max_iterations": 2}]
    body = request(draft="Refunds.", strategy={"kind": "multi_pass", "passes": passes})
    model = judged_by(lambda path, _: 0.4 if "0" in path else 0.6, [f"text {n}" for n in range(9)])
    outcome = play(model, body, learnt=KNOWN)
    assert outcome.best.path == "iterations/1"
    assert outcome.estimate is None
    assert outcome.lesson is not None
    assert outcome.lesson.first_drafts[1] == 0.4


SURE = {"stop": {"confidence": 0.9}, "max_iterations": 2}


def test_a_doubtful_crossing_is_judged_again_and_the_mean_is_the_score() -> None:
    model = driver_scoring(0.86, 0.5, 0.4)
    outcome = model.play(request(**SURE))
    assert confirmed(model) == ["iterations/1/confirm/1/critique"]
    assert judged(model)[0].judgement.scored.score == 0.68
    assert judged(model)[0].judgement.scored.scores[0].spread == 0.36
    assert outcome.reason is StopReason.MAX_ITERATIONS


def test_it_is_judged_again_on_the_same_rubric_three_times_at_most() -> None:
    model = driver_scoring(0.86, 0.87, 0.86, 0.87, 0.3)
    model.play(request(**SURE))
    assert len(confirmed(model)) == 3
    first, *again = model.asked("critic")[:4]
    assert {type(it.prompt_request) for it in again} == {Judge}
    assert {it.prompt.user for it in again} == {first.prompt.user}


def test_a_crossing_that_stays_doubtful_does_not_end_it() -> None:
    model = driver_scoring(0.86, 0.87, 0.86, 0.87, 0.3)
    outcome = model.play(request(**SURE))
    assert (outcome.reason, outcome.passed) == (StopReason.MAX_ITERATIONS, True)
    assert outcome.best.scored.score == 0.865


def test_a_sure_crossing_is_judged_once() -> None:
    model = driver_scoring(1.0)
    outcome = model.play(request(threshold=0.3, **SURE))
    assert (outcome.reason, confirmed(model)) == (StopReason.THRESHOLD_MET, [])


def test_a_stop_while_it_is_judged_again_keeps_the_score_that_it_has() -> None:
    outcome = driver_scoring(0.86, Stopped(), Stopped()).play(request(**SURE))
    assert (outcome.best.scored.score, outcome.reason) == (0.86, None)


def test_judging_again_is_counted_in_the_calls_at_most() -> None:
    assert at_most(request(**SURE)) > at_most(request(max_iterations=2))
    assert (
        at_most(request(stop={"confidence": 0.9}, draft="x", strategy={"kind": "critique"})) == 12
    )


@pytest.mark.parametrize("before", ["<think>Hm.</think>\n", "Sure! Here is the explanation:\n"])
def test_a_first_draft_that_is_a_part_of_its_reply_teaches(before: str) -> None:
    first = "Refunds take 14 days from the day on which we receive the goods that you send us."
    model = driver_scoring(0.5, 0.7, 0.95, writer=[before + first, "Two weeks.", "In two weeks."])
    outcome = model.play(request(threshold=0.9, max_iterations=3))
    assert not judged(model)[0].judgement.scored.draft.is_reply
    assert outcome.lesson is not None


def test_a_draft_that_passes_at_a_threshold_lowered_meanwhile_is_the_best() -> None:
    model = driver_scoring(0.8, 0.74, 0.9)
    model.change = lambda at, limits: (
        limits.model_copy(update={"threshold": 0.78}) if at.path == "iterations/2" else limits
    )
    outcome = model.play(request(threshold=0.95, max_iterations=3))
    assert (outcome.best.path, outcome.passed) == ("iterations/1", True)
    assert len(judged(model)) == 2
