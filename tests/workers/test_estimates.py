"""Estimates in snapshots, and drafts that are judged again, as a worker plays and replays them."""

from typing import Any

from app.contract.events import IterationCompleted
from app.contract.requests import RefinementRequest
from app.contract.statistics import Learnt
from app.contract.versions import ENGINE_VERSION
from tests.workers.refinement_harness import RefinementHarness, ScriptedAnswers, scores, verdict
from workers.engine.moves import MoveCoroutine
from workers.engine.pipeline import strategy_for
from workers.engine.prompts import Judge
from workers.engine.quality import BANK, CALIBRATED_FROM, HYPOTHESES
from workers.engine.search import Outcome
from workers.models.port import ModelCall

KNOWN = Learnt(
    bank=BANK,
    refinements=CALIBRATED_FROM,
    evidence=(0.0,) * len(HYPOTHESES),
    predicted=(100, 96),
    first_drafts=(CALIBRATED_FROM, 13.0, 8.0),
)


def knowing(request: RefinementRequest, nonce: str, **_: Any) -> MoveCoroutine[Outcome]:
    """Play as ever, as if enough refinements had ended before."""
    return strategy_for(request, nonce, learnt=KNOWN)


def doubtful() -> ScriptedAnswers:
    """A critic that scores a draft 0.9 at first and 0.8 when it judges it again."""
    writer = scores(0.5)

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            return verdict(0.8 if "confirm" in key else 0.9, call)
        return await writer.answer(key, call)

    return ScriptedAnswers(answer)


async def test_the_result_has_an_estimate_once_enough_is_known(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    await harness.play(refinement_id, scores(0.9))
    result = (await harness.snapshot(refinement_id)).result
    assert result is not None
    assert result.estimate is None
    refinement_id = await harness.submit()
    worker = harness.worker(scores(0.9), engines={ENGINE_VERSION: knowing})
    await harness.deliver(worker, refinement_id)
    result = (await harness.snapshot(refinement_id)).result
    assert result is not None
    assert result.estimate is not None
    assert result.score == 0.9
    assert result.estimate.value < 0.9
    judged = [
        it.data
        for it in await harness.events(refinement_id)
        if isinstance(it.data, IterationCompleted)
    ]
    assert judged[-1].estimate == result.estimate


async def test_a_draft_judged_again_is_played_on_by_another_worker(
    harness: RefinementHarness,
) -> None:
    is_killed, dies_at = True, 0
    while is_killed:
        dies_at += 1
        models = doubtful()
        refinement_id = await harness.submit(stop={"confidence": 0.95}, max_iterations=1)
        is_killed = await harness.play_and_die(refinement_id, models, dies_at, after=True)
        await harness.play_on(harness.worker(models, "second"), refinement_id)
        snapshot = await harness.snapshot(refinement_id)
        assert snapshot.result is not None
        assert (snapshot.stop_reason, snapshot.result.score) == ("max_iterations", 0.833333)
        assert snapshot.usage.calls == 4
    assert dies_at > 3
