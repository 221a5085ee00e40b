"""The simulated world tells the truth, and every policy meets the same one."""

from functools import partial
from random import Random
from typing import Any

import pytest

from app.contract.requests import RefinementRequest
from benchmarks.simulation.figures import HELD_OUT, PAST, PAST_FROM, TUNING, Cell, Mean, Spec
from benchmarks.simulation.policies import hone, informed, naive
from benchmarks.simulation.programs import (
    PLACES,
    PROGRAMMERS,
    TESTERS,
    ProgramWorld,
    faults_in,
    passed,
    source_of,
)
from benchmarks.simulation.world import REVISERS, Critic, Reviser, World, quality_of, text_of
from tests.engine.engine_driver import driver_scoring, verdict
from workers.engine.moves import Judged
from workers.engine.pipeline import strategy_for

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
    request = _request(cap=4, stop={"tolerance": 0})
    ours = hone(World(3, HARMFUL, EXACT), request)
    first = quality_of(World(3, HARMFUL, EXACT).write("iterations/1/draft"))
    assert (naively.calls, naively.judged) == (8, 4)
    assert naively.quality < ours.quality == first


def test_where_every_revision_helps_both_do_the_same() -> None:
    naively = naive(World(3, STEADY, EXACT), 0.99, 4)
    ours = hone(World(3, STEADY, EXACT), _request(cap=4))
    assert (ours.quality, ours.calls) == (naively.quality, naively.calls)


def test_who_knows_the_reviser_and_the_critic_rejects_harm_and_ignores_a_critic_that_errs() -> None:
    first = quality_of(World(3, HARMFUL, EXACT).write("iterations/1/draft"))
    assert informed(World(3, HARMFUL, EXACT), 0.99, 4).quality == first
    helped = World(3, STEADY, Critic("rubbish", rubbish=1))
    assert informed(helped, 2, 4) == naive(helped, 2, 4)


def test_the_best_of_noisy_scores_flatters_and_what_the_rule_keeps_does_less() -> None:
    cell = _cell(STEADY, Critic("noisy", sigma=0.1), 3)
    assert cell.strict is not None
    assert cell.strict.overstated > 0.01
    assert cell.fresh.overstated < cell.strict.overstated


def test_what_revisions_do_is_learnt_from_scores_alone() -> None:
    cell = _cell(REVISERS[-1], Critic("noisy", sigma=0.02), 12)
    assert cell.naive.quality < cell.fresh.quality < cell.learnt.quality
    assert any(it.estimate is not None for it in cell.learnt.results)
    assert all(it.estimate is None for it in cell.fresh.results)


def test_of_two_drafts_with_the_same_exact_score_the_later_is_revised_the_earlier_returned() -> (
    None
):
    model, body = driver_scoring(0.5, 0.5, 0.4), RefinementRequest(task="-")
    outcome = model.run(strategy_for(body, "482913", is_exact=True), body.limits())
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


def test_tuning_and_held_out_seeds_are_disjoint_with_the_histories_of_each() -> None:
    assert max(TUNING) + PAST_FROM + 10 * PAST < min(HELD_OUT)
    assert max(TUNING) < PAST_FROM


def test_a_program_has_the_quality_that_its_hidden_tests_find() -> None:
    world = ProgramWorld(3, PROGRAMMERS[0], TESTERS[0])
    assert world.quality(source_of(frozenset())) == 1
    faulty = world.write("iterations/1/draft")
    assert faults_in(faulty)
    assert 0 < world.quality(faulty) < 1
    compile(faulty, "program", "exec")


def test_every_fault_is_found_by_a_test() -> None:
    assert [it for it in PLACES if all(passed(source_of(frozenset({it}))))] == []


def test_a_fault_of_a_small_function_masks_another_one() -> None:
    masking = [
        ProgramWorld(seed, PROGRAMMERS[0], TESTERS[0], is_masking=True) for seed in range(40)
    ]
    texts = [world.write("a") for world in masking]
    gained = [
        world.quality(world.revise("b", text)) - world.quality(text)
        for world, text in zip(masking, texts, strict=True)
        if len(faults_in(world.revise("b", text))) < len(faults_in(text))
    ]
    assert min(gained) < 0 < max(gained)


def test_a_revised_program_is_another_one() -> None:
    for programmer in PROGRAMMERS:
        world = ProgramWorld(3, programmer, TESTERS[0])
        text = world.write("a")
        assert world.revise("b", text) != text


def _request(cap: int, **fields: Any) -> RefinementRequest:
    given = {"task": "-", "threshold": 0.99, "max_iterations": cap, **fields}
    return RefinementRequest.model_validate(given)


def _cell(reviser: Reviser, critic: Critic, cap: int) -> Cell:
    worlds = partial(World, reviser=reviser, critic=critic)
    return Spec("yardstick", reviser.name, critic.name, cap, worlds, range(20)).played()
