"""The simulated world tells the truth, and every policy meets the same one."""

from random import Random

import pytest

from app.contract.requests import RefinementRequest
from benchmarks.simulation.figures import HELD_OUT, TUNING, Mean, simulated
from benchmarks.simulation.policies import hone, naive
from benchmarks.simulation.world import Critic, Reviser, World, quality_of, text_of
from tests.engine.engine_driver import driver_scoring, verdict
from workers.engine.moves import Judged

STEADY = Reviser("always helps", helps_worst=1, helps_best=1, reach=0.5, harm=0)
HARMFUL = Reviser("always harms", helps_worst=0, helps_best=0, reach=0, harm=0.5)
EXACT = Critic("exact")


def test_a_text_carries_its_quality_exactly() -> None:
    assert quality_of(text_of(1 / 3, "iterations/1/draft")) == 1 / 3


def test_luck_belongs_to_the_step_and_not_to_the_order_of_calls() -> None:
    noisy = Critic("noisy", sigma=0.2, has_heavy_tails=True, rubbish=0.1)
    one, other = World(7, STEADY, noisy), World(7, STEADY, noisy)
    text = one.write("a")
    forth = [one.score("b", text), one.score("c", text)]
    assert [other.score("c", text), other.score("b", text)] == forth[::-1]
    assert forth[0] != forth[1]


def test_a_stubborn_critic_errs_the_same_when_it_is_asked_again() -> None:
    world = World(7, STEADY, Critic("stubborn", sigma=0.2, is_stubborn=True))
    text = world.write("a")
    assert world.score("b", text) == world.score("c", text)


def test_a_critic_is_off_by_its_bias_and_its_noise() -> None:
    critic, luck = Critic("lenient", sigma=0.05, bias=0.1), Random(1)
    errors = [critic.score(0.5, luck) - 0.5 for _ in range(4_000)]
    assert sum(errors) / len(errors) == pytest.approx(0.1, abs=0.005)
    assert Mean.of(errors).margin == pytest.approx(1.96 * 0.05 / 4_000**0.5, rel=0.05)


def test_a_coarse_critic_speaks_in_tenths() -> None:
    critic = Critic("tenths", sigma=0.2, grain=0.1)
    said = {round(critic.score(0.5, Random(seed)), 12) for seed in range(200)}
    assert said <= {tenth / 10 for tenth in range(11)}


def test_the_naive_loop_returns_its_last_draft_though_it_is_the_worst() -> None:
    naively = naive(World(3, HARMFUL, EXACT), 0.99, 4)
    ours = hone(World(3, HARMFUL, EXACT), _request(cap=4))
    first = quality_of(World(3, HARMFUL, EXACT).write("iterations/1/draft"))
    assert (naively.calls, naively.judged) == (8, 4)
    assert naively.quality < ours.quality == first


def test_where_every_revision_helps_both_do_the_same() -> None:
    naively = naive(World(3, STEADY, EXACT), 0.99, 4)
    ours = hone(World(3, STEADY, EXACT), _request(cap=4))
    assert (ours.quality, ours.calls) == (naively.quality, naively.calls)


def test_the_best_of_noisy_scores_flatters_and_the_best_of_exact_ones_does_not() -> None:
    cell = simulated(STEADY, Critic("noisy", sigma=0.1), 3, range(20))
    assert cell.hone.overstated > 0.01
    exact = simulated(STEADY, EXACT, 3, range(20))
    assert exact.hone.overstated == pytest.approx(0, abs=1e-6)


def test_the_naive_loop_at_equal_calls_spends_no_more_than_hone() -> None:
    cell = simulated(HARMFUL, Critic("noisy", sigma=0.1), 6, range(20))
    pairs = zip(cell.matched.results, cell.hone.results, strict=True)
    assert all(matched.calls <= ours.calls for matched, ours in pairs)
    assert cell.hone.calls < cell.patient.calls


def test_of_two_drafts_that_score_the_same_the_later_is_revised_and_the_earlier_returned() -> None:
    model = driver_scoring(0.5, 0.5, 0.4)
    outcome = model.play(RefinementRequest(task="-"))
    parents = [
        move.judgement.scored.draft.parent for move in model.moves if isinstance(move, Judged)
    ]
    assert parents == [None, "iterations/1", "iterations/2"]
    assert outcome.best.path == "iterations/1"


def test_a_draft_that_fails_a_floor_is_not_revised_for_its_equal_score() -> None:
    names = ("accuracy", "tone")
    request = RefinementRequest.model_validate(
        {"task": "-", "criteria": [{"name": "accuracy", "floor": 0.5}, {"name": "tone"}]}
    )
    scores = [(0.6, 0.6), (0.4, 0.8), (0.1, 0.1)]
    model = driver_scoring(*[verdict(*pair, names=names) for pair in scores])
    model.play(request)
    parents = [
        move.judgement.scored.draft.parent for move in model.moves if isinstance(move, Judged)
    ]
    assert parents == [None, "iterations/1", "iterations/1"]


def test_tuning_and_held_out_seeds_are_disjoint() -> None:
    assert not set(TUNING) & set(HELD_OUT)


def _request(cap: int) -> RefinementRequest:
    return RefinementRequest(task="-", threshold=0.99, max_iterations=cap)
