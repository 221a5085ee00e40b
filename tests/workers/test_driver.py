"""The driver against the real journal."""

from app.contract.status import Status, StopReason
from tests.workers.refinement_harness import RefinementHarness, scores


async def test_plays_a_refinement_to_its_end(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    models = scores(0.4, 0.6, 0.9)
    ended = await harness.play(refinement_id, models)
    assert (ended.status, ended.outcome) == (Status.SUCCEEDED, "passed")
    assert ended.stop_reason is StopReason.THRESHOLD_MET
    assert ended.result is not None
    assert (ended.result.path, ended.result.score) == ("iterations/3", 0.9)
    assert [it.score for it in ended.scores] == [0.4, 0.6, 0.9]
    assert (ended.usage.calls, ended.usage.input_tokens) == (6, 60)
    assert max(models.calls.values()) == 1


async def test_journals_a_step_an_iteration_and_what_follows_in_one_append(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit()
    await harness.play(refinement_id, scores(0.4, 0.9))
    events = await harness.events(refinement_id)
    assert [event.event for event in events] == list(range(1, len(events) + 1))
    assert [event.type for event in events] == [
        "refinement.queued",
        "refinement.started",
        "step.started",
        "step.completed",
        "step.completed",
        "iteration.completed",
        "step.completed",
        "step.completed",
        "iteration.completed",
        "refinement.completed",
    ]
    following = [getattr(event.data, "next", None) for event in events]
    assert following[2:5] == [
        ("iterations/1/draft",),
        ("iterations/1/critique",),
        ("iterations/2/revise",),
    ]


async def test_returns_the_best_draft_when_the_last_one_is_worse(
    harness: RefinementHarness,
) -> None:
    ended = await harness.play(await harness.submit(), scores(0.4, 0.7, 0.2))
    assert ended.result is not None
    assert (ended.result.path, ended.result.score, ended.outcome) == (
        "iterations/2",
        0.7,
        "best_effort",
    )
    assert ended.reason == (
        "Quality is 0.70; the threshold is 0.85; the limit of 3 iterations was reached."
    )
    assert ended.best is not None
    assert ended.best.sha256 == ended.result.sha256


async def test_a_job_delivered_again_does_nothing(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit()
    ended = await harness.play(refinement_id, scores(0.9))
    models = scores(0.1)
    assert await harness.play(refinement_id, models, "second") == ended
    assert not models.calls
