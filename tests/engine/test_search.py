"""When a search stops: absolute expectations, one rule at a time."""

from collections import Counter
from pydoc_data.topics import topics
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.contract.status import StopReason
from benchmarks.long_texts import LENGTHS, row
from tests.engine.engine_driver import driver_scoring, request, verdict
from workers.engine.pipeline import strategy_for
from workers.engine.replies.likeness import likeness

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


def test_ties_use_the_patience_up() -> None:
    assert why([0.5] * 9, stop=TWO) == (StopReason.PLATEAU, 3)
    assert why([0.5] * 9, stop={**TWO, "min_improvement": 0}) == (StopReason.PLATEAU, 3)


def test_an_improvement_is_as_large_as_it_reads() -> None:
    rising = [0.29, 0.30, 0.57, 0.58, 0.9]  # 0.58 - 0.57 is 0.010000000000000009, 0.30 - 0.29 too
    assert why(rising, stop={"patience": 1}) == (StopReason.THRESHOLD_MET, 5)


def test_without_patience_there_is_no_plateau() -> None:
    assert why([0.7, 0.6, 0.65, 0.5, 0.68, 0.9]) == (StopReason.THRESHOLD_MET, 6)


def test_stable_when_a_revision_changes_nothing() -> None:
    assert why([0.5, 0.5], [TEXT, TEXT]) == (StopReason.STABLE, 2)


def test_the_same_text_stands_still_whatever_a_noisy_critic_says_of_it() -> None:
    assert why([0.5, 0.7], [TEXT, f"{TEXT} \r\n"]) == (StopReason.STABLE, 2)


NEAR = TEXT.replace("again", "soon")
ALIKE = {"max_similarity": 0.8}


def test_stable_at_the_similarity_asked_for() -> None:
    assert why([0.5, 0.5], [TEXT, NEAR], stop=ALIKE) == (StopReason.STABLE, 2)


def test_a_similar_draft_with_a_higher_score_is_progress() -> None:
    assert why([0.5, 0.6, 0.9], [TEXT, NEAR, "b"], stop=ALIKE) == (StopReason.THRESHOLD_MET, 3)


def test_a_similar_draft_without_an_issue_of_its_parent_is_progress() -> None:
    fox, dog = ({"kind": "quality", "message": it} for it in ("Which fox?", "Name the dog."))
    found = [[fox, dog], [dog], [dog]]
    model = driver_scoring(*(verdict(0.5, findings=it) for it in found), writer=[TEXT, NEAR, TEXT])
    stop = {**ALIKE, "escape": False}
    outcome = model.play(request(max_iterations=9, stop=stop))
    assert (outcome.reason, len(model.asked("critic"))) == (StopReason.STABLE, 3)


@pytest.mark.long
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("words", [length for length in LENGTHS if length != 5_000])
def test_loops_on_long_texts_end_like_loops_on_short_ones(words: int, line_end: str) -> None:
    text = "\n".join(topics.values()).replace("\n", line_end)
    standing = ["stable, 3", "oscillating, 4", "max_iterations, 9", "plateau, 4"]
    assert row(text, words) == ["threshold_met, 5", *standing]


def test_oscillating_when_a_text_comes_back() -> None:
    texts = ["alpha beta gamma delta", TEXT, "alpha beta gamma delta"]
    assert why([0.5, 0.6, 0.55], texts) == (StopReason.OSCILLATING, 3)


def test_the_same_text_made_of_the_same_draft_again_is_a_rejected_sample() -> None:
    texts = ["alpha beta gamma delta", TEXT, TEXT, TEXT, "one two three four five"]
    scores = [0.8, 0.2, 0.2, 0.2, 0.9]
    assert why(scores, texts) == (StopReason.THRESHOLD_MET, 5)


def test_oscillating_when_the_text_before_the_parent_comes_back_nearly() -> None:
    texts = [TEXT, "alpha beta gamma delta", NEAR]
    assert why([0.5, 0.5, 0.5], texts, stop=ALIKE) == (StopReason.OSCILLATING, 3)


def test_a_swing_of_scores_is_no_oscillation_of_texts() -> None:
    body = request(max_iterations=9, stop={"escape": False})
    outcome = driver_scoring(0.5, 0.3, 0.5, 0.3, 0.9).run(
        strategy_for(body, "482913", is_exact=True), body.limits()
    )
    assert outcome.reason is StopReason.THRESHOLD_MET


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
        ("吾輩は猫である", "吾輩は犬である", 2 / 8),
        ("a b c a b c", "a b c", 1 / 4),
    ],
)
def test_likeness_is_the_share_of_common_three_grams(one: str, other: str, expected: float) -> None:
    assert likeness(one, other) == likeness(other, one) == pytest.approx(expected)


FEW_WORDS = st.lists(st.sampled_from("abcde"), max_size=12)


@given(FEW_WORDS, FEW_WORDS, FEW_WORDS, FEW_WORDS)
def test_likeness_counts_every_three_gram_of_short_texts(
    start: list[str], one: list[str], other: list[str], end: list[str]
) -> None:
    texts = [start + one + end, start + other + end]
    first, second = (Counter(zip(it, it[1:], it[2:], strict=False)) for it in texts)
    assume(first and second)
    expected = (first & second).total() / (first | second).total()
    assert likeness(*map(" ".join, texts)) == expected


@pytest.mark.parametrize("length", [203, 900, 20_000])
def test_likeness_of_one_change_is_the_same_in_every_length(length: int) -> None:
    words = [f"word{number}" for number in range(length)]
    changed = [*words[: length // 2], "other", *words[length // 2 + 1 :]]
    assert likeness(" ".join(words), " ".join(changed)) == pytest.approx(0.97, abs=0.001)
