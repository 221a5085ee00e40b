"""Simulated runs keep every promise, repeat exactly, and notice when a precaution is taken out."""

import asyncio
import re
from collections.abc import Iterator
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from app.local.embedded import EmbeddedRedis
from app.store.redis.scripts import SCRIPTS
from tests.simulation.event_loop import SimulatedLoop, SimulatedProcess
from tests.simulation.mutants import MUTANTS
from tests.simulation.network import RealRedis, with_given_clock
from tests.simulation.runs import Runs

SEEDS = range(1, 21)
LASTING = 12
FOUND_WITHIN = {
    "an append without an answer is forgotten (defect 1)": 60,
    "replay forgets the last step": 20,
    "an end leaves the refinement on its old list": 10,
    "an end is not counted": 10,
}


@pytest.fixture
def redis(redis_server: EmbeddedRedis) -> Iterator[RealRedis]:
    real = RealRedis(unquote(urlsplit(redis_server.url).path))
    yield real
    real.close()


def test_no_run_breaks_a_promise(redis: RealRedis) -> None:
    runs = Runs(redis)
    assert {seed: broken for seed in SEEDS if (broken := runs.run(seed).broken)} == {}
    assert runs.figures["kills"] > 0


def test_the_same_seed_gives_the_same_run(redis: RealRedis) -> None:
    first, again = (Runs(redis).run(LASTING).trace for _ in range(2))
    assert again.sha256 == first.sha256
    assert Runs(redis).run(LASTING + 1).trace.sha256 != first.sha256


@pytest.mark.parametrize("name", FOUND_WITHIN)
def test_a_precaution_that_is_taken_out_is_noticed(redis: RealRedis, name: str) -> None:
    mutant = MUTANTS[name]
    runs = Runs(redis, mutant.parts, mutant.faults, mutant.commands)
    found = (runs.run(seed).broken for seed in range(1, FOUND_WITHIN[name] + 1))
    assert any(mutant.shows in what for broken in found for what in broken)


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_of_the_scripts_changes_one_of_them(name: str) -> None:
    edit = MUTANTS[name].parts.edit
    assert edit is str or any(edit(it.text) != it.text for it in SCRIPTS.values())


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_with_a_given_clock_always_does_the_same(name: str) -> None:
    assert not re.search("'(TIME|SRANDMEMBER|SPOP)'", with_given_clock(SCRIPTS[name].text))


def simulated(seed: int = 1) -> SimulatedLoop:
    return SimulatedLoop(Random(seed))  # type: ignore[abstract]


def order_of(seed: int) -> list[tuple[float, str]]:
    """Return when each of two processes did what, with one of them killed at the second 2."""
    loop, done = simulated(seed), list[tuple[float, str]]()
    processes = [SimulatedProcess(name) for name in "ab"]

    async def work(name: str) -> None:
        while True:
            done.append((loop.time(), name))
            await asyncio.sleep(1)

    async def main() -> None:
        for process in processes:
            loop.start(process, work(process.name))
        await asyncio.sleep(1.5)
        loop.kill(processes[0])
        loop.stall(processes[1], 5)
        await asyncio.sleep(5.5)

    loop.run(main())
    return done


def test_a_killed_process_runs_nothing_more_and_a_stalled_one_nothing_until_it_continues() -> None:
    done = order_of(1)
    assert {at for at, name in done if name == "a"} == {0, 1}
    assert [at for at, name in done if name == "b"] == [0, 1, 6.5]


def test_the_seed_chooses_which_process_runs_first() -> None:
    orders = {tuple(order_of(seed)) for seed in range(20)}
    assert len(orders) > 1


def test_an_error_of_a_callback_ends_the_run() -> None:
    def fail() -> None:
        raise ValueError("wrong")

    async def main() -> Any:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="wrong"):
        simulated().run(main())
