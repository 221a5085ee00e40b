"""What a refinement learns from others and teaches them, whenever its workers die."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.contract.editor import EDITOR
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.contract.statistics import Learnt
from app.contract.versions import ENGINE_VERSION
from app.store.statistics import PRIOR_TRUST, PRIOR_WEIGHT
from tests.workers.refinement_harness import (
    TENANT,
    TEST_MODEL,
    RefinementHarness,
    ScriptedAnswers,
    scores,
)
from workers.engine.moves import MoveCoroutine
from workers.engine.pipeline import StrategyFactory, strategy_for
from workers.engine.quality import HYPOTHESES
from workers.engine.search import Outcome
from workers.play.journal import VALIDATORS_WEIGHT

LESSON = Learnt(bank=1, refinements=1, evidence=(-1.0, -2.0), first_drafts=(1, 0.5, 0.25))


@dataclass
class TeachingEngine:
    """Plays as ever and teaches the same lesson each time; notes what each claim had learnt."""

    learnt: list[Learnt | None] = field(default_factory=list)

    def __call__(
        self,
        request: RefinementRequest,
        nonce: str,
        *,
        learnt: Learnt | None = None,
        is_exact: bool = False,
    ) -> MoveCoroutine[Outcome]:
        self.learnt.append(learnt)
        return self._play(strategy_for(request, nonce))

    async def _play(self, strategy: MoveCoroutine[Outcome]) -> Outcome:
        return replace(await strategy, lesson=LESSON)

    @property
    def engines(self) -> Mapping[int, StrategyFactory]:
        return {ENGINE_VERSION: self}


async def known(harness: RefinementHarness, **fields: Any) -> Learnt | None:
    """Return what a refinement that begins now has learnt."""
    engine = TeachingEngine()
    refinement_id = await harness.submit(**fields)
    worker = harness.worker(failing(), engines=engine.engines)
    await harness.deliver(worker, refinement_id)
    return engine.learnt[0]


def failing() -> ScriptedAnswers:
    """Models whose critic cannot be read: the refinement teaches nothing."""
    models = scores(0.5)
    writing = models.answer

    async def answer(key: str, call: Any) -> str:
        return "?" if "critique" in key else await writing(key, call)

    return ScriptedAnswers(answer)


async def play(harness: RefinementHarness, engine: TeachingEngine, **fields: Any) -> None:
    refinement_id = await harness.submit(**fields)
    worker = harness.worker(scores(0.5, 0.6, 0.9), engines=engine.engines)
    await harness.deliver(worker, refinement_id)
    assert (await harness.snapshot(refinement_id)).status == "succeeded"


async def test_a_lesson_is_learnt_by_the_next_of_its_models(harness: RefinementHarness) -> None:
    engine = TeachingEngine()
    assert await known(harness) is None
    await play(harness, engine)
    await play(harness, engine)
    assert engine.learnt == [None, LESSON.model_copy(update={"is_own": False})]
    learnt = await known(harness)
    assert learnt is not None
    assert learnt.evidence == pytest.approx((-1.99, -3.98))


async def test_one_that_does_not_learn_neither_reads_nor_writes(harness: RefinementHarness) -> None:
    engine = TeachingEngine()
    await play(harness, engine, learn=False)
    assert await known(harness) is None
    await play(harness, engine)
    assert await known(harness, learn=False) is None


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_around_any_append_it_learns_the_same_and_teaches_once(
    harness: RefinementHarness, after: bool
) -> None:
    await play(harness, TeachingEngine())
    is_killed, dies_at, taught = True, 0, 1.0
    while is_killed:
        dies_at += 1
        engine, models = TeachingEngine(), scores(0.5, 0.6, 0.9)
        refinement_id = await harness.submit()
        is_killed = await harness.play_and_die(
            refinement_id, models, dies_at, after=after, engines=engine.engines
        )
        await play(harness, TeachingEngine())  # something else ends meanwhile
        await harness.play_on(
            harness.worker(models, "second", engines=engine.engines), refinement_id
        )
        assert {str(it) for it in engine.learnt} == {str(engine.learnt[0])}
        taught = (taught * 0.99 + 1) * 0.99 + 1
        learnt = await known(harness)
        assert learnt is not None
        assert learnt.refinements == pytest.approx(taught), f"killed at append {dies_at}"
    assert dies_at > 6


async def test_validators_say_how_far_the_critic_is_to_be_trusted(
    harness: RefinementHarness,
) -> None:
    shorter = [{"kind": "length", "max_words": 12}]
    longer = [{"kind": "length", "min_words": 13}]
    lists = [{"kind": "contains", "texts": ["word2.1"]}]
    engine = TeachingEngine()
    for validators in (shorter, longer):  # equal for all drafts: they say nothing
        await play(harness, engine, validators=validators, threshold=0.9)
    learnt = await known(harness)
    assert learnt is not None
    assert learnt.trust == 0.5
    await play(harness, engine, validators=lists)
    learnt = await known(harness)
    assert learnt is not None
    # Raised with the validator by 0.1, raised against it by 0.3.
    right, wrong = 0.1**2 * VALIDATORS_WEIGHT, 0.3**2 * VALIDATORS_WEIGHT
    expected = (right - wrong + PRIOR_TRUST * PRIOR_WEIGHT) / (right + wrong + PRIOR_WEIGHT)
    assert learnt.trust == pytest.approx(expected)


async def test_the_rule_for_noisy_scores_teaches_what_the_calibration_shows(
    harness: RefinementHarness,
) -> None:
    for _ in range(2):
        refinement_id = await harness.submit()
        await harness.play(refinement_id, scores(0.5, 0.6, 0.9))
    rows = await harness.store.statistics.calibrations(TENANT, 10)
    own, of_models = sorted(rows, key=lambda it: it.strategy is None)
    assert (own.strategy, own.critic) == ("iterative", TEST_MODEL.model)
    assert of_models.refinements == own.refinements == pytest.approx(1.99)
    assert own.first_drafts is not None
    assert own.first_drafts.mean == pytest.approx(0.5)
    assert own.first_drafts.sd == pytest.approx(0)
    prior = sum(it.prior for it in HYPOTHESES)
    assert own.gain is not None
    assert own.gain > sum(it.prior * it.gain for it in HYPOTHESES) / prior  # each draft was better


async def test_the_editor_as_critic_teaches_nothing(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit(
        ModelChoice(model=EDITOR), draft="It is good.", strategy={"kind": "critique"}
    )
    await harness.play(refinement_id, scores(0.9, 0.9))
    assert (await harness.snapshot(refinement_id)).status == "succeeded"
    assert await harness.store.statistics.calibrations(TENANT, 10) == ()
