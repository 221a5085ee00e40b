"""What is known of a refinement after its events."""

import pytest

from app.cli.display import Progress
from app.contract.events import Changed, Event, EventType, Stopping
from app.contract.reviews import Reviewed
from app.contract.status import Status, StopReason
from tests.cli.scripted_refinement import AT, CALL, EVENTS, LIMITS, PAUSED, ending, judged, snapshot


def told(*events: Event) -> Progress:
    progress = Progress()
    for event in events:
        progress.add(event)
    return progress


def test_each_iteration_has_its_score_and_what_it_consumed() -> None:
    progress = told(*EVENTS)
    assert {n: (row.score, row.passed, row.usage) for n, row in progress.rows.items()} == {
        0: (0.41, False, CALL),
        1: (0.91, True, CALL),
    }
    assert progress.usage == CALL + CALL


def test_the_phase_is_the_steps_under_way() -> None:
    assert told(*EVENTS[:3]).phase == ("iterations/0/critique",)
    assert told(*EVENTS[:4]).phase == ()


def test_an_iteration_is_known_as_soon_as_a_step_of_it_is_under_way() -> None:
    assert not told(*EVENTS[:3]).rows[0].is_judged


def test_limits_and_models_are_those_of_the_journal() -> None:
    progress = told(*EVENTS[:1])
    assert (progress.threshold, progress.max_iterations) == (0.85, 3)
    assert progress.models == {"generator": "offline:editor", "critic": "offline:editor"}


def test_changed_limits_replace_the_first_ones() -> None:
    changed = Changed(limits=LIMITS.model_copy(update={"threshold": 0.5}))
    progress = told(*EVENTS[:2], Event(event=3, type=EventType.CHANGED, at=AT, data=changed))
    assert progress.threshold == 0.5


def test_an_inner_search_does_not_overwrite_an_outer_iteration() -> None:
    inner = judged(1, 0.2, passed=False).model_copy(update={"path": "stages/a/iterations/1"})
    event = Event(event=8, type=EventType.ITERATION_COMPLETED, at=AT, data=inner)
    assert told(*EVENTS, event).rows[1].score == 0.91


def test_why_it_stops_is_known() -> None:
    stopping = Stopping(reason=StopReason.DEADLINE)
    progress = told(*EVENTS, Event(event=8, type=EventType.STOPPING, at=AT, data=stopping))
    assert progress.stopping == "deadline"


def test_the_end_carries_the_final_snapshot() -> None:
    canceled = snapshot(Status.CANCELED, StopReason.CANCELED)
    assert told(*EVENTS, ending(EventType.CANCELED, canceled)).final == canceled
    assert told(*EVENTS, ending()).status is Status.SUCCEEDED


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (EventType.REVIEWED, Reviewed(key="iterations/1/review", action="rate", by="reviewer")),
        (EventType.STOPPING, Stopping(reason=StopReason.FINISHED_EARLY)),
    ],
)
def test_a_review_is_pending_until_it_is_given_or_the_refinement_goes_on(
    kind: EventType, data: Reviewed | Stopping
) -> None:
    waiting = told(*EVENTS, PAUSED)
    assert (waiting.status, [review.asked for review in waiting.reviews.values()]) == (
        Status.PAUSED,
        [PAUSED.data],
    )
    waiting.add(Event(event=9, type=kind, at=AT, data=data))
    assert (waiting.status, waiting.reviews) == (Status.QUEUED, {})
