"""A failed refinement goes on from its journal, and ends as it would have without the failure."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis

from app.contract.events import EventType, Retried, StepFailed
from app.contract.limits import LimitsChange
from app.contract.snapshot import Snapshot
from app.contract.status import Status, StopReason
from app.store import Claimed, Journal, State, WorkerStore
from app.store.redis import keys
from tests.waiting import TIMEOUT_S
from tests.workers.judging_cases import EVERY, distance, with_mark
from tests.workers.refinement_harness import (
    TENANT,
    RefinementHarness,
    ScriptedAnswers,
    pausing_at,
    scores,
)
from tests.workers.replay_cases import ReplayCase
from tests.workers.test_budgets import CostlyAnswers
from tests.workers.test_kills import record, submitted, undisturbed
from workers.models.port import ModelCall, ModelError, ModelRefused

Fault = Callable[[str, int], str | None]
"""Returns the reply to the n-th call, by its key, that is made while the fault lasts; None: a good
one. Raises `ModelError`."""


@dataclass
class FaultyOnce:
    """Models with a fault that is over after the first retry."""

    models: ScriptedAnswers
    fault: Fault
    is_over: bool = False

    def scripted(self) -> ScriptedAnswers:
        answers = ScriptedAnswers(self._answer, outside=self.models.outside)
        self._calls = answers.calls
        return answers

    async def _answer(self, key: str, call: ModelCall) -> str:
        said = None if self.is_over else self.fault(key, self._calls.total())
        return await self.models.answer(key.partition(";")[0], call) if said is None else said


def refused_at(path: str) -> Fault:
    def fault(key: str, number: int) -> str | None:
        if key == path:
            raise ModelRefused("no")
        return None

    return fault


def rubbish_at(path: str) -> Fault:
    return lambda key, number: "" if key == path or key.startswith(f"{path}/again/") else None


def outage_from(first: int) -> Fault:
    def fault(key: str, number: int) -> str | None:
        if number >= first:
            raise ModelError("away")
        return None

    return fault


async def faulty_play(
    harness: RefinementHarness, kind: str, case: ReplayCase, fault: Fault
) -> tuple[str, ScriptedAnswers, Snapshot]:
    """Play a case that may fail, and retry it if it does; return the snapshot before that.

    A reviewer rejects what they would not have seen without the fault.
    """
    faulty = FaultyOnce(case.models(), fault)
    models = faulty.scripted()
    words = defaultdict(lambda: {"action": "reject"}, case.words)
    refinement_id = await submitted(harness, kind, case)
    await harness.play_on(harness.worker(models), refinement_id, words)
    before = await harness.snapshot(refinement_id)
    faulty.is_over = True
    if before.status is Status.FAILED:
        await harness.store.retry(TENANT, refinement_id)
        await harness.play_on(harness.worker(models, "second"), refinement_id, words)
    return refinement_id, models, before


def without_usage(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != "usage"}


# A reviser whose edits stay unusable writes the whole text, for which the case has no reply.
FAULTS = [(kind, at) for kind in EVERY for at in (refused_at, rubbish_at)]
FAULTS.remove(("edits", rubbish_at))
# A critic that groups a fixed number of answers, of which one is missing.
MISCOUNTED = {("self_consistency", f"iterations/{number}/draft") for number in range(1, 5)}


@pytest.mark.parametrize(("kind", "fault_at"), [with_mark(*fault) for fault in FAULTS])
async def test_whatever_call_failed_a_retry_ends_as_if_it_had_not(
    harness: RefinementHarness, kind: str, fault_at: Callable[[str], Fault]
) -> None:
    case = EVERY[kind]
    expected, calls = await undisturbed(harness, kind, case)
    for path in [it for it in calls if "/again/" not in it][:: distance(kind)]:
        refinement_id, models, before = await faulty_play(harness, kind, case, fault_at(path))
        assert max(models.calls.values()) == 1, "a reply was paid twice"
        if before.error is None or (kind, path) in MISCOUNTED:
            continue
        assert path in before.error.steps
        found = await record(harness, refinement_id)
        assert without_usage(found) == without_usage(expected), path


@pytest.mark.parametrize("kind", [with_mark(kind) for kind in EVERY if kind != "self_consistency"])
async def test_after_an_outage_a_retry_ends_what_it_cut_short(
    harness: RefinementHarness, kind: str
) -> None:
    case = EVERY[kind]  # without the one whose critic groups a fixed number of answers
    _, calls = await undisturbed(harness, kind, case)
    for first in range(1, calls.total() + 1, distance(kind)):
        refinement_id, models, before = await faulty_play(harness, kind, case, outage_from(first))
        ended = await harness.snapshot(refinement_id)
        assert ended.status is Status.SUCCEEDED, (first, before.error, ended.error)
        assert max(models.calls.values()) == 1
        await record(harness, refinement_id)  # every judged draft is the one in the journal


async def test_only_the_failure_is_void_and_its_usage_stays_counted(
    harness: RefinementHarness,
) -> None:
    case = ReplayCase({}, lambda: scores(0.4, 0.9))
    fault = rubbish_at("iterations/2/critique")
    refinement_id, models, before = await faulty_play(harness, "iterative", case, fault)
    lost = ("iterations/2/critique", *(f"iterations/2/critique/again/{n}" for n in (1, 2)))
    assert before.error is not None
    assert (before.error.code, before.error.steps) == ("unreadable_critique", lost)
    events = await harness.events(refinement_id)
    (retried,) = [it.data for it in events if isinstance(it.data, Retried)]
    assert (retried.voided, retried.reason) == (lost, before.error)
    assert before.result is not None
    assert before.result.score == 0.4
    ended = await harness.snapshot(refinement_id)
    assert (ended.stop_reason, ended.usage.calls) == (StopReason.THRESHOLD_MET, 7)
    assert models.calls["iterations/2/critique;retry=1"] == 1
    assert [it.event for it in events] == list(range(1, len(events) + 1))


async def test_critics_that_fail_together_are_all_asked_again(harness: RefinementHarness) -> None:
    case = EVERY["a panel with samples"]
    path = "iterations/1/critique"

    def fault(key: str, number: int) -> str | None:
        if key.startswith(f"{path}/"):
            raise ModelRefused("no")
        return None

    _, _, before = await faulty_play(harness, "iterative", case, fault)
    assert before.error is not None
    critics = [f"{path}/{name}{sample}" for name in ("reader", "lawyer") for sample in ("", "/2")]
    assert sorted(before.error.steps) == sorted(critics)


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("best_of_n", [f"iterations/{number}/draft" for number in (1, 2, 3)]),
        ("multi_pass", [f"passes/{it}/iterations/1/revise" for it in ("structure", "style")]),
    ],
)
async def test_parts_that_all_failed_are_all_done_again(
    harness: RefinementHarness, kind: str, refused: list[str]
) -> None:
    case = EVERY[kind]
    expected, _ = await undisturbed(harness, kind, case)

    def fault(key: str, number: int) -> str | None:
        if key in refused:
            raise ModelRefused("no")
        return None

    refinement_id, _, before = await faulty_play(harness, kind, case, fault)
    assert before.error is not None
    assert set(refused) <= set(before.error.steps)
    assert without_usage(await record(harness, refinement_id)) == without_usage(expected)


async def test_a_part_that_was_lived_without_stays_failed(harness: RefinementHarness) -> None:
    case = EVERY["best_of_n"]

    def fault(key: str, number: int) -> str | None:
        if key in {"iterations/2/draft", "iterations/4/revise"}:
            raise ModelRefused("no")
        return None

    refinement_id, models, before = await faulty_play(harness, "best_of_n", case, fault)
    assert before.error is not None
    assert before.error.steps == ("iterations/4/revise",)
    assert "iterations/2/draft;retry=1" not in models.calls
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED


async def test_one_that_ran_out_of_time_has_all_of_it_again(harness: RefinementHarness) -> None:
    models, call, go_on = pausing_at("iterations/1/critique", scores(0.9))
    refinement_id = await harness.submit()
    playing = asyncio.create_task(harness.deliver(harness.worker(models), refinement_id))
    await asyncio.wait_for(call.wait(), TIMEOUT_S)
    await harness.pass_deadline(refinement_id)
    await playing
    failed = await harness.snapshot(refinement_id)
    assert failed.error is not None
    assert (failed.error.code, failed.error.steps) == ("nothing_judged", ())
    go_on.set()
    await harness.store.retry(TENANT, refinement_id, LimitsChange(max_seconds=600))
    ended = await harness.play(refinement_id, models, "second")
    assert ended.stop_reason is StopReason.THRESHOLD_MET
    assert models.calls["iterations/1/draft"] == 1


async def test_one_that_ran_out_of_budget_goes_on_with_a_larger_one(
    harness: RefinementHarness,
) -> None:
    models = CostlyAnswers(scores(0.9).answer)
    refinement_id = await harness.submit(stop={"max_tokens": 1})
    failed = await harness.play(refinement_id, models)
    assert failed.error is not None
    assert failed.error.code == "nothing_judged"
    await harness.store.retry(TENANT, refinement_id)
    again = await harness.play(refinement_id, models, "second")
    assert again.error == failed.error
    await harness.store.retry(TENANT, refinement_id, LimitsChange(max_tokens=10**6))
    assert (await harness.play(refinement_id, models, "third")).status is Status.SUCCEEDED


async def test_an_internal_error_voids_nothing(harness: RefinementHarness) -> None:
    def fault(key: str, number: int) -> str | None:
        raise RuntimeError("a defect")

    case = ReplayCase({}, lambda: scores(0.9))
    refinement_id, _, before = await faulty_play(harness, "iterative", case, fault)
    assert before.error is not None
    assert (before.error.code, before.error.steps) == ("internal_error", ())
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED


async def test_a_poisoned_one_has_all_its_attempts_again(
    harness: RefinementHarness, redis_url: str
) -> None:
    refinement_id = await harness.submit()
    models = scores(0.9)
    await harness.worker_store.claim(refinement_id, f"{refinement_id}-0", "dying")
    async with Redis.from_url(redis_url) as redis:
        await redis.hset(keys.SUMMARY + refinement_id, "attempt", 3)
    assert await harness.worker_store.blame(refinement_id, "dying", "it died")
    failed = await harness.snapshot(refinement_id)
    assert failed.error is not None
    assert failed.error.code == "poisoned"
    await harness.store.retry(TENANT, refinement_id)
    assert (await harness.play(refinement_id, models)).status is Status.SUCCEEDED


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_any_append_after_a_retry_it_ends_the_same(
    harness: RefinementHarness, after: bool
) -> None:
    case = ReplayCase({}, lambda: scores(0.4, 0.6, 0.9))
    expected, _ = await undisturbed(harness, "iterative", case)
    dies_at, is_killed = 0, True
    while is_killed:
        dies_at += 1
        faulty = FaultyOnce(case.models(), refused_at("iterations/2/revise"))
        models = faulty.scripted()
        refinement_id = await submitted(harness, "iterative", case)
        await harness.play(refinement_id, models)
        await harness.store.retry(TENANT, refinement_id)
        is_killed = await harness.play_and_die(refinement_id, models, dies_at, after=after)
        await harness.play_on(harness.worker(models, "third"), refinement_id)
        found = await record(harness, refinement_id)
        assert without_usage(found) == without_usage(expected), f"killed at append {dies_at}"
        steps = [it.data for it in await harness.events(refinement_id)]
        assert [isinstance(it, StepFailed) for it in steps].count(True) == 1
    assert dies_at > 3


class SlowEnding:
    """A worker's store that gives the answer to the append that ends it late."""

    def __init__(self, store: WorkerStore) -> None:
        self.ended, self.go_on = asyncio.Event(), asyncio.Event()
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def journal(self, claimed: Claimed) -> Any:
        return _SlowJournal(self._store.journal(claimed), self)


class _SlowJournal:
    def __init__(self, journal: Journal, store: SlowEnding) -> None:
        self._journal = journal
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, *args: Any, **kwargs: Any) -> State:
        state = await self._journal.append(*args, **kwargs)
        if state.status.is_terminal:
            self._store.ended.set()
            await self._store.go_on.wait()
        return state


async def test_the_job_of_a_retry_may_come_before_the_worker_knows_that_it_ended(
    harness: RefinementHarness,
) -> None:
    faulty = FaultyOnce(scores(0.9), refused_at("iterations/1/draft"))
    store: Any = SlowEnding(harness.worker_store)
    worker = harness.worker(faulty.scripted(), store=store)
    refinement_id = await harness.submit()
    first = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(store.ended.wait(), TIMEOUT_S)
    await harness.store.retry(TENANT, refinement_id)
    second = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.sleep(0)
    store.go_on.set()
    await asyncio.gather(first, second)
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED
    types = [it.type for it in await harness.events(refinement_id)]
    place = types.index(EventType.FAILED)
    following = [EventType.RETRIED, EventType.RESUMED]
    assert types[place + 1 : place + 3] == following
