"""People in the loop, move by move: every word in both modes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.judgement import Finding
from app.contract.reviews import ReviewAction
from app.contract.status import StopReason
from tests.engine.engine_driver import (
    EngineDriver,
    Refusal,
    drafts,
    driver_scoring,
    judged_by,
    request,
    verdict,
)
from workers.engine.moves import Judged, Review, ReviewerReply, Stopped
from workers.engine.prompts import Judge, Revise
from workers.engine.reviewing import MOST_ROUNDS
from workers.engine.search import Outcome

APPROVE, REJECT = ReviewerReply("approve"), ReviewerReply("reject")
MORE = ReviewerReply("revise", feedback="Name the deadline.")
SLOW = {"tolerance": 0}
"""The highest score is the best draft."""


def play(when: str, model: EngineDriver, *words: ReviewerReply | Refusal, **fields: Any) -> Outcome:
    """Play a request that is reviewed, by somebody who says these words in turn."""
    model.reviewer = iter(words)
    return model.play(request(**{"review": {"when": when}, "stop": SLOW, **fields}))


def each(model: EngineDriver, *words: ReviewerReply | Refusal, **fields: Any) -> Outcome:
    return play("each_iteration", model, *words, **fields)


def before(model: EngineDriver, *words: ReviewerReply | Refusal, **fields: Any) -> Outcome:
    return play("before_completion", model, *words, **fields)


def reviews(model: EngineDriver) -> list[str]:
    return [move.path for move in model.moves if isinstance(move, Review)]


def told(model: EngineDriver) -> list[tuple[str, float | None, str]]:
    """What was told of judged drafts: path, score, and what it is from."""
    judged = [(it.path, it.judgement.scored) for it in model.moves if isinstance(it, Judged)]
    return [(path, scored.score, scored.score_from) for path, scored in judged]


def test_a_draft_is_told_before_it_is_reviewed() -> None:
    model = driver_scoring(0.4, 0.6)
    outcome = each(model, MORE, APPROVE)
    assert model.paths == [
        "iterations/1/draft",
        "iterations/1/critique",
        "iterations/1",
        "iterations/1/review",
        "iterations/2/revise",
        "iterations/2/critique",
        "iterations/2",
        "iterations/2/review",
    ]
    assert (outcome.reason, outcome.passed) == (StopReason.APPROVED, False)
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/2", 0.6)


def test_an_approved_draft_is_the_result_even_when_another_ranks_higher() -> None:
    outcome = each(driver_scoring(0.7, 0.2), MORE, APPROVE)
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/2", 0.2)
    assert outcome.best.scored.draft.text.startswith("word2.")


def test_an_approved_draft_above_the_threshold_passes() -> None:
    outcome = each(driver_scoring(0.9), APPROVE)
    assert (outcome.reason, outcome.passed) == (StopReason.APPROVED, True)


def test_rejected_it_ends_with_the_best_and_has_not_passed() -> None:
    outcome = each(driver_scoring(0.9, 0.3), MORE, REJECT)
    assert (outcome.reason, outcome.passed) == (StopReason.REJECTED, False)
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/1", 0.9)


def test_the_reviewed_draft_is_revised_and_the_feedback_comes_first() -> None:
    model = driver_scoring(0.7, 0.2, 0.4)
    each(model, MORE, MORE, APPROVE)
    prompt_request = model.asked("generator")[2].prompt_request
    assert isinstance(prompt_request, Revise)
    assert prompt_request.draft.startswith("word2.")
    assert prompt_request.failing[0] == "review: Name the deadline."
    *_, last = (it.judgement.scored.draft for it in model.moves if isinstance(it, Judged))
    assert (last.parent, last.asked[0]) == ("iterations/2", "review: Name the deadline.")


def test_feedback_comes_before_what_validators_found() -> None:
    model = driver_scoring(0.7, 0.8)
    found = Finding(source="validators/0", kind="length", message="9 words too many")
    model.check = lambda draft: (found,)
    outcome = each(model, MORE, APPROVE, validators=[{"kind": "length", "max_words": 3}])
    assert outcome.best.scored.draft.asked[:2] == (
        "review: Name the deadline.",
        "length: 9 words too many",
    )


@pytest.mark.parametrize(
    ("scores", "fields"),
    [
        ((0.9, 0.5), {}),
        ((0.4, 0.5), {"max_iterations": 1}),
        ((0.4, 0.3, 0.2), {"stop": {"patience": 1}}),
    ],
    ids=["threshold met", "at the cap", "on a plateau"],
)
def test_a_wish_overrules_the_rule_that_would_have_ended_it(
    scores: tuple[float, ...], fields: dict[str, Any]
) -> None:
    model = driver_scoring(*scores)
    words = [MORE] * (len(scores) - 1)
    outcome = each(model, *words, APPROVE, **fields)
    assert reviews(model) == [f"iterations/{n + 1}/review" for n in range(len(scores))]
    assert outcome.best.iteration == len(scores)


def test_a_wish_buys_one_iteration_and_then_the_rules_hold_again() -> None:
    rated = ReviewerReply("rate", score=0.5)
    outcome = each(driver_scoring(0.4, 0.6), MORE, rated, max_iterations=1)
    assert (outcome.reason, outcome.best.path) == (StopReason.MAX_ITERATIONS, "iterations/2")


def test_a_text_of_the_reviewers_is_judged_like_any() -> None:
    model = driver_scoring(0.4, 0.9)
    own = ReviewerReply("replace", draft="We refund within 14 days.")
    outcome = each(model, own, APPROVE)
    assert "iterations/2/revise" not in model.paths
    draft = outcome.best.scored.draft
    assert (draft.text, draft.parent) == ("We refund within 14 days.", "iterations/1")
    assert not draft.is_reply
    assert (outcome.best.scored.score, outcome.passed) == (0.9, True)


def test_a_rating_takes_the_place_of_the_score_and_the_rules_are_asked_again() -> None:
    model = driver_scoring(0.4)
    outcome = each(model, ReviewerReply("rate", score=0.95))
    assert told(model) == [("iterations/1", 0.4, "critique"), ("iterations/1", 0.95, "review")]
    assert (outcome.reason, outcome.passed) == (StopReason.THRESHOLD_MET, True)
    assert (outcome.best.scored.score, outcome.score_from) == (0.95, "review")


def test_a_low_rating_sends_it_on_from_the_draft_that_is_best_now() -> None:
    model = driver_scoring(0.4, 0.9, 0.5)
    words = [
        ReviewerReply("rate", score=0.4),
        ReviewerReply("rate", score=0.1),
        ReviewerReply("rate", score=0.2),
    ]
    outcome = each(model, *words)
    assert reviews(model) == ["iterations/1/review", "iterations/2/review", "iterations/3/review"]
    assert "word1.0" in model.asked("generator")[2].prompt.user
    assert (outcome.best.path, outcome.reason) == ("iterations/1", StopReason.MAX_ITERATIONS)


def test_a_rating_counts_for_the_plateau_in_the_place_of_the_score() -> None:
    model = driver_scoring(0.4, 0.3, 0.7)
    words = [
        ReviewerReply("rate", score=0.4),
        ReviewerReply("rate", score=0.6),
        ReviewerReply("rate", score=0.5),
    ]
    outcome = each(model, *words, max_iterations=9, stop={"patience": 1, "escape": False})
    assert (outcome.reason, len(reviews(model))) == (StopReason.PLATEAU, 3)


def test_a_score_comes_with_approval_too() -> None:
    model = driver_scoring(0.9)
    outcome = each(model, ReviewerReply("approve", score=0.6))
    assert (outcome.reason, outcome.passed) == (StopReason.APPROVED, False)
    assert (outcome.best.scored.score, outcome.score_from) == (0.6, "review")


def test_a_review_without_a_decision_leaves_the_best_and_what_the_rules_said() -> None:
    outcome = each(driver_scoring(0.7, 0.2), MORE, Stopped())
    assert (outcome.reason, outcome.best.path, outcome.passed) == (None, "iterations/1", False)
    outcome = each(driver_scoring(0.9), Stopped())
    assert (outcome.reason, outcome.passed) == (StopReason.THRESHOLD_MET, True)


def test_stopped_before_the_review_no_rule_is_the_reason() -> None:
    outcome = each(driver_scoring(0.4), Stopped(), max_iterations=1)
    assert (outcome.best.path, outcome.reason) == ("iterations/1", None)


def test_drafts_side_by_side_are_reviewed_once_and_the_best_of_them_is_shown() -> None:
    model = driver_scoring(0.4, 0.6, 0.5, 0.3)
    outcome = each(model, MORE, APPROVE, strategy={"kind": "best_of_n", "n": 3})
    assert reviews(model) == ["iterations/2/review", "iterations/4/review"]
    assert model.paths.index("iterations/3") < model.paths.index("iterations/2/review")
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/4", 0.3)


PASSES = {"kind": "multi_pass", "passes": [{"focus": "style", "max_iterations": 1}]}


def rising() -> EngineDriver:
    """A critic that scores 0.4 plus a tenth for every iteration."""
    return judged_by(lambda path, name: 0.4 + int(path.split("/")[-2]) / 10, drafts())


def test_inner_searches_are_not_reviewed_and_the_whole_is() -> None:
    model = rising()
    go_on = ReviewerReply("rate", score=0.4)
    outcome = each(model, go_on, MORE, APPROVE, strategy=PASSES, draft="We refund.")
    assert reviews(model) == [f"iterations/{n}/review" for n in range(3)]
    assert (outcome.reason, outcome.best.path) == (StopReason.APPROVED, "iterations/2")


def test_a_parted_strategy_goes_on_with_the_reviewers_text() -> None:
    model = rising()
    words = [
        ReviewerReply("replace", draft="Our own words."),
        ReviewerReply("rate", score=0.5),
        APPROVE,
    ]
    each(model, *words, strategy=PASSES, draft="We refund.")
    first = next(it for it in model.asked("critic") if it.path.startswith("passes/"))
    assert isinstance(first.prompt_request, Judge)
    assert first.prompt_request.draft == "Our own words."


def test_before_completion_the_outcome_is_reviewed_once_and_approved() -> None:
    model = driver_scoring(0.4, 0.9)
    outcome = before(model, APPROVE)
    assert model.paths[-2:] == ["iterations/2", "reviews/1"]
    assert (outcome.reason, outcome.passed) == (StopReason.APPROVED, True)
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/2", 0.9)


def test_before_completion_a_rejected_outcome_has_not_passed() -> None:
    outcome = before(driver_scoring(0.9), REJECT)
    assert (outcome.reason, outcome.passed) == (StopReason.REJECTED, False)


def test_before_completion_a_wish_is_made_and_reviewed_again() -> None:
    model = driver_scoring(0.9, 0.3, 0.4)
    outcome = before(model, MORE, MORE, APPROVE)
    assert model.paths[3:] == [
        "reviews/1",
        "reviews/1/iterations/1/revise",
        "reviews/1/iterations/1/critique",
        "reviews/1/iterations/1",
        "reviews/2",
        "reviews/2/iterations/1/revise",
        "reviews/2/iterations/1/critique",
        "reviews/2/iterations/1",
        "reviews/3",
    ]
    assert (outcome.best.path, outcome.best.scored.score) == ("reviews/2/iterations/1", 0.4)
    assert outcome.best.scored.draft.parent == "/reviews/1/iterations/1"
    prompt_request = model.asked("generator")[1].prompt_request
    assert isinstance(prompt_request, Revise)
    assert (prompt_request.draft[:6], prompt_request.failing[0]) == (
        "word1.",
        "review: Name the deadline.",
    )


@pytest.mark.parametrize(
    ("when", "words", "why"),
    [
        ("before_completion", [MORE, MORE, APPROVE], "a reviewer asked for this draft"),
        ("each_iteration", [MORE, APPROVE], "a reviewer approved this draft"),
    ],
)
def test_what_a_reviewer_wants_says_so_if_it_scores_less_than_another_draft(
    when: str, words: list[ReviewerReply], why: str
) -> None:
    outcome = play(when, driver_scoring(0.9, *[0.3, 0.4][-len(words) + 1 :]), *words)
    assert outcome.best.scored.score == 0.4
    assert outcome.lower is not None
    assert outcome.lower.detail == f"iterations/1 scored 0.90 and this draft 0.40: {why}"


def test_a_draft_that_its_reviewer_scored_lower_than_the_critic_is_no_better_one() -> None:
    low = ReviewerReply("revise", feedback="Name the deadline.", score=0.3)
    outcome = before(driver_scoring(0.9, 0.6), low, APPROVE)
    assert (outcome.best.scored.score, outcome.lower) == (0.6, None)


def test_before_completion_a_text_of_the_reviewers_is_judged_and_offered() -> None:
    model = driver_scoring(0.9, 0.2)
    outcome = before(model, ReviewerReply("replace", draft="Ours."), APPROVE)
    assert model.paths[3:] == [
        "reviews/1",
        "reviews/1/iterations/1/critique",
        "reviews/1/iterations/1",
        "reviews/2",
    ]
    assert (outcome.best.scored.draft.text, outcome.best.scored.score) == ("Ours.", 0.2)
    assert (outcome.reason, outcome.passed) == (StopReason.APPROVED, False)


def test_before_completion_a_rating_ends_it_for_its_own_reason() -> None:
    model = driver_scoring(0.4)
    outcome = before(model, ReviewerReply("rate", score=0.9), max_iterations=1)
    assert told(model)[-1] == ("iterations/1", 0.9, "review")
    assert (outcome.reason, outcome.passed) == (StopReason.MAX_ITERATIONS, True)
    assert (outcome.best.scored.score, outcome.score_from) == (0.9, "review")


def test_before_completion_a_low_rating_says_no_threshold_was_met() -> None:
    outcome = before(driver_scoring(0.9), ReviewerReply("rate", score=0.3))
    assert (outcome.reason, outcome.passed) == (StopReason.COMPLETED, False)


def test_before_completion_what_was_asked_for_is_rated_at_its_own_path() -> None:
    model = driver_scoring(0.9, 0.8)
    words = [ReviewerReply("replace", draft="Ours."), ReviewerReply("rate", score=0.9)]
    outcome = before(model, *words)
    assert told(model)[-1] == ("reviews/1/iterations/1", 0.9, "review")
    assert (outcome.reason, outcome.passed) == (StopReason.COMPLETED, True)


def test_before_completion_a_review_without_a_decision_leaves_the_outcome_as_it_is() -> None:
    outcome = before(driver_scoring(0.9), Stopped())
    assert (outcome.reason, outcome.passed) == (StopReason.THRESHOLD_MET, True)
    model = driver_scoring(0.9, writer=["a first draft", Stopped()])
    outcome = before(model, MORE)
    assert outcome.best.scored.draft.text == "a first draft"


def test_before_completion_it_is_sent_back_so_often_and_no_more() -> None:
    model = judged_by(lambda path, name: 0.9, (f"draft {n} is this" for n in range(99)))
    before(model, *[MORE] * (MOST_ROUNDS + 1))
    assert reviews(model) == [f"reviews/{n + 1}" for n in range(MOST_ROUNDS)]


def test_validators_that_judge_alone_judge_what_a_reviewer_asked_for() -> None:
    model = driver_scoring(writer=['{"a": 1}', '{"a": 2}'])
    fields = {"strategy": {"kind": "self_correction"}, "validators": [{"kind": "json"}]}
    outcome = before(model, MORE, ReviewerReply("rate", score=0.2), **fields)
    assert not model.asked("critic")
    assert (outcome.best.scored.draft.text, outcome.passed) == ('{"a": 2}', False)
    assert outcome.reason is StopReason.COMPLETED


@pytest.mark.parametrize("when", ["each_iteration", "before_completion"])
def test_what_is_approved_passes_under_the_limits_that_are_in_force_by_then(when: str) -> None:
    lower = request(threshold=0.5).limits()
    model = driver_scoring(0.6)
    outcome = play(when, model, ReviewerReply("approve", limits=lower), max_iterations=1)
    assert (outcome.reason, outcome.passed) == (StopReason.APPROVED, True)


def test_before_completion_a_wish_is_made_under_the_limits_in_force_by_then() -> None:
    model = driver_scoring(0.6, 0.6)
    lower = ReviewerReply("revise", limits=request(threshold=0.5).limits())
    outcome = before(model, lower, Stopped(), max_iterations=1)
    assert (outcome.best.scored.draft.asked, outcome.passed) == ((), False)


def test_before_completion_what_was_not_judged_as_a_whole_does_not_pass() -> None:
    critic: list[str | Refusal] = [verdict(0.9, names=("style",)), Stopped()]
    approve = ReviewerReply("approve", limits=request().limits())
    outcome = before(EngineDriver(iter(critic), drafts()), approve, strategy=PASSES)
    assert (outcome.best.path, outcome.passed) == ("passes/style/iterations/1", False)


SAID: list[ReviewAction] = ["approve", "reject", "revise", "replace", "rate"]
SCORES = st.integers(0, 100).map(lambda it: it / 100)


@st.composite
def words(draw: st.DrawFn) -> ReviewerReply:
    """Anything that a reviewer may say."""
    action = draw(st.sampled_from(SAID))
    score = draw(SCORES if action == "rate" else st.none() | SCORES)
    match action:
        case "replace":
            return ReviewerReply("replace", draft=draw(st.sampled_from(["Ours.", "Ours, again."])))
        case "revise":
            return ReviewerReply("revise", feedback="Shorter.", score=score)
        case _:
            return ReviewerReply(action, score=score)


@pytest.mark.parametrize("when", ["each_iteration", "before_completion"])
@given(
    said=st.lists(words(), max_size=8),
    scores=st.lists(SCORES, min_size=60, max_size=60),
    cap=st.integers(1, 4),
)
def test_whatever_is_said_the_outcome_is_judged_and_the_last_word_holds(
    when: str, said: list[ReviewerReply], scores: list[float], cap: int
) -> None:
    model = driver_scoring(*scores)
    outcome = play(when, model, *said, *[Stopped()] * 60, max_iterations=cap)
    reviews = [move for move in model.moves if isinstance(move, Review)]
    judged = [it.judgement.scored for it in model.moves if isinstance(it, Judged)]
    assert outcome.best.scored in judged
    assert len({(path, by) for path, _, by in told(model)}) == len(judged)
    wishes = sum(word.action in {"revise", "replace"} for word in said[: len(reviews)])
    assert len(model.asked("generator")) <= cap + wishes
    last = said[len(reviews) - 1] if len(reviews) <= len(said) else None
    if last is not None and last.action == "approve":
        shown = reviews[-1].judgement.scored
        assert outcome.best.scored.draft == shown.draft
        assert outcome.best.scored.score == (shown.score if last.score is None else last.score)
    if last is not None and last.action == "reject":
        assert (outcome.reason, outcome.passed) == (StopReason.REJECTED, False)
