"""Commands while facts are verified, steps are checked and samples are counted."""

import pytest

from app.contract.limits import LimitsChange
from app.contract.status import Status, StopReason
from tests.workers.refinement_harness import TENANT, RefinementHarness, pausing_at
from tests.workers.replay_cases import CASES
from tests.workers.test_commands import begun
from tests.workers.test_kills import submitted


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("chain_of_verification", "iterations/2/verify/questions"),
        ("chain_of_verification", "iterations/2/verify/answers/1"),
        ("chain_of_verification", "iterations/2/verify/contradictions"),
        ("reasoning_revision", "iterations/2/verify"),
    ],
)
async def test_finished_while_a_draft_is_verified_it_is_kept_and_does_not_pass(
    harness: RefinementHarness, kind: str, step: str
) -> None:
    models, call, _ = pausing_at(step, CASES[kind].models())
    refinement_id = await submitted(harness, kind, CASES[kind])
    worker = harness.worker(models)
    playing = await begun(harness, worker, refinement_id, call)
    await harness.store.finish(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.stop_reason, ended.outcome) == (StopReason.FINISHED_EARLY, "best_effort")
    assert step in models.aborted
    assert [it.path for it in ended.scores] == ["iterations/1", "iterations/2"]
    assert ended.result is not None
    assert ended.result.path == "iterations/1"


@pytest.mark.parametrize(
    ("kind", "step", "reason"),
    [
        (
            "chain_of_verification",
            "iterations/1/verify/questions",
            StopReason.FINISHED_EARLY,
        ),
        ("reasoning_revision", "iterations/1/verify", StopReason.FINISHED_EARLY),
        ("self_consistency", "vote", StopReason.COMPLETED),
    ],
)
async def test_finished_before_anything_was_judged_it_waits_for_the_verdict(
    harness: RefinementHarness, kind: str, step: str, reason: StopReason
) -> None:
    models, call, go_on = pausing_at(step, CASES[kind].models())
    refinement_id = await submitted(harness, kind, CASES[kind])
    worker = harness.worker(models)
    playing = await begun(harness, worker, refinement_id, call)
    await harness.store.finish(TENANT, refinement_id)
    await worker.look(refinement_id)
    assert not models.aborted
    go_on.set()
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, reason)
    assert ended.result is not None


async def test_a_threshold_changed_during_the_vote_is_the_one_that_counts(
    harness: RefinementHarness,
) -> None:
    kind = "self_consistency"
    models, call, go_on = pausing_at("vote", CASES[kind].models())
    refinement_id = await submitted(harness, kind, CASES[kind])
    playing = await begun(harness, harness.worker(models), refinement_id, call)
    await harness.store.change(TENANT, refinement_id, LimitsChange(threshold=0.6))
    go_on.set()
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.stop_reason, ended.outcome) == (StopReason.THRESHOLD_MET, "passed")
