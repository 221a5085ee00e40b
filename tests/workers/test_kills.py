"""Killed at every append and resumed by replay: the final record is the one without the kill."""

from collections import Counter
from typing import Any

import pytest

from app.contract.events import IterationCompleted, StepCompleted, StepFailed, Stopping, unvoided
from app.contract.reviews import ApprovalGiven, Paused, Reviewed
from app.contract.snapshot import Snapshot
from app.contract.strategies import STRATEGIES
from app.contract.waiting import Waiting
from app.service.iterations import iterations_of
from tests.workers.judging_cases import EVERY, EVERY_KIND, distance, with_mark
from tests.workers.refinement_harness import TENANT, RefinementHarness, refusing_once
from tests.workers.replay_cases import CASES, ReplayCase

OF_THE_RUN = {
    "id", "created_at", "started_at", "ended_at", "expires_at", "last_event", "links",
}  # fmt: skip
"""What differs between two runs of the same refinement."""


def test_every_strategy_has_a_scene() -> None:
    assert CASES.keys() == STRATEGIES.keys()


async def record(harness: RefinementHarness, refinement_id: str) -> dict[str, Any]:
    """Return what a refinement came to: parts side by side may arrive in any order.

    What retries voided is left out. Any other step stands in the journal once.
    """
    snapshot = await harness.snapshot(refinement_id)
    request = await harness.store.request(TENANT, refinement_id)
    journal = await harness.events(refinement_id)
    events = unvoided(journal)
    steps = [it.data.key for it in events if isinstance(it.data, StepCompleted | StepFailed)]
    assert len(set(steps)) == len(steps)
    kept: dict[str, Any] = ended(snapshot)
    for iteration in iterations_of(journal, request):
        kept[f"{iteration.path} draft"] = iteration.draft
    for data in (event.data for event in events):
        match data:
            case StepCompleted(key=key) | StepFailed(key=key):
                kept[key] = data.model_dump(exclude={"usage", "seconds", "next"})
            case IterationCompleted(path=path, score_from=by):
                kept[f"{path} judged by {by}"] = data.model_dump(exclude={"best"})
            case Paused(key=key) | Reviewed(key=key):
                kept[f"{key} {type(data).__name__}"] = data
            case ApprovalGiven(key=key, given=given):
                kept[f"{key} approval {given}"] = data
            case Stopping():
                kept["stopping"] = data
    return kept


def ended(snapshot: Snapshot) -> dict[str, Any]:
    """Return a final snapshot without what differs between runs."""
    assert snapshot.status.is_terminal
    fields = snapshot.model_dump(exclude=OF_THE_RUN)
    fields["usage"].pop("seconds")
    fields["scores"] = sorted(fields["scores"], key=lambda it: str(it["path"]))
    return fields


LOSING_THE_CALL = (
    "iterative",
    "best_of_n",
    "nested",
    "plan_execute",
    "a booking that is refused",
)
"""Killed before an append it also loses the reply: a chain, parts, and tools, also side by side."""


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        *(with_mark(kind, True) for kind in EVERY),
        *(with_mark(kind, False) for kind in LOSING_THE_CALL),
    ],
)
async def test_killed_at_any_append_it_ends_as_if_it_had_not_been(
    harness: RefinementHarness, kind: str, after: bool
) -> None:
    case = EVERY[kind]
    expected, calls = await undisturbed(harness, kind, case)
    dies_at = 0
    is_killed = True
    while is_killed:
        dies_at += distance(kind)
        models = case.models()
        refinement_id = await submitted(harness, kind, case)
        is_killed = await harness.play_and_die(
            refinement_id, models, dies_at, case.words, after=after
        )
        await harness.play_on(harness.worker(models, "second"), refinement_id, case.words)
        assert await record(harness, refinement_id) == expected, f"killed at append {dies_at}"
        repeated = models.calls - calls
        assert not repeated or max(repeated.values()) == 1
    assert dies_at > 2


@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_parked_at_every_call_it_ends_as_if_it_had_not_been(
    harness: RefinementHarness, kind: str
) -> None:
    case = EVERY[kind]
    expected, calls = await undisturbed(harness, kind, case)
    models = refusing_once(case.models(), wait_s=60)
    refinement_id = await submitted(harness, kind, case)
    await harness.play_on(harness.worker(models), refinement_id, case.words)
    assert await record(harness, refinement_id) == expected
    assert models.calls == calls + Counter(dict.fromkeys(calls, 1))
    events = await harness.events(refinement_id)
    waits = [it.data.key for it in events if isinstance(it.data, Waiting)]
    assert Counter(waits) == Counter(dict.fromkeys(calls, 1))


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("wait_s", [0.001, 60], ids=["waiting", "parked"])
@pytest.mark.parametrize("kind", ["iterative", "best_of_n"])
async def test_killed_around_any_wait_it_ends_as_if_it_had_not_been(
    harness: RefinementHarness, kind: str, wait_s: float, after: bool
) -> None:
    case = EVERY[kind]
    expected, calls = await undisturbed(harness, kind, case)
    dies_at = 0
    is_killed = True
    while is_killed:
        dies_at += 1
        models = refusing_once(case.models(), wait_s)
        refinement_id = await submitted(harness, kind, case)
        is_killed = await harness.play_and_die(
            refinement_id, models, dies_at, case.words, after=after
        )
        await harness.play_on(harness.worker(models, "second"), refinement_id, case.words)
        assert await record(harness, refinement_id) == expected, f"killed at append {dies_at}"
        repeated = models.calls - calls - Counter(dict.fromkeys(calls, 1))
        assert not repeated or max(repeated.values()) == 1
    assert dies_at > 4


async def undisturbed(
    harness: RefinementHarness, kind: str, case: ReplayCase
) -> tuple[dict[str, Any], Counter[str]]:
    """Return what the case comes to without a kill, and its model calls by step."""
    models = case.models()
    refinement_id = await submitted(harness, kind, case)
    await harness.play_on(harness.worker(models), refinement_id, case.words)
    return await record(harness, refinement_id), models.calls


async def submitted(harness: RefinementHarness, kind: str, case: ReplayCase) -> str:
    """Submit the case's request; runs that learnt from each other could not be compared."""
    given = case.request.get("strategy", {})
    wanted = {**case.request, "strategy": {"kind": kind, **given}, "learn": False}
    return await harness.submit(**wanted)
