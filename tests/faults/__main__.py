"""`make faults`: every row of the fault programme, one line of figures each.

python -m tests.faults [ROW ...] [--seeds 1,2,3] [--refinements 200]
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.faults.cluster import Cluster, Verdict, checked, running_cluster

WORKERS = 2
GIVE_UP_S = 240.0

Fault = Callable[[Cluster, asyncio.Event], Awaitable[None]]


async def nothing(_cluster: Cluster, _done: asyncio.Event) -> None:
    """Disturb nothing."""


async def kills(cluster: Cluster, done: asyncio.Event) -> None:
    """Kill a worker 50 times, at random moments."""
    while cluster.kills < 50 and not done.is_set():
        await asyncio.sleep(cluster.chance.uniform(0.1, 1.0))
        cluster.kill_worker()


async def resets(cluster: Cluster, done: asyncio.Event) -> None:
    """Reset all connections to Redis 60 times."""
    for _ in range(60):
        if done.is_set():
            return
        await asyncio.sleep(cluster.chance.uniform(0.05, 0.3))
        await cluster.reset()


async def restarts(cluster: Cluster, done: asyncio.Event) -> None:
    """Kill Redis and start it again 10 times."""
    for _ in range(10):
        if done.is_set():
            return
        await asyncio.sleep(cluster.chance.uniform(0.5, 3.0))
        cluster.restart_redis()


ROWS: dict[str, Fault] = {"none": nothing, "kills": kills, "resets": resets, "redis": restarts}


async def run(name: str, seed: int, refinements: int) -> tuple[str, bool]:
    """Run one row with one seed; return its line of figures, and whether the promise was kept."""
    with tempfile.TemporaryDirectory(prefix="hone-faults-") as directory:
        async with running_cluster(Path(directory), seed, WORKERS) as cluster:
            ids = await cluster.submit(refinements)
            done = asyncio.Event()
            fault = asyncio.ensure_future(ROWS[name](cluster, done))
            seconds = await cluster.until_ended(ids, GIVE_UP_S, WORKERS)
            done.set()
            await fault
            verdict = checked(cluster, ids)
            return _line(name, seed, cluster, verdict, seconds), verdict.is_kept


def _line(name: str, seed: int, cluster: Cluster, verdict: Verdict, seconds: float) -> str:
    statuses = " ".join(f"{status} {count}" for status, count in verdict.statuses.items())
    broken = f"; BROKEN: {verdict.broken[:3]}" if verdict.broken else ""
    return (
        f"{name:<8} seed {seed}: {verdict.refinements} refinements, {statuses}; "
        f"{cluster.kills} kills, {cluster.proxy.resets} connections reset, "
        f"{cluster.exits} workers ended by themselves; {verdict.repeated_calls} calls repeated "
        f"(at most {cluster.in_flight_at_kills} in flight at kills); {seconds:.0f} s{broken}"
    )


def main() -> int:
    """Run the rows; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(ROWS), choices=[*ROWS, []])
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--refinements", type=int, default=200)
    given = parser.parse_args()
    kept = True
    for name in given.rows:
        for seed in map(int, given.seeds.split(",")):
            line, is_kept = asyncio.run(run(name, seed, given.refinements))
            print(line, flush=True)
            kept &= is_kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
