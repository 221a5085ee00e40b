"""Breadth, then depth, at one budget."""

from collections import Counter

import pytest
from pydantic import ValidationError

from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import driver_scoring, request
from workers.engine.moves import Judged, StepError, Stopped

GONE = StepError("model_unavailable", "gone")


def best_of(n: int, *, refine: bool = False, **fields: object) -> RefinementRequest:
    strategy = {"kind": "best_of_n", "n": n, "refine": refine}
    return request(**{"strategy": strategy, "max_iterations": 9, **fields})


def test_writes_n_drafts_judges_each_and_returns_the_best() -> None:
    model = driver_scoring(0.4, 0.7, 0.6)
    outcome = model.play(best_of(3))
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/2", 0.7)
    assert (outcome.reason, outcome.passed) == (StopReason.COMPLETED, False)
    assert model.paths == [
        *(f"iterations/{n}/{step}" for n in (1, 2, 3) for step in ("draft", "critique")),
        *(f"iterations/{n}" for n in (1, 2, 3)),
    ]


def test_no_draft_is_made_from_another() -> None:
    model = driver_scoring(0.4, 0.7, 0.6)
    outcome = model.play(best_of(3))
    assert len({question.prompt for question in model.asked("generator")}) == 1
    assert outcome.best.scored.draft.parent is None


def test_refines_the_best_with_the_iterations_that_are_left() -> None:
    model = driver_scoring(0.4, 0.7, 0.6, 0.75, 0.8)
    outcome = model.play(best_of(3, refine=True, max_iterations=5))
    assert (outcome.best.path, outcome.reason) == ("iterations/5", StopReason.MAX_ITERATIONS)
    parents = [it.judgement.scored.draft.parent for it in model.moves if isinstance(it, Judged)]
    assert parents == [None, None, None, "iterations/2", "iterations/4"]
    assert len(model.asked("generator")) == 5


def test_a_good_draft_among_the_n_is_not_refined() -> None:
    model = driver_scoring(0.4, 0.9, 0.6)
    outcome = model.play(best_of(3, refine=True))
    assert (outcome.reason, outcome.best.path) == (StopReason.THRESHOLD_MET, "iterations/2")
    assert len(model.asked("generator")) == 3


def test_two_drafts_that_are_the_same_stop_nothing() -> None:
    model = driver_scoring(0.4, 0.4, 0.5, 0.9, writer=["one", "one", "two", "three"])
    outcome = model.play(best_of(3, refine=True))
    assert (outcome.reason, outcome.best.path) == (StopReason.THRESHOLD_MET, "iterations/4")


def test_a_draft_that_cannot_be_made_costs_nothing_but_its_number() -> None:
    model = driver_scoring(0.4, 0.6, writer=["one", GONE, "three"])
    outcome = model.play(best_of(3))
    assert (outcome.best.path, outcome.best.scored.draft.text) == ("iterations/3", "three")
    assert [move.path for move in model.moves if isinstance(move, Judged)] == [
        "iterations/1",
        "iterations/3",
    ]


def test_a_draft_that_was_refused_from_outside_keeps_the_reason_of_the_refusal() -> None:
    outcome = driver_scoring(0.4, 0.6, writer=["one", Stopped(), "three"]).play(best_of(3))
    assert (outcome.best.path, outcome.reason) == ("iterations/3", None)


def test_a_critique_that_stays_unreadable_costs_that_draft_alone() -> None:
    outcome = driver_scoring("no", "no", "no", 0.6).play(best_of(2))
    assert outcome.best.path == "iterations/2"


def test_without_any_draft_the_first_failure_is_told() -> None:
    with pytest.raises(StepError) as failed:
        driver_scoring(writer=[GONE, StepError("model_refused", "no")]).play(best_of(2))
    assert failed.value.code == "model_unavailable"


def test_stopped_while_writing_it_keeps_what_is_judged() -> None:
    outcome = driver_scoring(0.6, writer=["one", Stopped(), Stopped(), Stopped()]).play(
        best_of(3, refine=True)
    )
    assert outcome.best.path == "iterations/1"


def test_a_clients_own_draft_is_judged_first_and_the_n_are_revisions_of_it() -> None:
    model = driver_scoring(0.5, 0.4, 0.7)
    outcome = model.play(best_of(2, draft="We refund.", max_iterations=2))
    assert outcome.best.path == "iterations/2"
    judged = [it.judgement for it in model.moves if isinstance(it, Judged)]
    assert Counter(it.scored.draft.parent for it in judged) == {None: 1, "iterations/0": 2}


def test_a_good_draft_of_the_clients_is_returned_untouched() -> None:
    model = driver_scoring(0.9)
    assert model.play(best_of(2, draft="We refund.")).best.iteration == 0
    assert not model.asked("generator")


def test_a_lowered_cap_holds() -> None:
    model = driver_scoring(0.4, 0.5, 0.6)
    model.change = lambda judged, limits: limits.model_copy(update={"max_iterations": 1})
    outcome = model.play(best_of(3, refine=True))
    assert (outcome.reason, len(model.asked("generator"))) == (StopReason.MAX_ITERATIONS, 3)


@pytest.mark.parametrize(("n", "refine", "cap"), [(4, False, 3), (3, True, 3)])
def test_more_drafts_than_the_cap_allows_are_refused(n: int, refine: bool, cap: int) -> None:
    with pytest.raises(ValidationError, match="max_iterations must be at least"):
        best_of(n, refine=refine, max_iterations=cap)


def test_a_cap_lowered_after_the_clients_draft_leaves_fewer_drafts() -> None:
    model = driver_scoring(0.1, *[0.5] * 4)
    model.change = lambda judged, limits: limits.model_copy(update={"max_iterations": 2})
    strategy = {"kind": "best_of_n", "n": 4}
    model.play(request(draft="We refund.", strategy=strategy, max_iterations=4))
    judged = [move.path for move in model.moves if isinstance(move, Judged)]
    assert judged == ["iterations/0", "iterations/1", "iterations/2"]


def test_a_threshold_that_is_lowered_meanwhile_lets_the_draft_that_meets_it_win() -> None:
    model = driver_scoring(0.83, 0.81, 0.8)

    def lowered(judged: Judged, limits: Limits) -> Limits:
        is_last = judged.judgement.iteration == 2
        return limits.model_copy(update={"threshold": 0.82}) if is_last else limits

    model.change = lowered
    outcome = model.play(best_of(2, draft="We refund.", threshold=0.9))
    assert (outcome.best.path, outcome.passed) == ("iterations/0", True)
