"""The filter behind noisy scores: what it keeps, believes, learns and forgets."""

from random import Random

import pytest

from app.contract.statistics import Learnt
from workers.engine.quality import (
    BANK,
    HYPOTHESES,
    MOST_FALL,
    QualityFilter,
    weights_of,
)


def chain(*scores: float, learnt: Learnt | None = None) -> tuple[QualityFilter, list[int]]:
    """Add a chain of revisions of the draft kept last; return the numbers of those kept."""
    quality, kept = QualityFilter(learnt), [0]
    quality.add("0", scores[0])
    for number, score in enumerate(scores[1:], 1):
        quality.add(str(number), score, str(kept[-1]))
        if quality.keeps(str(number), str(kept[-1])):
            kept.append(number)
    return quality, kept


def learnt_from(gain: float, spread: float, noise: float, refinements: int = 40) -> Learnt:
    """What refinements teach whose revisions and critic are like this."""
    luck, evidence = Random(5), [0.0] * len(HYPOTHESES)
    for _ in range(refinements):
        quality, base, worth = QualityFilter(), "0", 0.4
        quality.add(base, luck.gauss(worth, noise))
        for number in "12345":
            revised = worth + luck.gauss(gain, spread)
            quality.add(number, luck.gauss(revised, noise), base)
            if quality.keeps(number, base):
                base, worth = number, revised
        evidence = [a + b for a, b in zip(evidence, quality.lesson().evidence, strict=True)]
    return Learnt(bank=BANK, refinements=refinements, evidence=tuple(evidence))


def likely(learnt: Learnt, name: str) -> float:
    pairs = zip(weights_of(learnt), HYPOTHESES, strict=True)
    return float(sum(weight * getattr(it, name) for weight, it in pairs))


def test_without_history_a_slightly_lower_score_does_not_reject_a_revision() -> None:
    assert chain(0.6, 0.57)[1] == [0, 1]


def test_a_much_lower_score_does() -> None:
    assert chain(0.7, 0.2)[1] == [0]
    assert chain(0.9, 0.9 - MOST_FALL - 0.01)[1] == [0]


def test_where_the_critic_is_known_to_be_exact_a_lower_score_rejects_a_revision() -> None:
    exact = learnt_from(gain=0.0, spread=0.16, noise=0.01)
    assert likely(exact, "noise") < 0.04
    assert chain(0.6, 0.57)[1] == [0, 1]
    assert chain(0.6, 0.5, learnt=exact)[1] == [0]


def test_where_revisions_are_known_to_help_and_the_critic_to_be_noisy_it_keeps_them() -> None:
    noisy = learnt_from(gain=0.08, spread=0.03, noise=0.2)
    assert likely(noisy, "noise") > 0.15
    assert chain(0.6, 0.3, learnt=noisy)[1] == [0, 1]


def test_it_learns_the_gain_of_a_revision() -> None:
    gains = [likely(learnt_from(gain, 0.05, 0.05), "gain") for gain in (0.0, 0.04, 0.08)]
    assert gains == sorted(gains)
    assert gains[0] < 0.02
    assert gains[2] > 0.06


def test_a_score_that_no_other_explains_hardly_counts() -> None:
    helpful = learnt_from(gain=0.08, spread=0.04, noise=0.03)

    def worth_after(score: float) -> float:
        quality, _ = chain(0.5, 0.58, 0.65, learnt=helpful)
        quality.add("3", score, "2")
        return quality.of("3")

    assert worth_after(0.55) < worth_after(0.7)
    assert worth_after(0.0) > worth_after(0.55)


def test_the_noisier_the_critic_the_more_a_revision_may_score_less() -> None:
    exact = learnt_from(gain=0.0, spread=0.16, noise=0.01)
    noisy = learnt_from(gain=0.0, spread=0.16, noise=0.2)
    assert chain(0.6, 0.5, learnt=exact)[1] == [0]
    assert chain(0.6, 0.5, learnt=noisy)[1] == [0, 1]


def test_a_history_that_the_scores_contradict_neither_counts_nor_gives_an_estimate() -> None:
    exact = learnt_from(gain=0.0, spread=0.04, noise=0.01)
    known = exact.model_copy(update={"predicted": (200, 195)})
    assert chain(0.5, 0.52, 0.49, learnt=known)[0].is_calibrated
    swinging, _ = chain(0.5, 0.75, 0.45, 0.7, 0.4, learnt=known)
    assert not swinging.is_calibrated
    assert swinging.of("4") == pytest.approx(chain(0.5, 0.75, 0.45, 0.7, 0.4)[0].of("4"), abs=0.1)


def test_the_base_is_worth_less_after_a_revision_that_scores_low() -> None:
    quality = QualityFilter()
    quality.add("a", 0.8)
    before = quality.of("a")
    quality.add("b", 0.4, "a")
    assert quality.of("a") < before


def test_a_persons_score_is_taken_at_its_word_and_teaches_nothing_about_the_critic() -> None:
    quality = QualityFilter()
    quality.add("a", 0.7, is_certain=True)
    assert quality.of("a") == pytest.approx(0.7)
    assert set(quality.lesson().evidence) == {0.0}


def test_the_mean_of_several_scores_is_believed_more_than_one_of_them() -> None:
    beliefs = []
    for times in (1, 4):
        quality = QualityFilter()
        quality.add("a", 0.5)
        quality.add("b", 0.9, "a", times=times)
        beliefs.append(quality.of("b"))
    assert beliefs[0] < beliefs[1]


def test_the_chance_falls_with_the_threshold_and_the_estimate_is_closer_to_what_is_usual() -> None:
    quality = QualityFilter()
    quality.add("a", 0.95)
    chances = [quality.chance("a", threshold) for threshold in (0.5, 0.7, 0.9)]
    assert chances == sorted(chances, reverse=True)
    assert 0.5 < quality.estimate("a", 0.5).value < 0.95


@pytest.mark.parametrize("bank", [BANK - 1, BANK + 1])
def test_evidence_about_another_bank_is_not_read(bank: int) -> None:
    other = Learnt(bank=bank, refinements=90, evidence=(5.0, *[0.0] * (len(HYPOTHESES) - 1)))
    assert weights_of(other) == weights_of(None)
    assert not QualityFilter(other).is_calibrated


def test_a_lesson_says_what_the_scores_were_and_no_text() -> None:
    lesson = chain(0.5, 0.6)[0].lesson()
    assert (lesson.refinements, lesson.first_drafts) == (1, (1, 0.5, 0.25))
    assert len(lesson.evidence) == len(HYPOTHESES)


def test_the_lesson_is_the_change_of_the_weights() -> None:
    quality, _ = chain(0.5, 0.9, 0.4)
    again = weights_of(Learnt(bank=BANK, refinements=1, evidence=quality.lesson().evidence))
    assert sum(again) == pytest.approx(1)
    noisy = sum(w for w, it in zip(again, HYPOTHESES, strict=True) if it.noise + it.spread > 0.2)
    before = sum(
        w for w, it in zip(weights_of(None), HYPOTHESES, strict=True) if it.noise + it.spread > 0.2
    )
    assert noisy > before


def test_a_copy_changes_independently() -> None:
    quality, _ = chain(0.5, 0.6)
    other = quality.copy()
    other.add("x", 0.1, "1")
    assert not quality.knows("x")
    assert quality.of("1") != other.of("1")
    assert quality.lesson() == chain(0.5, 0.6)[0].lesson()


def test_estimates_need_refinements_of_the_same_kind() -> None:
    none = (0.0,) * len(HYPOTHESES)
    known = Learnt(bank=BANK, refinements=50, evidence=none, predicted=(150, 144))
    assert QualityFilter(known).is_calibrated
    assert not QualityFilter(known.model_copy(update={"is_own": False})).is_calibrated


@pytest.mark.parametrize(
    ("rated", "is_shown"),
    [
        ((0, 0, 0, 0), False),
        ((25, 5, 5, 4), False),
        ((40, 8, 8, 6.4), True),
        ((40, 12, 8, 6.4), True),
        ((40, 14, 8, 6.4), False),
        ((40, 1, 8, 6.4), False),
    ],
    ids=["unrated", "too few", "as said", "by luck", "too cautious", "too hopeful"],
)
def test_a_chance_is_shown_where_as_many_results_met_as_was_predicted(
    rated: tuple[float, float, float, float], *, is_shown: bool
) -> None:
    known = Learnt(bank=BANK, refinements=50, rated=rated)
    known = known.model_copy(update={"evidence": (0.0,) * len(HYPOTHESES)})
    quality, _ = chain(0.5, 0.6, learnt=known)
    shown = quality.estimate("1", 0.6).chance
    assert shown == (quality.chance("1", 0.6) if is_shown else None)


def test_the_trust_in_a_critic_counts_without_evidence_about_the_hypotheses() -> None:
    def keeps(trust: float) -> bool:
        quality = QualityFilter(Learnt(bank=BANK, is_own=False, trust=trust))
        quality.add("iterations/1", 0.9)
        quality.add("iterations/2", 0.6, "iterations/1")
        return quality.keeps("iterations/2", "iterations/1")

    assert (keeps(0.0), keeps(1.0)) == (True, False)
