"""What a result lacks is said beside it, and nothing passes that lacks what was asked for."""

import pytest
from pydantic import ValidationError

from app.contract.judgement import Finding, OnFail
from app.contract.requests import RefinementRequest
from app.contract.reviews import ReviewAction
from app.contract.status import BLOCKING, StopReason
from tests.engine.engine_driver import driver_scoring, judged_by, request, verdict
from workers.engine.moves import ReviewerReply, StepError
from workers.engine.search import Outcome

GONE = StepError("model_refused", "gone")
PARTS = [
    {"name": "one", "instructions": "The first.", "threshold": 0.95},
    {"name": "two", "instructions": "The rest."},
]
ITERATIVE = {"body": {"kind": "iterative"}, "max_iterations": 1}


def told(outcome: Outcome) -> list[tuple[str, str]]:
    """Code and path of every caveat."""
    return [(it.code, it.path) for it in (*outcome.caveats, *outcome.best.scored.caveats)]


def staged(*critic: float, accept: tuple[str, ...] = ()) -> Outcome:
    """Two stages of one draft each, and the whole, judged with these scores."""
    stages = [{"name": "outline", "max_iterations": 1}, {"name": "text", "max_iterations": 1}]
    strategy = {"kind": "stepwise", "stages": stages}
    return driver_scoring(*critic).play(request(strategy=strategy, accept=accept))


def test_a_text_whose_last_stage_was_given_up_does_not_pass_however_good_it_is() -> None:
    outcome = staged(0.9, 0.3, 0.95)
    assert (outcome.best.scored.score, outcome.passed) == (0.95, False)
    assert outcome.reason is StopReason.INCOMPLETE
    assert told(outcome) == [("stage_given_up", "stages/text")]
    assert outcome.caveats[0].detail == "its best draft scored 0.3 and does not pass"


def test_a_stage_that_kept_others_from_beginning_says_so() -> None:
    outcome = staged(0.3, 0.3)
    assert outcome.caveats[0].detail.endswith("does not pass, so no later stage was begun")


def test_a_stage_given_up_that_the_request_accepts_is_said_and_the_text_passes() -> None:
    outcome = staged(0.9, 0.3, 0.95, accept=("stage_given_up",))
    assert (outcome.passed, outcome.reason) == (True, StopReason.THRESHOLD_MET)
    assert told(outcome) == [("stage_given_up", "stages/text")]


def test_with_every_stage_verified_nothing_is_lacking() -> None:
    outcome = staged(0.9, 0.9, 0.95)
    assert (outcome.passed, told(outcome)) == (True, [])


def test_a_pass_that_fails_is_said() -> None:
    asked = request(
        draft="We refund.",
        strategy={"kind": "multi_pass", "passes": [{"focus": "style"}, {"focus": "facts"}]},
    )
    facts = [verdict(score, names=["facts"]) for score in (0.5, 0.6)]
    model = driver_scoring()
    model.writer = iter(["We do refund.", "We refund in 14 days."])
    model.critic = iter([verdict(0.1), GONE, *facts, verdict(0.95)])
    outcome = model.play(asked)
    assert told(outcome) == [("stage_given_up", "passes/style")]
    assert outcome.missing == ("passes/style",)
    assert (outcome.passed, outcome.reason) == (False, StopReason.INCOMPLETE)


@pytest.mark.parametrize("said", [None, "approve", "rate"])
def test_a_pass_that_fails_keeps_a_text_from_passing_unless_that_is_accepted(
    said: ReviewAction | None,
) -> None:
    asked = request(
        strategy={"kind": "multi_pass", "passes": [{"focus": "style"}, {"focus": "facts"}]},
        accept=["stage_given_up"],
        review=said and {"when": "before_completion"},
    )
    model = judged_by(lambda *_: 0.9, [GONE, "We refund in 14 days."])
    if said is not None:
        model.reviewer = iter([ReviewerReply(said, score=0.95, limits=asked.limits())])
    outcome = model.play(asked)
    assert (outcome.passed, outcome.missing) == (True, ("passes/style",))


def test_a_part_that_misses_the_threshold_named_for_it_is_said() -> None:
    asked = request(strategy={"kind": "nested", "parts": PARTS, **ITERATIVE})
    outcome = driver_scoring(0.9, 0.5, 0.99).play(asked)
    assert told(outcome) == [("goal_not_met", "parts/one")]
    assert (outcome.passed, outcome.reason) == (False, StopReason.INCOMPLETE)


def test_a_part_that_fails_keeps_the_clients_text_and_is_said() -> None:
    asked = request(draft="# One\n\nFirst.\n\n# Two\n\nRest.", strategy={"kind": "nested"})
    outcome = driver_scoring(0.1, GONE, 0.9, 0.99).play(asked)
    assert told(outcome) == [("stage_given_up", "parts/section-1")]
    assert (outcome.passed, outcome.missing) == (False, ())


def test_a_sample_of_a_critic_that_failed_is_dropped_and_the_draft_may_pass() -> None:
    outcome = driver_scoring(0.9, GONE, 0.9).play(request(critics={"samples": 3}))
    assert told(outcome) == [("item_dropped", "critique/2")]
    assert outcome.passed


def test_a_criterion_that_was_not_measured_is_said() -> None:
    names = ["tone", "truth"]
    asked = request(criteria=[{"name": it, "description": it} for it in names])
    model = driver_scoring()
    model.critic = iter([verdict(0.9, None, names=names)])
    outcome = model.play(asked)
    assert told(outcome) == [("item_dropped", "critique")]
    assert "truth" in outcome.best.scored.caveats[0].detail
    assert outcome.passed


def test_a_draft_side_by_side_that_failed_is_dropped() -> None:
    strategy = {"kind": "best_of_n", "n": 2}
    outcome = driver_scoring(0.9, writer=[GONE, "It is."]).play(request(strategy=strategy))
    assert told(outcome) == [("item_dropped", "iterations/1")]
    assert outcome.passed


SKIPPED = Finding(
    source="validators/0", kind="http", message="away", on_fail=OnFail.WARN, skipped=True
)


@pytest.mark.parametrize("accept", [(), ("validator_skipped",)])
def test_a_draft_passes_unchecked_only_if_the_request_accepts_it(accept: tuple[str, ...]) -> None:
    model = driver_scoring(0.9, 0.9, 0.9)
    model.check = lambda _: (SKIPPED,)
    outcome = model.play(request(validators=[{"kind": "json"}], accept=accept, max_iterations=1))
    assert ("validator_skipped", "check") in told(outcome)
    assert outcome.passed is bool(accept)


def test_a_reviewers_rating_does_not_make_it_pass() -> None:
    asked = request(
        strategy={"kind": "stepwise", "stages": [{"name": "text", "max_iterations": 1}]},
        review={"when": "before_completion"},
    )
    model = driver_scoring(0.3, 0.3)
    model.reviewer = iter([rating(1.0)])
    outcome = model.play(asked)
    assert (outcome.best.scored.score, outcome.passed) == (1.0, False)


def rating(score: float) -> ReviewerReply:
    return ReviewerReply("rate", score=score, limits=request().limits())


def test_what_can_be_accepted_is_what_keeps_a_result_from_passing() -> None:
    assert request(accept=sorted(BLOCKING)).accept
    for wrong in (["item_dropped"], ["anything"], "unverified"):
        with pytest.raises(ValidationError, match="accept"):
            RefinementRequest.model_validate({"task": "Explain.", "accept": wrong})
