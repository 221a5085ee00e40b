"""Refinements that kill the process that plays them, among others that do not.

    python -m tests.faults.poison                       a worker in which the words below do harm
    python -m tests.faults.poison run dies hangs ...    a run with these poisons; prints its figures

The harm comes with the reply of the model: at every first step, or with `late` at the critique.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from subprocess import Popen
from typing import Any

from app.settings import Settings
from tests.e2e.running_service import RunningService, running_service
from workers.__main__ import main
from workers.engine.prompts import Judge
from workers.model_registry import open_models
from workers.models.port import ModelCall, ModelCaller, ModelReply

MODULE = "tests.faults.poison"
LARGE = 64 * 1024 * 1024
LONG_S = 3_600.0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    """Keep the event loop from turning."""
    time.sleep(LONG_S)


def eat() -> None:
    """Take memory until the kernel kills the process; here after a little."""
    eaten = bytearray(LARGE)
    eaten[::4_096] = b"x" * (LARGE // 4_096)
    die()


HARMS: Mapping[str, Callable[[], None]] = {"dies": die, "hangs": hang, "eats": eat}


class PoisonedModels:
    """Models whose replies do harm in the process that receives them."""

    def __init__(self, models: ModelCaller) -> None:
        self._models = models

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        reply = await self._models.complete(name, call)
        for word, harm in HARMS.items():
            is_late = f"late-poison-{word}" in call.prompt.user
            if f"poison-{word}" in call.prompt.user and (
                not is_late or isinstance(call.prompt_request, Judge)
            ):
                harm()
        return reply

    async def permits(self, name: str, most: int) -> int:
        return await self._models.permits(name, most)


@asynccontextmanager
async def open_poisoned_models(settings: Settings) -> AsyncIterator[PoisonedModels]:
    async with open_models(settings) as models:
        yield PoisonedModels(models)


@dataclass(frozen=True)
class PoisonFigures:
    """What became of a run; `attempts` counts innocent refinements by their claims."""

    innocent: Counter[str]
    poisoned: tuple[str, ...]
    """The code and detail with which each poison ended, or its status."""
    seconds: float
    deaths: int
    kills: int
    repeated_calls: int
    claims: Counter[int]

    @property
    def is_kept(self) -> bool:
        """Whether every innocent one succeeded and every poison was found."""
        return set(self.innocent) == {"succeeded"} and all(
            it.startswith("poisoned: ") for it in self.poisoned
        )

    def line(self) -> str:
        """Return the figures in one line."""
        said = "; ".join(f"{count} {it}" for it, count in Counter(self.poisoned).items())
        claims = ", ".join(f"{n} with {claims}" for claims, n in sorted(self.claims.items()))
        return (
            f"{sum(self.innocent.values())} innocent: {dict(self.innocent)}; poisons: {said}; "
            f"{self.deaths} workers died, {self.kills} were killed; claims of the innocent: "
            f"{claims}; {self.repeated_calls} calls repeated; {self.seconds:.0f} s"
        )


@dataclass
class PoisonedService:
    """A service whose workers are restarted at once, and killed at random if so wanted."""

    service: RunningService
    workers: int
    chance: Random
    deaths: int = 0
    kills: int = 0

    async def supervise(self) -> None:
        """Start a worker for each that has died, as a supervisor does, until cancelled."""
        while True:
            for _ in range(self.workers - len(self._alive())):
                self.deaths += 1
                self.service.worker()
            await asyncio.sleep(0.05)

    async def kill(self, every_s: tuple[float, float]) -> None:
        """Kill one worker that has started after another, until cancelled."""
        while True:
            await asyncio.sleep(self.chance.uniform(*every_s))
            if started := [it for it in self._alive() if self._has_started(it)]:
                self.chance.choice(started).kill()
                self.kills += 1
                self.deaths -= 1

    def _alive(self) -> list[Popen[bytes]]:
        return [it for it in self.service.processes[1:] if it.poll() is None]

    def _has_started(self, worker: Popen[bytes]) -> bool:
        number = self.service.processes.index(worker)
        return b" runs up to " in (self.service.logs / f"{number}-{MODULE}.log").read_bytes()

    def end_workers(self) -> None:
        """Kill every worker: one whose event loop stands still hears no signal."""
        for worker in self._alive():
            worker.kill()
            worker.wait()


async def run_poisoned(
    path: Path,
    poisons: Sequence[str],
    *,
    innocent: int = 40,
    workers: int = 2,
    kill_every_s: tuple[float, float] | None = None,
    seed: int = 1,
    latency_s: float = 0.5,
    **settings: Any,
) -> PoisonFigures:
    """Run innocent refinements with poisons in their midst; `late-dies` is one kind of poison."""
    made = {"lease_s": 3, "stall_s": 2, "grace_s": 5} | settings
    async with running_service(path, workers=workers, worker_module=MODULE, **made) as service:
        service.models.latency_s = latency_s
        run = PoisonedService(service, workers, Random(seed))
        tasks = [asyncio.create_task(run.supervise())]
        began = time.monotonic()
        ids = await _submitted(service, innocent, poisons)
        if kill_every_s:
            tasks.append(asyncio.create_task(run.kill(kill_every_s)))
        try:
            ended = {it: await service.ended(it) for it in ids}
        finally:
            seconds = time.monotonic() - began
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            run.end_workers()
        return await _figures(run, ids, ended, seconds)


async def _submitted(
    service: RunningService, innocent: int, poisons: Sequence[str]
) -> dict[str, bool]:
    """Return every id, and whether it is innocent; the poisons stand in the middle."""
    tasks = [f"Explain refund {number}." for number in range(innocent)]
    words = [
        f"late-poison-{it[5:]}" if it.startswith("late-") else f"poison-{it}" for it in poisons
    ]
    tasks[innocent // 2 : innocent // 2] = [f"Explain {word}." for word in words]
    return {
        await service.submit(task=task, max_iterations=4, threshold=1.0): "poison" not in task
        for task in tasks
    }


async def _figures(
    run: PoisonedService, ids: Mapping[str, bool], ended: Mapping[str, Any], seconds: float
) -> PoisonFigures:
    counts = run.service.models.counts.keys
    innocent = [it for it, is_innocent in ids.items() if is_innocent]
    claims = Counter[int]()
    for it in innocent:
        kinds = [event["type"] for event in await run.service.events(it)]
        claims[kinds.count("refinement.started") + kinds.count("refinement.resumed")] += 1
    return PoisonFigures(
        innocent=Counter(ended[it]["status"] for it in innocent),
        poisoned=tuple(
            "{code}: {detail}".format(**ended[it]["error"])
            if ended[it]["error"]
            else ended[it]["status"]
            for it, is_innocent in ids.items()
            if not is_innocent
        ),
        seconds=seconds,
        deaths=run.deaths,
        kills=run.kills,
        repeated_calls=sum(
            count - 1 for key, count in counts.items() if ids.get(key.partition("/")[0])
        ),
        claims=claims,
    )


def run_once() -> int:
    """Run what the arguments say; return 1 if an innocent one failed or a poison was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("poisons", nargs="*")
    parser.add_argument("--innocent", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-every", type=float, nargs=2)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone-poison-") as directory:
        figures = asyncio.run(
            run_poisoned(
                Path(directory),
                given.poisons,
                innocent=given.innocent,
                workers=given.workers,
                kill_every_s=given.kill_every and tuple(given.kill_every),
                seed=given.seed,
            )
        )
    sys.stdout.write(f"{figures.line()}\n")
    return 0 if figures.is_kept else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        sys.exit(run_once())
    sys.exit(main(open_models=open_poisoned_models))
