"""The loop, move by move."""

import pytest

from app.contract.judgement import Finding, OnFail
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, drafts, driver_scoring, request, verdict
from workers.engine.moves import Ask, Judged, StepError, Stopped

SLOW = {"stop": {"tolerance": 0}}
"""The highest score is the best draft."""


def test_drafts_then_revises_the_best_until_it_is_good_enough() -> None:
    model = driver_scoring(0.4, 0.6, 0.9)
    outcome = model.play(request(**SLOW))
    assert (outcome.reason, outcome.passed) == (StopReason.THRESHOLD_MET, True)
    assert outcome.best.path == "iterations/3"
    assert model.paths == [
        "iterations/1/draft",
        "iterations/1/critique",
        "iterations/1",
        "iterations/2/revise",
        "iterations/2/critique",
        "iterations/2",
        "iterations/3/revise",
        "iterations/3/critique",
        "iterations/3",
    ]


def test_returns_the_best_draft_when_the_last_one_is_worse() -> None:
    outcome = driver_scoring(0.4, 0.7, 0.2).play(request(**SLOW))
    assert outcome.best.scored.score == 0.7
    assert outcome.best.iteration == 2
    assert (outcome.reason, outcome.passed) == (StopReason.MAX_ITERATIONS, False)


def test_revises_from_the_best_and_not_from_the_last() -> None:
    model = driver_scoring(0.7, 0.2, 0.3)
    model.play(request(**SLOW))
    _, *revisions = model.asked("generator")
    written = [f"word1.{place}" for place in range(12)]
    for revision in revisions:
        assert all(word in revision.prompt.user for word in written)


def test_a_clients_own_draft_is_judged_first_and_not_counted() -> None:
    model = driver_scoring(0.5, 0.6)
    outcome = model.play(request(draft="We refund.", max_iterations=1, **SLOW))
    assert model.paths[:3] == ["iterations/0/critique", "iterations/0", "iterations/1/revise"]
    assert (outcome.reason, outcome.best.iteration) == (StopReason.MAX_ITERATIONS, 1)


def test_a_good_draft_of_the_clients_is_returned_untouched() -> None:
    outcome = driver_scoring(0.9).play(request(draft="We refund."))
    assert outcome.best.scored.draft.text == "We refund."
    assert (outcome.reason, outcome.best.iteration) == (StopReason.THRESHOLD_MET, 0)


def test_the_critic_sees_neither_threshold_nor_score_nor_iteration() -> None:
    model = driver_scoring(0.123, 0.456, 0.789)
    model.play(request(threshold=0.8642, **SLOW))
    for question in model.asked("critic"):
        text = question.prompt.system + question.prompt.user
        assert not any(secret in text for secret in ("0.8642", "0.123", "0.456", "iteration"))


def test_a_veto_keeps_a_draft_from_passing_and_names_what_to_mend() -> None:
    veto = Finding(source="validators/0", kind="length", message="9 words too many")
    veto = veto.model_copy(update={"on_fail": OnFail.VETO})
    model = driver_scoring(0.95, 0.9)
    model.check = lambda draft: (veto,) if "word1.0" in draft else ()
    outcome = model.play(request(validators=[{"kind": "length", "max_words": 3}], **SLOW))
    assert (outcome.best.iteration, outcome.passed) == (2, True)
    assert "9 words too many" in model.asked("generator")[1].prompt.user


def test_a_floor_that_is_not_met_keeps_a_draft_from_passing() -> None:
    criteria = [{"name": "accuracy", "floor": 0.8}, {"name": "tone", "weight": 9}]
    names = ("accuracy", "tone")
    critic = iter([verdict(0.7, 1.0, names=names), verdict(0.8, 0.9, names=names)])
    outcome = EngineDriver(critic, drafts()).play(request(criteria=criteria, **SLOW))
    assert outcome.best.iteration == 2
    assert outcome.best.scored.score == pytest.approx(0.89)


def test_an_unmeasured_criterion_counts_nothing_but_its_floor_is_not_met() -> None:
    criteria = [{"name": "accuracy", "floor": 0.1}, {"name": "tone"}]
    critic = iter([verdict(None, 1.0, names=("accuracy", "tone"))])
    outcome = EngineDriver(critic, drafts()).play(request(criteria=criteria, max_iterations=1))
    assert (outcome.best.scored.score, outcome.passed) == (1.0, False)


def test_an_unreadable_critique_is_asked_for_again_with_the_error() -> None:
    model = driver_scoring("Looks good to me!", verdict(7.0), 0.9)
    outcome = model.play(request())
    assert outcome.passed
    assert model.paths[1:4] == [
        "iterations/1/critique",
        "iterations/1/critique/again/1",
        "iterations/1/critique/again/2",
    ]
    assert "no JSON object" in model.asked("critic")[1].prompt.user


def test_a_critique_that_stays_unreadable_fails_the_step() -> None:
    with pytest.raises(StepError) as failed:
        driver_scoring("no", "no", "no").play(request())
    assert failed.value.code == "unreadable_critique"


def test_a_changed_threshold_ends_the_search_at_once() -> None:
    model = driver_scoring(0.5, 0.6)
    model.change = lambda judged, limits: limits.model_copy(update={"threshold": 0.6})
    outcome = model.play(request(max_iterations=9, **SLOW))
    assert (outcome.reason, outcome.best.iteration) == (StopReason.THRESHOLD_MET, 2)


def test_stopped_from_outside_it_keeps_its_best() -> None:
    outcome = driver_scoring(0.4, 0.6, Stopped()).play(request(**SLOW))
    assert (outcome.best.scored.score, outcome.reason) == (0.6, None)


def test_stopped_before_anything_was_judged_it_has_nothing_to_return() -> None:
    with pytest.raises(Stopped):
        driver_scoring(Stopped()).play(request())


def test_the_news_names_the_best_so_far() -> None:
    model = driver_scoring(0.7, 0.2, 0.75)
    model.play(request(**SLOW))
    best = [move.best.path for move in model.moves if isinstance(move, Judged)]
    assert best == ["iterations/1", "iterations/1", "iterations/3"]


def test_critique_judges_once_and_revises_nothing() -> None:
    model = driver_scoring(0.3)
    outcome = model.play(request(draft="We refund.", strategy={"kind": "critique"}))
    assert (outcome.reason, outcome.passed) == (StopReason.COMPLETED, False)
    assert [move.path for move in model.moves if isinstance(move, Ask)] == ["iterations/0/critique"]
