"""Runs by seed: which refinements, commands and faults a seed chooses, and what became of them."""

import gc
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.checks import Stored, broken_promises
from tests.simulation.event_loop import SimulationStuck
from tests.simulation.network import RealRedis, Trace
from tests.simulation.world import FAULTS, KINDS, Parts, SimulatedWorld

COMMANDS = ("cancel", "finish", "change", "erase")
COLLECT_EVERY = 50

DEFAULT_FAULTS = tuple(sorted(FAULTS.keys() - {"amnesia"}))


@dataclass(frozen=True)
class SimulatedRun:
    """One run and the promises that it broke."""

    seed: int
    kinds: tuple[str, ...]
    faults: frozenset[str]
    broken: tuple[str, ...]
    trace: Trace


@dataclass
class Runs:
    """Runs simulations one after the other on one Redis."""

    redis: RealRedis
    parts: Parts = Parts()  # noqa: RUF009 - frozen
    faults: tuple[str, ...] = DEFAULT_FAULTS
    commands: tuple[str, ...] = COMMANDS
    figures: Counter[str] = field(default_factory=Counter)
    _expected: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self, seed: int) -> SimulatedRun:
        """Run the simulation of a seed; it is the same every time."""
        chance = Random(f"run {seed}")
        kinds = tuple(chance.choices(KINDS, k=chance.choice((1, 1, 1, 2, 2, 3))))
        faults = frozenset(
            chance.sample(self.faults, k=min(len(self.faults), chance.randint(1, 3)))
        )
        for kind in kinds:
            if kind not in self._expected:
                self._expected[kind] = self._undisturbed(kind)
        world = SimulatedWorld(seed, self.redis, self.parts, list(kinds), set(faults))
        for submission in world.submissions.values():
            if chance.random() < 0.5:
                submission.command = chance.choice(self.commands)
        broken = self._played(world)
        self.figures.update(runs=1, calls=len(world.calls), kills=world.kills)
        self.figures["commands to Redis"] += len(world.server.executed)
        if self.figures["runs"] % COLLECT_EVERY == 0:
            gc.collect()
        return SimulatedRun(seed, kinds, faults, broken, world.trace)

    def _played(self, world: SimulatedWorld) -> tuple[str, ...]:
        try:
            world.run()
        except SimulationStuck as stuck:
            world.broken.append(str(stuck))
        return tuple(broken_promises(world, self._expected))

    def _undisturbed(self, kind: str) -> dict[str, Any]:
        world = SimulatedWorld(0, self.redis, Parts(), [kind], set())
        world.run()
        (submission,) = world.submissions
        stored = Stored.read(self.redis, submission)
        assert stored is not None
        assert world.broken == []
        assert stored.snapshot.error is None, stored.snapshot.error
        return stored.record()
