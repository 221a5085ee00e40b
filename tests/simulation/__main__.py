"""`make sim`: simulated runs, seed after seed, until the time is over or a promise is broken.

python -m tests.simulation [--seconds 600] [--seed 1] [--once SEED] [--mutants]
"""

import argparse
import gc
import os
import sys
import tempfile
from pathlib import Path
from time import monotonic, process_time
from urllib.parse import unquote, urlsplit

from app.local.embedded import EmbeddedRedis
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.network import RealRedis
from tests.simulation.runs import Runs, SimulatedRun
from tests.simulation.world import FAULTS

SHOWN = 60


def main() -> int:
    """Run seeds; return 1 if a run broke a promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1, help="the first of the seeds")
    parser.add_argument("--once", type=int, help="repeat the run of this seed, with its trace")
    parser.add_argument("--failures", type=int, default=1, help="end after so many failing seeds")
    parser.add_argument("--mutants", action="store_true", help="count the runs until each is found")
    parser.add_argument("--mutant", help="run the one whose name begins so")
    parser.add_argument("--faults", help="draw from these only: " + ", ".join(FAULTS))
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a run
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    gc.disable()  # the runs collect
    with (
        tempfile.TemporaryDirectory(prefix="hone-simulation-") as directory,
        EmbeddedRedis(Path(directory), aof=False) as server,
    ):
        redis = RealRedis(unquote(urlsplit(server.url).path))
        try:
            if given.mutants:
                return _all_mutants(redis, given.seed, given.seconds)
            runs = _runs(redis, given.mutant)
            if given.faults:
                runs.faults = tuple(given.faults.split(","))
            if given.once is not None:
                return _once(runs, given.once)
            return _many(runs, given.seed, given.seconds, given.failures)
        finally:
            redis.close()


def _runs(redis: RealRedis, name: str | None) -> Runs:
    for known, mutant in MUTANTS.items():
        if name and known.startswith(name):
            return _of(redis, mutant)
    return Runs(redis)


def _of(redis: RealRedis, mutant: Mutant) -> Runs:
    return Runs(redis, mutant.parts, mutant.faults, mutant.commands)


def _found(run: SimulatedRun, mutant: Mutant) -> list[str]:
    return [what for what in run.broken if mutant.shows in what]


def _all_mutants(redis: RealRedis, first: int, seconds: float) -> int:
    survived = 0
    for name, mutant in MUTANTS.items():
        runs, began, seed = _of(redis, mutant), monotonic(), first
        while not (found := _found(runs.run(seed), mutant)) and monotonic() - began < seconds:
            seed += 1
        survived += not found
        result = f"found by run {seed - first + 1}" if found else f"survived {seed - first} runs"
        print(f"{name}: {result}, {monotonic() - began:.0f} s; {found[:1]}", flush=True)
    return 1 if survived else 0


def _once(runs: Runs, seed: int) -> int:
    run = runs.run(seed)
    print("\n".join(run.trace.last(1_000_000)))
    _report(run)
    return 1 if run.broken else 0


def _many(runs: Runs, seed: int, seconds: float, failures: int) -> int:
    began, cpu, first, failing = monotonic(), process_time(), seed, 0
    while monotonic() - began < seconds and failing < failures:
        run = runs.run(seed)
        if run.broken:
            failing += 1
            print("\n".join(run.trace.last(SHOWN)))
            _report(run)
        seed += 1
    passed = monotonic() - began
    done = seed - first
    print(
        f"{done} runs in {passed:.0f} s ({done / passed * 60:.0f} a minute), of which"
        f" {process_time() - cpu:.0f} s of CPU; seeds {first} to {seed - 1}: {dict(runs.figures)};"
        f" {failing} broke a promise"
    )
    return 1 if failing else 0


def _report(run: SimulatedRun) -> None:
    print(f"seed {run.seed}: {', '.join(sorted(run.faults)) or 'no faults'}; {run.kinds}")
    print(f"trace {run.trace.sha256}")
    for what in run.broken:
        print(f"BROKEN: {what}")
    if run.broken:
        print(f"repeat it: python -m tests.simulation --once {run.seed}")


if __name__ == "__main__":
    sys.exit(main())
