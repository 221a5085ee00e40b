"""When a search stops: absolute expectations, one rule at a time."""

from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.contract.status import StopReason
from tests.engine.engine_driver import driver_scoring, request
from workers.engine.matching import is_similar, similarity
from workers.engine.pipeline import strategy_for

TEXT = "the quick brown fox jumps over the lazy dog and runs away again"


def why(scores: list[float], writer: list[str] | None = None, **fields: Any) -> tuple[str, int]:
    """Return the reason for stopping, and how many drafts were judged."""
    model = driver_scoring(*scores, writer=writer)
    fields["stop"] = {"escape": False, **fields.get("stop", {})}
    outcome = model.play(request(max_iterations=50, **fields))
    assert outcome.reason is not None
    return outcome.reason, len(model.asked("critic"))


TWO = {"patience": 2}


def test_plateau_after_patience_drafts_without_improvement() -> None:
    assert why([0.5, 0.505, 0.4, 0.9], stop=TWO) == (StopReason.PLATEAU, 3)


def test_patience_starts_again_with_every_improvement() -> None:
    scores = [0.5, 0.4, 0.6, 0.3, 0.2]
    assert why(scores, stop=TWO) == (StopReason.PLATEAU, 5)


def test_small_steps_count_against_the_best_before_them() -> None:
    assert why([0.50, 0.505, 0.51, 0.9], stop=TWO) == (StopReason.PLATEAU, 3)


def test_ties_are_neither_counted_nor_do_they_start_the_count_again() -> None:
    assert why([0.5, 0.5, 0.5, 0.5, 0.9], stop=TWO) == (StopReason.THRESHOLD_MET, 5)
    assert why([0.5, 0.4, 0.5, 0.3, 0.9], stop=TWO) == (StopReason.PLATEAU, 4)


def test_without_patience_there_is_no_plateau() -> None:
    assert why([0.7, 0.6, 0.65, 0.5, 0.68, 0.9]) == (StopReason.THRESHOLD_MET, 6)


def test_refinements_begun_with_an_earlier_engine_end_after_two_drafts_without_improvement() -> (
    None
):
    model = driver_scoring(0.5, 0.5, 0.5, 0.9)
    body = request(max_iterations=50)
    outcome = model.run(strategy_for(body, engine_version=2), body.limits())
    assert (outcome.reason, outcome.best.path) == (StopReason.PLATEAU, "iterations/1")


def test_stable_when_a_revision_changes_nothing() -> None:
    assert why([0.5, 0.5], [TEXT, TEXT]) == (StopReason.STABLE, 2)


def test_stable_at_the_similarity_asked_for() -> None:
    near = TEXT.replace("again", "soon")
    assert why([0.5, 0.5], [TEXT, near], stop={"max_similarity": 0.8}) == (StopReason.STABLE, 2)


def test_oscillating_when_a_text_comes_back() -> None:
    texts = ["alpha beta gamma delta", TEXT, "alpha beta gamma delta"]
    assert why([0.5, 0.6, 0.55], texts) == (StopReason.OSCILLATING, 3)


def test_the_same_text_made_of_the_same_draft_again_is_a_rejected_sample() -> None:
    texts = ["alpha beta gamma delta", TEXT, TEXT, TEXT, "one two three four five"]
    scores = [0.8, 0.2, 0.2, 0.2, 0.9]
    assert why(scores, texts) == (StopReason.THRESHOLD_MET, 5)


def test_oscillating_when_exact_scores_swing_between_two_values() -> None:
    body = request(max_iterations=9, stop={"escape": False})
    model = driver_scoring(0.5, 0.3, 0.5, 0.3)
    outcome = model.run(strategy_for(body, is_exact=True), body.limits())
    assert (outcome.reason, len(model.asked("critic"))) == (StopReason.OSCILLATING, 4)


def test_a_swing_of_noisy_scores_is_chance() -> None:
    scores = [0.5, 0.45, 0.5, 0.45, 0.9]
    assert why(scores) == (StopReason.THRESHOLD_MET, 5)


def test_max_iterations_is_inclusive() -> None:
    model = driver_scoring(0.1, 0.2, 0.3)
    outcome = model.play(request(max_iterations=2))
    assert (outcome.reason, outcome.best.iteration) == (StopReason.MAX_ITERATIONS, 2)


def test_the_threshold_goes_before_every_other_reason() -> None:
    outcome = driver_scoring(0.85).play(request(max_iterations=1))
    assert outcome.reason is StopReason.THRESHOLD_MET


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a b c", "a b c", 1.0),
        ("a b c d", "b c d e", 1 / 3),
        ("a b c", "x y z", 0.0),
        ("a b", "a  b", 1.0),
        ("a b", "a c", 0.0),
        ("", "a b c", 0.0),
    ],
)
def test_similarity_is_the_share_of_common_three_grams(
    one: str, other: str, expected: float
) -> None:
    assert similarity(one, other) == pytest.approx(expected)


FEW_WORDS = st.lists(st.sampled_from("abcde"), max_size=12).map(" ".join)


@given(FEW_WORDS, FEW_WORDS, FEW_WORDS, FEW_WORDS)
def test_similarity_counts_every_three_gram_wherever_the_texts_are_alike(
    start: str, one: str, other: str, end: str
) -> None:
    first, second = f"{start} {one} {end}".split(), f"{start} {other} {end}".split()
    grams = [{tuple(it[at : at + 3]) for at in range(len(it) - 2)} for it in (first, second)]
    assume(all(grams))
    expected = len(grams[0] & grams[1]) / len(grams[0] | grams[1])
    assert similarity(" ".join(first), " ".join(second)) == expected


@given(FEW_WORDS, FEW_WORDS, st.floats(0, 1))
def test_texts_are_similar_exactly_when_their_similarity_is_high_enough(
    one: str, other: str, least: float
) -> None:
    assert is_similar(one, other, least) == (similarity(one, other) >= least)


@pytest.mark.parametrize("least", [0.0, 0.5, 0.9, 0.98, 0.999, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.5])
def test_long_texts_are_similar_exactly_when_their_similarity_is_high_enough(
    share: float, least: float
) -> None:
    chance = Random(round(1_000 * share))
    words = [f"word{chance.randint(1, 900)}" for _ in range(6_000)]
    spread = [chance.choice(words) if chance.random() < share else word for word in words]
    start = chance.randint(0, 3_000)
    changed = words[start : start + round(share * len(words))]
    in_one_place = [*words[:start], *changed[::-1], *words[start + len(changed) :]]
    for other in (spread, in_one_place, in_one_place[: -start or None]):
        one, two = " ".join(words), " ".join(other)
        assert is_similar(one, two, least) == (similarity(one, two) >= least)
        assert is_similar(two, one, least) == (similarity(two, one) >= least)
