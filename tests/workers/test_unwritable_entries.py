"""What cannot be written ends a refinement; it is not tried, and paid, again and again."""

from typing import Any, cast

import pytest

from app.contract.events import StepFailed
from app.store import Claimed, Journal, WorkerStore
from tests.workers.refinement_harness import (
    TENANT,
    RefinementHarness,
    ScriptedAnswers,
    scores,
)
from workers.models.port import ModelCall
from workers.play.journal import JournalUnwritable

HALF = "Half of a pair: \ud83d"
CRITIQUE = "iterations/2/critique"


def saying(text: str, at: str, models: ScriptedAnswers) -> ScriptedAnswers:
    """Return the same models, whose reply at one step is that text."""

    async def answer(key: str, call: ModelCall) -> str:
        return text if key == at else await models.answer(key, call)

    return ScriptedAnswers(answer)


@pytest.mark.parametrize("at", [CRITIQUE, "iterations/1/draft"])
async def test_a_reply_that_cannot_be_encoded_fails_it_once_and_counts(
    harness: RefinementHarness, at: str
) -> None:
    models = saying(HALF, at, scores(0.3, 0.9))
    refinement_id = await harness.submit()
    ended = await harness.play(refinement_id, models)
    assert ended.error is not None
    assert (ended.status, ended.error.code, ended.error.steps) == (
        "failed",
        "internal_error",
        (at,),
    )
    assert ended.usage.calls == sum(models.calls.values())
    assert (ended.result is not None) is (at == CRITIQUE)


async def test_a_retry_asks_for_it_again(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    await harness.play(refinement_id, saying(HALF, CRITIQUE, scores(0.3, 0.9)))
    (failed,) = [
        it.data for it in await harness.events(refinement_id) if type(it.data) is StepFailed
    ]
    assert (failed.key, failed.usage.calls) == (CRITIQUE, 1)
    await harness.store.retry(TENANT, refinement_id)
    models = scores(0.3, 0.9)
    ended = await harness.play(refinement_id, models)
    assert (ended.status, ended.usage.calls) == ("succeeded", 5)
    assert [*models.calls] == [f"{CRITIQUE};retry=1"]


class Unwritable:
    """A worker's store whose journals refuse every append for a reason that nothing explains."""

    def __init__(self, store: WorkerStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def journal(self, claimed: Claimed) -> Journal:
        committer: Any = self
        return Journal(claimed, committer)

    async def submit(self, *_: object) -> object:
        raise RuntimeError("nothing that waiting mends")


async def test_the_third_claim_in_a_row_that_can_write_nothing_ends_it(
    harness: RefinementHarness,
) -> None:
    models, store = scores(0.9), cast("Any", Unwritable(harness.worker_store))
    refinement_id = await harness.submit()
    for number in range(3):
        assert (await harness.snapshot(refinement_id)).status in ("queued", "running")
        worker = harness.worker(models, f"worker-{number}", store)
        with pytest.raises(JournalUnwritable):
            await harness.deliver(worker, refinement_id)
    ended = await harness.snapshot(refinement_id)
    assert ended.error is not None
    assert (ended.status, ended.error.code) == ("failed", "poisoned")
    assert "JournalUnwritable" in ended.error.detail
