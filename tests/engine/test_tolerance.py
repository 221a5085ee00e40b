"""Where scores are noisy a revision may stand for the best though it scores a little less."""

from app.contract.judgement import Finding, OnFail
from tests.engine.engine_driver import driver_scoring, request
from workers.engine.prompts import Revise


def tolerant(tolerance: float = 0.1) -> dict[str, object]:
    return {"stop": {"patience": 50, "tolerance": tolerance}, "max_iterations": 4}


def test_a_revision_within_tolerance_is_what_is_returned() -> None:
    outcome = driver_scoring(0.4, 0.7, 0.65, 0.2).play(request(**tolerant()))
    assert (outcome.best.iteration, outcome.best.scored.score) == (3, 0.65)


def test_a_revision_within_tolerance_is_what_is_revised_next() -> None:
    model = driver_scoring(0.4, 0.7, 0.65, 0.2)
    model.play(request(**tolerant()))
    last = model.asked("generator")[-1].prompt_request
    assert isinstance(last, Revise)
    assert last.draft.startswith("word3.")


def test_small_steps_down_are_measured_from_the_highest_score() -> None:
    outcome = driver_scoring(0.7, 0.62, 0.58, 0.55).play(request(**tolerant()))
    assert outcome.best.iteration == 2


def test_without_tolerance_only_a_higher_score_is_better() -> None:
    outcome = driver_scoring(0.4, 0.7, 0.7, 0.69).play(request(**tolerant(0)))
    assert outcome.best.iteration == 2


def test_a_draft_that_passes_is_not_given_up_for_one_within_tolerance() -> None:
    body = request(stop={"confidence": 0.9, "tolerance": 0.1, "escape": False}, max_iterations=2)
    outcome = driver_scoring(*[0.86] * 4, 0.8).play(body)
    assert (outcome.passed, outcome.best.iteration) == (True, 1)


def test_tolerance_does_not_reach_a_draft_that_a_validator_vetoes() -> None:
    veto = (Finding(source="validators/0", kind="regex", message="no", on_fail=OnFail.VETO),)
    model = driver_scoring(0.7, 0.69, 0.2, 0.2)
    model.check = lambda draft: veto if draft.startswith("word2.") else ()
    validated = request(**tolerant(), validators=[{"kind": "regex", "pattern": "x"}])
    assert model.play(validated).best.iteration == 1


def test_samples_side_by_side_compare_by_their_scores_alone() -> None:
    sampled = request(**tolerant(), strategy={"kind": "best_of_n", "n": 3})
    assert driver_scoring(0.7, 0.69, 0.68).play(sampled).best.iteration == 1
