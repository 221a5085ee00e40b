"""Suspects share child processes until the one that kills them is alone."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from app.store import Suspected
from app.store.worker import ATTEMPTS
from tests.processes import command_of, descendants
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import RefinementHarness, scores
from tests.workers.rq_queue import until
from workers.play.quarantine import Process, Quarantine
from workers.play.refinements import Refinements

SCRIPT = str(Path(__file__).with_name("scripted_child.py"))
CHILD = (sys.executable, "-I", "-S", SCRIPT)
NEVER_S = 600.0


class CountingStore:
    """The store's part in a quarantine: a claim per death, and who was blamed with what detail."""

    def __init__(self) -> None:
        self.deaths: Counter[str] = Counter()
        self.blamed: dict[str, str] = {}
        self.most_children = 0

    async def blame(self, refinement_id: str, _name: str, detail: str | None) -> bool:
        self.deaths[refinement_id] += 1
        self.most_children = max(self.most_children, len(children()))
        if detail is None or self.deaths[refinement_id] < ATTEMPTS:
            return False
        self.blamed[refinement_id] = detail
        return True


def children() -> list[int]:
    """The children of this process that run the script."""
    return [pid for pid in descendants(os.getpid()) if SCRIPT in command_of(pid)]


def quarantine_of(
    store: Any, command: Sequence[str] = CHILD, *, at_once: int = 2, stall_s: float = NEVER_S
) -> Quarantine:
    async def start(name: str) -> Process:
        return await asyncio.create_subprocess_exec(*command, name, stdin=PIPE, stdout=PIPE)

    return Quarantine(store, start, "worker", children=at_once, lease_s=NEVER_S, stall_s=stall_s)


async def played(quarantine: Quarantine, *ids: str) -> None:
    """Return when all of these have left the quarantine."""
    async with quarantine, asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(*(quarantine.refine(f"{it}-2", it) for it in ids))


@pytest.mark.parametrize(
    "at_once",
    [pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long), 16],
)
async def test_the_one_that_kills_its_process_is_found_and_no_other_is_blamed(at_once: int) -> None:
    store = CountingStore()
    ids = [*(f"ref_{n}" for n in range(6)), "ref_dies", *(f"ref_{n}" for n in range(6, 13))]
    await played(quarantine_of(store, at_once=at_once), *ids)
    assert set(store.blamed) == {"ref_dies"}
    assert "killed by signal 9 (SIGKILL)" in store.blamed["ref_dies"]
    assert store.most_children <= at_once
    assert children() == []


@pytest.mark.long
async def test_several_that_kill_their_process_are_all_found() -> None:
    store = CountingStore()
    await played(quarantine_of(store), "ref_1", "ref_dies_1", "ref_dies_2", "ref_2", "ref_exits")
    assert set(store.blamed) == {"ref_dies_1", "ref_dies_2", "ref_exits"}
    assert "exit status 3" in store.blamed["ref_exits"]


async def test_a_process_that_stands_still_is_killed_and_counts_as_dead() -> None:
    store = CountingStore()
    # The script says that it is alive only once, so what waits in it would count as silent too.
    await played(quarantine_of(store, stall_s=1), "ref_1", "ref_hangs", "ref_2")
    assert "its event loop stood still for 1 s" in store.blamed["ref_hangs"]
    assert set(store.blamed) == {"ref_hangs"}


async def test_one_that_was_not_alone_from_the_beginning_is_played_alone_before_it_is_blamed() -> (
    None
):
    store = CountingStore()
    store.deaths["ref_dies"] = ATTEMPTS  # as after random kills of its workers
    await played(quarantine_of(store), "ref_1", "ref_dies")
    assert store.deaths["ref_dies"] == ATTEMPTS + 2


async def test_a_child_that_cannot_run_is_no_evidence(tmp_path: Path) -> None:
    store = CountingStore()
    store.deaths["ref_1"] = ATTEMPTS
    await played(quarantine_of(store, (*CHILD, str(tmp_path / "there"))), "ref_1")
    assert store.blamed == {}
    assert store.deaths["ref_1"] == ATTEMPTS + 1


async def test_a_job_for_a_suspect_that_is_here_does_nothing() -> None:
    async with quarantine_of(CountingStore()) as quarantine:
        first = asyncio.create_task(quarantine.refine("ref_waits-2", "ref_waits"))
        await until(children)
        await quarantine.refine("ref_waits-3", "ref_waits")
        assert not first.done()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_a_worker_that_leaves_starts_no_child_and_blames_nobody() -> None:
    store = CountingStore()
    async with quarantine_of(store) as quarantine:
        first = asyncio.create_task(quarantine.refine("ref_waits-2", "ref_waits"))
        await until(children)
        quarantine.leave()
        await quarantine.refine("ref_dies-2", "ref_dies")
        assert not first.done()
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        await until(lambda: not children())
    assert (store.deaths, store.blamed) == ({}, {})


async def test_at_the_end_every_child_is_killed() -> None:
    async with quarantine_of(CountingStore()) as quarantine:
        task = asyncio.create_task(quarantine.refine("ref_hangs-2", "ref_hangs"))
        await until(children)
    assert children() == []
    await task


async def lost_claim(harness: RefinementHarness) -> str:
    """A refinement whose worker died before it journaled a step."""
    refinement_id = await harness.submit(max_iterations=2)
    claimed = await harness.worker_store.claim(refinement_id, f"{refinement_id}-9", "lost")
    assert claimed is not None
    await harness.worker_store.blame(refinement_id, "lost", None)
    return refinement_id


async def test_a_worker_leaves_a_suspect_to_its_quarantine(harness: RefinementHarness) -> None:
    store = CountingStore()
    refinement_id = await lost_claim(harness)
    async with quarantine_of(store) as quarantine:
        worker = Refinements(harness.worker_store, scores(0.5), "first", quarantine=quarantine)
        await worker.refine(f"{refinement_id}-2", refinement_id)
    assert len(await harness.events(refinement_id)) == 2
    with pytest.raises(Suspected):
        await harness.worker_store.claim(
            refinement_id, f"{refinement_id}-3", "first", takes_suspects=False
        )


async def test_a_child_hands_a_suspect_back_once_a_step_is_journaled(
    harness: RefinementHarness,
) -> None:
    refinement_id = await lost_claim(harness)
    models = scores(0.5, 0.6)
    child = Refinements(harness.worker_store, models, "child", clears=True)
    await child.refine(f"{refinement_id}-2", refinement_id)
    assert (await harness.snapshot(refinement_id)).status == "running"
    assert models.calls == {"iterations/1/draft": 1}
    claimed = await harness.worker_store.claim(
        refinement_id, f"{refinement_id}-3", "other", takes_suspects=False
    )
    assert claimed is not None
    assert claimed.attempt == 1
