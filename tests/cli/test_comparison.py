"""The statistics of a comparison, intervals by simulation."""

import random
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import pytest

from hone_extras.compare.comparison import (
    FEWEST_RATED,
    MeanInterval,
    NoScore,
    TextOutcome,
    UnscoredTexts,
    verdict_on,
    with_sign,
)
from hone_extras.compare.paired_statistics import (
    compare_settings,
    interval,
    more_texts,
    noise_of,
    people_on_all,
    trust_of,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.25, "+0.250"),
        (-0.0, "+0.000"),
        (-0.000478, "-0.0005"),
        (-4e-18, "+0.000"),
        (3e-7, "+0.0000003"),
    ],
)
def test_an_end_that_is_not_0_is_not_shown_as_0(value: float, shown: str) -> None:
    assert with_sign(value) == shown


def outcome(score: float | None, cost: float | None = 0.01, **fields: object) -> TextOutcome:
    judged = () if score is None else (score,)
    given: dict[str, object] = {"has_text": True, "judged": judged, "cost_usd": cost, **fields}
    return TextOutcome(**given)  # type: ignore[arg-type]


def outcomes(
    scores: Mapping[str, Sequence[float]], costs: Mapping[str, float | None] | None = None
) -> list[dict[str, TextOutcome]]:
    costs = costs or dict.fromkeys(scores, 0.01)
    return [
        {name: outcome(value, costs[name]) for name, value in zip(scores, row, strict=True)}
        for row in zip(*scores.values(), strict=True)
    ]


def noisy(seed: int, count: int, *means: float, sd: float = 0.05) -> dict[str, list[float]]:
    """Scores of texts of different difficulty, which all settings share."""
    draw = random.Random(seed)
    levels = [draw.gauss(0.0, 0.15) for _ in range(count)]
    return {
        name: [mean + level + draw.gauss(0.0, sd) for level in levels]
        for name, mean in zip("abc", means, strict=False)
    }


def normal(draw: random.Random) -> float:
    return draw.gauss(0.03, 0.1)


def in_tenths(draw: random.Random) -> float:
    """The difference of two scores in tenths."""
    return (draw.randint(0, 7) - draw.randint(0, 7)) / 10


def mostly_tied(draw: random.Random) -> float:
    return draw.choice((0.0, 0.0, 0.05, 0.2))


@pytest.mark.parametrize(
    ("drawn", "mean", "texts", "least"),
    [(normal, 0.03, 6, 0.94), (in_tenths, 0.0, 12, 0.94), (mostly_tied, 0.0625, 12, 0.91)],
)
def test_intervals_contain_the_true_mean_about_as_often_as_they_say(
    drawn: Callable[[random.Random], float], mean: float, texts: int, least: float
) -> None:
    draw = random.Random(1)
    found = [interval([drawn(draw) for _ in range(texts)]) for _ in range(1_500)]
    covered = fmean(contains(known, mean) for known in found)
    assert least <= covered <= 0.97


def contains(found: MeanInterval | None, value: float) -> bool:
    return (
        found is not None
        and found.low is not None
        and found.high is not None
        and found.low <= value <= found.high
    )


def reach(found: MeanInterval | None) -> float:
    assert found is not None
    assert found.high is not None
    return found.high - found.mean


def test_the_intervals_of_three_settings_hold_together() -> None:
    """Without the correction they would in about 88 of 100."""
    held = 0
    for seed in range(300):
        found = compare_settings("abc", outcomes(noisy(seed, 12, 0.6, 0.6, 0.6)), 0.02)
        held += all(contains(difference.score, 0.0) for difference in found.differences)
    assert held / 300 >= 0.93


def test_settings_that_are_alike_are_seldom_told_apart() -> None:
    advised = [
        compare_settings("ab", outcomes(noisy(seed, 12, 0.6, 0.6)), 0.02).recommendation.verdict
        for seed in range(300)
    ]
    assert advised.count("shown") / 300 <= 0.08


def test_what_people_would_find_is_covered_although_the_judge_exaggerates() -> None:
    draw, covered, width, of_rated_alone = random.Random(3), 0, 0.0, 0.0
    for _ in range(600):
        truth = [draw.gauss(0.04, 0.1) for _ in range(60)]
        judge = [2 * value + 0.05 + draw.gauss(0, 0.05) for value in truth]
        people = [value + draw.gauss(0, 0.02) if i < 20 else None for i, value in enumerate(truth)]
        found = people_on_all(judge, people, 0.95)
        alone = interval([value for value in people if value is not None])
        covered += contains(found, 0.04)
        width, of_rated_alone = width + reach(found), of_rated_alone + reach(alone)
    assert 0.93 <= covered / 600 <= 0.98
    assert width < 0.85 * of_rated_alone


def test_too_few_ratings_decide_nothing_and_ten_do() -> None:
    scores = noisy(5, 12, 0.5, 0.7)
    for rated in (FEWEST_RATED - 1, FEWEST_RATED):
        texts = [
            {
                "a": outcome(a, ratings={"Ann": 0.9} if i < rated else {}),
                "b": outcome(b, ratings={"Ann": 0.5 + i / 100} if i < rated else {}),
            }
            for i, (a, b) in enumerate(zip(scores["a"], scores["b"], strict=True))
        ]
        found = compare_settings("ab", texts, 0.02)
        (difference,) = found.differences
        assert difference.people is not None
        assert difference.people.mean < -0.3
        assert found.recommendation.choice == ("a" if rated == FEWEST_RATED else "b")
        said = found.recommendation.sentences[0]
        assert ("people score its texts higher" in said) == (rated == FEWEST_RATED)


def test_only_people_who_rated_both_drafts_count() -> None:
    texts = [
        {
            "a": outcome(0.5, ratings={"Ann": 0.2, "Bob": 0.1}),
            "b": outcome(0.5, ratings={"Ann": 0.6, "Cleo": 1.0}),
        }
    ]
    (difference,) = compare_settings("ab", texts, 0.02).differences
    assert difference.people is not None
    assert difference.people.count == 1
    assert difference.people.mean == pytest.approx(0.4)


def test_trust_begins_at_a_half_and_follows_people() -> None:
    assert trust_of([]) == 0.5
    assert trust_of([(0.2, 0.2)] * 1_000) > 0.98
    assert trust_of([(0.2, -0.2)] * 1_000) == 0
    assert trust_of([(0.2, 0.2)] * 25) == pytest.approx(0.75)


def test_the_better_setting_is_named_with_what_its_score_costs() -> None:
    found = compare_settings("ab", outcomes(noisy(1, 20, 0.6, 0.7), {"a": 0.01, "b": 0.03}), 0.02)
    assert (found.recommendation.choice, found.recommendation.verdict) == ("b", "shown")
    said = " ".join(found.recommendation.sentences)
    assert "b costs $0.0200 a text more than a" in said
    assert "for each 0.01 of score" in said


def test_the_cheaper_of_two_even_settings_is_recommended() -> None:
    scores = noisy(2, 60, 0.6, 0.6, sd=0.01)
    found = compare_settings("ab", outcomes(scores, {"a": 0.01, "b": 0.03}), 0.02)
    assert (found.recommendation.choice, found.recommendation.verdict) == ("a", "even")
    unknown = compare_settings("ab", outcomes(scores, {"a": 0.01, "b": None}), 0.02)
    assert unknown.recommendation.choice is None
    assert "What they cost is unknown." in unknown.recommendation.sentences
    assert unknown.differences[0].cost_usd is None


def test_too_few_texts_say_how_many_more_would_tell() -> None:
    found = compare_settings("ab", outcomes(noisy(1, 5, 0.5, 0.9)), 0.02)
    assert (found.differences[0].verdict, found.differences[0].more_texts) == ("too few", 1)
    assert found.recommendation.choice is None
    assert "About 1 more would tell." in found.recommendation.sentences[0]


def test_while_it_is_open_the_one_that_costs_least_is_named() -> None:
    scores = noisy(7, 12, 0.6, 0.61, sd=0.2)
    found = compare_settings("ab", outcomes(scores, {"a": 0.01, "b": 0.03}), 0.02)
    assert found.recommendation.verdict == "open"
    assert "nothing shows that a, which costs least" in " ".join(found.recommendation.sentences)
    alike = compare_settings("ab", outcomes(scores), 0.02)
    assert "costs least" not in " ".join(alike.recommendation.sentences)


def test_so_many_more_texts_do_show_the_difference() -> None:
    """Of the texts that are said to be needed, about four in five comparisons tell."""
    first = interval([0.08, -0.06, 0.1, -0.07, 0.05, -0.02, 0.06, 0.02])
    assert first is not None
    assert first.sd is not None
    more = more_texts(first, 0.02, 0.95)
    assert more is not None
    draw, shown = random.Random(4), 0
    for _ in range(400):
        values = [draw.gauss(first.mean, first.sd) for _ in range(first.count + more)]
        shown += verdict_on(interval(values), 0.02) == "better"
    assert 0.74 <= shown / 400 <= 0.88


def test_equal_differences_have_no_interval_and_are_judged_by_their_signs() -> None:
    even = compare_settings("ab", outcomes({"a": [0.5] * 12, "b": [0.5] * 12}), 0.02)
    assert even.differences[0].verdict == "even"
    assert "on at most 22% of such texts" in even.recommendation.sentences[0]
    higher = compare_settings("ab", outcomes({"a": [0.5] * 12, "b": [0.75] * 12}), 0.02)
    assert higher.recommendation.choice == "b"
    few = compare_settings("abc", outcomes({"a": [0.5] * 6, "b": [0.75] * 6, "c": [0.5] * 6}), 0.02)
    assert few.differences[0].verdict == "open"


def test_a_text_that_is_missing_is_told_and_counted_as_0_beside_the_pairs() -> None:
    texts = outcomes(noisy(1, 20, 0.6, 0.64))
    for row in texts[:4]:
        row["b"] = TextOutcome(has_text=False, cost_usd=0.02)
    found = compare_settings("ab", texts, 0.02)
    (difference,) = found.differences
    assert difference.score is not None
    assert difference.counting_missing is not None
    assert (difference.score.count, difference.counting_missing.count) == (16, 20)
    assert difference.counting_missing.mean < 0 < difference.score.mean
    assert found.settings[1].without_text == 4
    assert any("counts as 0" in sentence for sentence in found.recommendation.sentences)


def test_a_judgement_that_failed_is_no_fault_of_the_setting() -> None:
    texts = outcomes(noisy(1, 20, 0.6, 0.64))
    texts[0]["b"] = outcome(None)
    (difference,) = compare_settings("ab", texts, 0.02).differences
    assert difference.counting_missing is None
    assert difference.score is not None
    assert difference.score.count == 19


def test_what_waits_for_a_person_is_neither_counted_nor_held_against_the_setting() -> None:
    texts = outcomes(noisy(1, 8, 0.6, 0.64))
    texts[0]["b"] = TextOutcome(has_text=False, has_ended=False)
    found = compare_settings("ab", texts, 0.02)
    assert found.differences[0].counting_missing is None
    assert (found.settings[1].unfinished, found.settings[1].without_text) == (1, 0)
    assert found.differences[0].cost_usd is not None


def test_the_noise_of_the_judge_is_that_of_texts_judged_twice() -> None:
    assert noise_of([(0.5,), (0.7,)]) is None
    assert noise_of([(0.5, 0.7), (0.1, 0.1), (0.9,)]) == pytest.approx(0.1)
    draw = random.Random(6)
    judged = [[draw.gauss(0.5, 0.08) for _ in range(3)] for _ in range(400)]
    assert noise_of(judged) == pytest.approx(0.08, rel=0.1)


def test_which_of_three_is_best_is_said_against_each_other_one() -> None:
    found = compare_settings("abc", outcomes(noisy(1, 30, 0.6, 0.8, 0.7, sd=0.02)), 0.02)
    assert found.recommendation.choice == "b"
    assert "against a" in found.recommendation.sentences[0]
    assert "against c" in found.recommendation.sentences[0]
    verdicts = {
        (difference.setting, difference.against): difference.verdict
        for difference in found.differences
    }
    assert verdicts == {("b", "a"): "better", ("c", "a"): "better", ("c", "b"): "worse"}


def test_where_only_one_setting_has_scores_it_is_recommended_if_the_others_are_at_fault() -> None:
    refused = NoScore("model_refused: no", "Correct the model.")
    failed = TextOutcome(has_text=False, no_score=refused)
    for count, verdict in ((6, "shown"), (5, "open")):
        found = compare_settings("ab", [{"a": outcome(0.5), "b": failed}] * count, 0.02)
        advice = found.recommendation
        assert (advice.choice, advice.verdict) == ("a", verdict)
        assert found.settings[1].unscored == (UnscoredTexts(count, refused),)
        assert found.differences[0].verdict == "none"
        assert f"b has no score on any of {count} texts: model_refused: no" in advice.sentences[1]


def test_a_setting_that_was_not_judged_makes_no_other_one_the_better() -> None:
    unjudged = outcome(None, no_score=NoScore("not judged", "Mend it.", blames_setting=False))
    found = compare_settings("ab", [{"a": outcome(0.5), "b": unjudged}], 0.02)
    assert found.recommendation.choice is None
    assert "Only a can be told about" in found.recommendation.sentences[0]
    assert "no text of b has a score" in found.recommendation.sentences[0]
