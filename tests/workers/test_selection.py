"""A model that was drawn: whatever happens to the workers, what it achieved counts once."""

import pytest

from app.contract.events import Draw
from tests.workers.refinement_harness import TENANT, TEST_MODEL, RefinementHarness, scores

DRAW = Draw(candidates=(), picked=TEST_MODEL.model, kind="f00d")
SEATS = {"generator": [DRAW.picked]}
MODELS = {"select": "gain", "candidates": [DRAW.picked, "scripted:other"]}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_any_append_what_it_achieved_counts_once(
    harness: RefinementHarness, after: bool
) -> None:
    dies_at, is_killed = 0, True
    while is_killed:
        dies_at += 1
        refinement_id = await harness.submit(draw=DRAW, models=MODELS)
        models = scores(0.4, 0.9)
        is_killed = await harness.play_and_die(refinement_id, models, dies_at, after=after)
        await harness.play(refinement_id, models, "second")
        achieved = await harness.store.statistics.achieved(TENANT, "f00d", SEATS)
        found = achieved["generator"][DRAW.picked]
        assert (found.ended, found.passed, found.priced) == (dies_at, dies_at, dies_at)
        assert found.mean_gain == pytest.approx(0.9)
    assert dies_at > 2
