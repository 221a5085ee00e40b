"""Reviews of stages and parts, against the real journal."""

import pytest

from app.contract.errors import Conflict
from app.contract.events import IterationCompleted
from app.contract.reviews import Paused
from app.contract.status import Status, StopReason
from app.contract.waiting import Waiting
from tests.workers.refinement_harness import TENANT, RefinementHarness, away, refusing
from tests.workers.scripted_models import improving

PARTS = [{"name": it, "instructions": "Some."} for it in ("one", "two")]
SIDE_BY_SIDE = {"kind": "nested", "parts": PARTS, "review": {"when": "each_iteration"}}


async def test_a_rejected_first_stage_ends_it_with_the_draft_that_was_rejected(
    harness: RefinementHarness,
) -> None:
    stages = [{"name": "outline", "review": {"when": "before_completion"}}, {"name": "text"}]
    refinement_id = await harness.submit(strategy={"kind": "stepwise", "stages": stages})
    models = improving(0.8, 0.1)
    now = await harness.play(refinement_id, models)
    assert now.review is not None
    assert now.review.path == "stages/outline/iterations/1"
    await harness.say(refinement_id, action="reject", feedback="Not this.")
    ended = await harness.play(refinement_id, models, "second")
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.REJECTED)
    assert ended.result is not None
    assert (ended.outcome, ended.result.missing) == ("best_effort", ("stages/text",))
    assert ended.result.path == "stages/outline/iterations/1"
    told = [(it.code, it.path) for it in ended.result.caveats]
    assert sorted(told) == [("stage_given_up", "stages/outline"), ("text_missing", "stages/text")]


@pytest.mark.parametrize("threshold", [0.9, 0.1])
@pytest.mark.parametrize("ends", ["finish", "cancel"])
async def test_what_ends_it_during_the_review_of_a_stage_leaves_the_later_ones_missing(
    harness: RefinementHarness, ends: str, threshold: float
) -> None:
    outline = {"name": "outline", "max_iterations": 1, "threshold": threshold}
    stages = [
        {**outline, "review": {"when": "before_completion"}},
        {"name": "text"},
        {"name": "polish", "mode": "revise"},
    ]
    refinement_id = await harness.submit(strategy={"kind": "stepwise", "stages": stages})
    models = improving(0.3, 0.1)
    await harness.play(refinement_id, models)
    await getattr(harness.store, ends)(TENANT, refinement_id)
    ended = await harness.snapshot(refinement_id)
    if ends == "finish":
        ended = await harness.play(refinement_id, models, "second")
        assert ended.stop_reason is StopReason.FINISHED_EARLY
    assert ended.result is not None
    assert (ended.outcome, ended.result.missing) == (
        "canceled" if ends == "cancel" else "best_effort",
        ("stages/text", "stages/polish"),
    )
    assert ended.result.path == "stages/outline/iterations/1"


async def test_a_draft_that_a_reviewer_of_a_stage_wants_names_the_one_it_was_made_from(
    harness: RefinementHarness,
) -> None:
    stages = [{"name": "outline", "review": {"when": "before_completion"}}]
    refinement_id = await harness.submit(strategy={"kind": "stepwise", "stages": stages})
    models = improving(0.8, 0.1)
    await harness.play(refinement_id, models)
    await harness.say(refinement_id, action="revise", feedback="Name the deadline.")
    now = await harness.play(refinement_id, models, "second")
    assert now.review is not None
    judged = [it.data for it in await harness.events(refinement_id)]
    *_, last = [it for it in judged if isinstance(it, IterationCompleted)]
    assert last.path == now.review.path == "stages/outline/reviews/1/iterations/1"
    assert last.parent == "stages/outline/iterations/1"


async def test_a_part_is_reviewed_when_no_other_part_can_go_on_not_even_after_a_wait(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit(strategy=SIDE_BY_SIDE, threshold=0.5)
    models = refusing(improving(0.8, 0.1), away(60), at="parts/two/iterations/1/draft")
    now = await harness.play(refinement_id, models)
    assert (now.status, now.review) == (Status.RUNNING, None)
    assert now.waiting is not None
    await harness.resume()
    now = await harness.play(refinement_id, models, "second")
    keys = [f"parts/{it}/iterations/1/review" for it in ("one", "two")]
    assert [it.key for it in now.reviews] == keys
    assert now.review == now.reviews[0]
    data = [it.data for it in await harness.events(refinement_id)]
    kinds = [type(it) for it in data if isinstance(it, Waiting | Paused)]
    assert kinds == [Waiting, Paused, Paused]
    assert [it.path for it in now.scores] == ["parts/one/iterations/1", "parts/two/iterations/1"]


async def test_a_finish_while_a_part_is_reviewed_ends_with_what_there_is(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit(strategy=SIDE_BY_SIDE, threshold=0.5)
    models = improving(0.8, 0.1)
    await harness.play(refinement_id, models)
    await harness.store.finish(TENANT, refinement_id)
    ended = await harness.play(refinement_id, models, "second")
    assert ended.stop_reason is StopReason.FINISHED_EARLY
    assert ended.result is not None
    assert ended.result.score_from == "parts"


async def test_parts_are_reviewed_at_a_time_each_by_its_own_people_and_go_on_when_all_have_said(
    harness: RefinementHarness,
) -> None:
    plan = {"when": "each_iteration", "approvals": 2}
    refinement_id = await harness.submit(strategy={**SIDE_BY_SIDE, "review": plan}, threshold=0.5)
    models = improving(0.8, 0.1)
    await harness.play(refinement_id, models)
    one, two = (f"parts/{it}/iterations/1/review" for it in ("one", "two"))
    with pytest.raises(Conflict, match=f"{one}, {two}"):
        await harness.say(refinement_id, action="approve", reviewer="ann")
    now = await harness.say(refinement_id, action="approve", reviewer="ann", path=two)
    assert [len(it.approvals) for it in now.reviews] == [0, 1]
    now = await harness.say(refinement_id, action="approve", reviewer="bob", path=two)
    assert (now.status, [it.key for it in now.reviews]) == (Status.PAUSED, [one])
    with pytest.raises(Conflict, match=one):
        await harness.say(refinement_id, action="reject", reviewer="ann", path=two)
    more = {"action": "revise", "feedback": "Name the deadline.", "reviewer": "ann"}
    now = await harness.say(refinement_id, **more)
    assert (now.status, now.reviews) == (Status.QUEUED, ())
    now = await harness.play(refinement_id, models, "second")
    assert [it.key for it in now.reviews] == ["parts/one/iterations/2/review"]
