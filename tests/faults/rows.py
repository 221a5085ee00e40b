"""The rows of the fault programme, and how one is run."""

import asyncio
import importlib.util
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.faults import clock, figures, nemeses, providers
from tests.faults.checker import Expected, final_record, release_of, violations
from tests.faults.clients import BODIES, SHAPES, TOOL_SHAPES, Clients
from tests.faults.cluster import Cluster, ClusterSetup, running_cluster
from tests.faults.figures import (
    ACCEPTING_GOAL_S,
    BACK_GOAL_S,
    CANCEL_GOAL_S,
    LOST_ENTRY_GOAL_S,
    RECOVERY_GOAL_S,
    Figures,
)
from tests.faults.history import POISON, History, listed, stored
from tests.faults.nemeses import Nemesis

SETTLE_S = 60.0
PACE_GOAL = 1.3
START_GOAL_S = 5.0
SLOWDOWN_GOAL = 1.1
WATCHED = 0.25
POLL_S = 0.2


def usual_shape(number: int) -> str:
    """Return what a client submits unless the row says otherwise."""
    return SHAPES[number % len(SHAPES)]


def iterative_only(_number: int) -> str:
    """Return the shape with the fewest calls at once."""
    return "iterative"


ALONE = 80
"""How many refinements of the other provider run before those of the limited one join in."""


def other_first(number: int) -> str:
    """Return the other provider's shape for the first ones, then each in turn."""
    return "iterative" if number >= ALONE and number % 2 else "other"


def with_tool(number: int) -> str:
    """Return each kind of tool in turn."""
    return [*TOOL_SHAPES][number % len(TOOL_SHAPES)]


def mostly_batch(number: int) -> str:
    """Return an interactive one of the other provider now and then among those of a batch."""
    return "batch" if (number + 1) % 20 else "other"


@dataclass(frozen=True)
class FaultRow:
    """One fault and the load under it; `seconds` is how long clients go on submitting.

    `canceled` is the share of refinements that are canceled; `poisons` are the numbers of those
    that kill whatever plays them. `shape_of` says what is submitted under each number. `goals` are
    figures (fields of Figures) and the seconds that their p99 must not exceed; `ratios` are figures
    that must not exceed a ratio. With `limit_per_s` the provider answers that many calls a second;
    with `most_at_once` no more than these may be under way at any time. `needs` is a module of this
    repository without which it cannot run.
    """

    name: str
    what: str
    nemesis: Nemesis = nemeses.nothing
    refinements: int = 60
    seconds: float = 15.0
    canceled: float = 0.0
    poisons: tuple[int, ...] = ()
    shape_of: Callable[[int], str] = usual_shape
    limit_per_s: int = 0
    most_at_once: int = 0
    mixes_releases: bool = False
    setup: ClusterSetup = field(default_factory=ClusterSetup)
    goals: Mapping[str, float] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)
    needs: str = ""

    @property
    def obstacle(self) -> str | None:
        """Why it cannot run here, or None."""
        if self.needs and importlib.util.find_spec(self.needs) is None:
            return f"there is no {self.needs}"
        return clock.missing() if self.setup.moves_clocks else None


RECOVERS = {"recovery": RECOVERY_GOAL_S}
KILLS_3_S = nemeses.kills(7, 2.9, 3.1)

SIX_AT_ONCE = {"limits": "openai:test=in_flight:6"}

ROWS = {
    row.name: row
    for row in (
        FaultRow("none", "nothing is disturbed"),
        FaultRow(
            "kills",
            "one of 4 workers is killed, 50 times, at random moments",
            nemeses.kills(50, 0.2, 2.2),
            200,
            60,
            setup=ClusterSetup(workers=4),
            goals=RECOVERS,
        ),
        FaultRow(
            "kills-apart",
            "the same with workers that seem to run on machines of their own",
            nemeses.kills(50, 0.2, 2.2),
            200,
            60,
            setup=ClusterSetup(workers=4, worker_module="tests.faults.apart"),
            goals=RECOVERS,
        ),
        FaultRow(
            "kills-3s", "one of 2 workers is killed every 3 s", KILLS_3_S, 100, 21, goals=RECOVERS
        ),
        FaultRow(
            "kills-1s",
            "one of 4 workers is killed every second",
            nemeses.kills(20, 0.95, 1.05),
            100,
            21,
            setup=ClusterSetup(workers=4),
            goals=RECOVERS,
        ),
        FaultRow(
            "kills-all",
            "all workers are killed at once, 3 times",
            nemeses.kill_all_workers,
            100,
            21,
            goals=RECOVERS,
        ),
        FaultRow(
            "serve",
            "the worker of `hone serve` is killed 3 times",
            nemeses.kills(3, 8, 10),
            60,
            27,
            setup=ClusterSetup(is_served=True),
            goals=RECOVERS,
        ),
        FaultRow(
            "stops", "a worker is stopped for longer than its lease", nemeses.stop_workers, 80, 30
        ),
        FaultRow("api", "the API is killed 10 times", nemeses.kill_api, 100, 20),
        FaultRow("redis", "Redis is killed 10 times", nemeses.kill_redis, 100, 20),
        FaultRow("redis-stops", "Redis stops for 5, 12 and 30 s", nemeses.stop_redis, 80, 50),
        FaultRow(
            "all",
            "40 kills of one of 4 workers, 4 of Redis and 4 of the API",
            nemeses.kill_everything,
            200,
            55,
            setup=ClusterSetup(workers=4),
        ),
        FaultRow(
            "resets",
            "all connections to Redis are reset 60 times",
            nemeses.resets(60),
            100,
            15,
            setup=ClusterSetup(is_proxied=True),
        ),
        FaultRow(
            "silence",
            "connections to Redis stay open and carry nothing for up to 8 s",
            nemeses.silence,
            60,
            25,
            setup=ClusterSetup(is_proxied=True),
        ),
        FaultRow(
            "latency",
            "Redis is up to 200 ms away",
            nemeses.delay,
            60,
            20,
            setup=ClusterSetup(is_proxied=True),
        ),
        FaultRow("oom", "Redis is full", nemeses.refuses(nemeses.full, "OOM"), 60, 20),
        FaultRow(
            "read-only",
            "Redis is a replica for a while",
            nemeses.refuses(nemeses.read_only, "READONLY"),
            60,
            20,
        ),
        FaultRow(
            "no-replicas",
            "Redis misses its replica",
            nemeses.refuses(nemeses.without_replicas, "NOREPLICAS"),
            60,
            20,
        ),
        FaultRow(
            "misconf",
            "Redis cannot write its snapshot",
            nemeses.refuses(nemeses.without_snapshots, "MISCONF"),
            60,
            20,
        ),
        FaultRow(
            "clock",
            "the clock of Redis jumps by up to 200 s",
            nemeses.jump_clock,
            60,
            20,
            setup=ClusterSetup(moves_clocks=True),
        ),
        FaultRow(
            "clocks",
            "the workers' clocks are hours off, and workers are killed",
            nemeses.wrong_clocks,
            60,
            20,
            setup=ClusterSetup(moves_clocks=True),
            goals=RECOVERS,
        ),
        FaultRow(
            "tools",
            "Redis is cut off for 2 s just after the call of a tool has begun, 8 times, and the"
            " clocks of workers and of the sender of webhooks are hours off",
            nemeses.cut_at_calls,
            48,
            45,
            shape_of=with_tool,
            setup=ClusterSetup(is_proxied=True, moves_clocks=True, sends_webhooks=True),
        ),
        FaultRow(
            "rolling",
            "every process is replaced with SIGTERM, twice",
            nemeses.restart_in_turn,
            80,
            20,
        ),
        FaultRow(
            "lost-entries",
            "the RQ list is deleted 6 times",
            nemeses.lose_entries,
            100,
            20,
            goals={"pickup": LOST_ENTRY_GOAL_S},
        ),
        FaultRow(
            "deliveries",
            "a refinement is delivered 100 times more, 10 times",
            nemeses.deliver_again,
            60,
            15,
        ),
        FaultRow(
            "cancels",
            "every second refinement is canceled, at a random moment",
            refinements=100,
            seconds=12,
            canceled=0.5,
            setup=ClusterSetup(latency_s=(0.5, 4.0)),
            goals={"canceling": CANCEL_GOAL_S},
        ),
        FaultRow(
            "failover",
            "the primary is demoted twice and killed twice; Sentinel promotes a replica",
            nemeses.fails_over(False, True, False, True),
            60,
            40,
            setup=ClusterSetup(is_replicated=True, settings={"redis_replicas": 2}),
            needs="tests.faults.sentinel",
        ),
        FaultRow(
            "failover-kills",
            "the primary is killed 3 times; a submission needs one of its two replicas",
            nemeses.fails_over(True, True, True),
            150,
            30,
            setup=ClusterSetup(is_replicated=True, settings={"redis_replicas": 1}),
            goals={"accepting": ACCEPTING_GOAL_S},
            needs="tests.faults.sentinel",
        ),
        FaultRow(
            "cluster-kills",
            "in a Redis Cluster, the primary with Hone's keys is killed 3 times",
            nemeses.kill_owners,
            150,
            30,
            setup=ClusterSetup(is_sharded=True),
            goals={"accepting": BACK_GOAL_S},
        ),
        FaultRow(
            "cluster-nodes",
            "each of the six nodes of a Redis Cluster is killed in turn",
            nemeses.kill_nodes,
            150,
            40,
            setup=ClusterSetup(is_sharded=True),
        ),
        FaultRow(
            "cluster-frozen",
            "in a Redis Cluster, the primary with Hone's keys stops 2 times until its replica has"
            " taken its place, and goes on",
            nemeses.freeze_owners,
            100,
            30,
            setup=ClusterSetup(is_sharded=True),
        ),
        FaultRow(
            "cluster-cut",
            "in a Redis Cluster, the primary with Hone's keys is cut off from the other nodes 3"
            " times, while clients reach it",
            nemeses.cut_off_owners,
            100,
            30,
            setup=ClusterSetup(is_sharded=True, is_proxied=True),
        ),
        FaultRow(
            "cluster-moves",
            "in a Redis Cluster, the slot of Hone's keys moves 8 times",
            nemeses.move_slot,
            150,
            25,
            setup=ClusterSetup(is_sharded=True),
        ),
        FaultRow(
            "cluster-alone",
            "in a Redis Cluster, all replicas of the shard are killed 3 times",
            nemeses.kill_followers,
            100,
            25,
            setup=ClusterSetup(is_sharded=True),
        ),
        FaultRow(
            "cells-kills",
            "of three cells in a Redis Cluster, the primary of one is killed 3 times",
            nemeses.kills_cell(1),
            150,
            30,
            setup=ClusterSetup(is_sharded=True, cells=(1, 2), workers=3),
        ),
        FaultRow(
            "cells-first",
            "of three cells in a Redis Cluster, the primary of cell 0 is killed 3 times",
            nemeses.kills_cell(0),
            150,
            30,
            setup=ClusterSetup(is_sharded=True, cells=(1, 2), workers=3),
        ),
        FaultRow(
            "cells-moves",
            "of three cells in a Redis Cluster, the slots move 6 times",
            nemeses.move_cell,
            150,
            25,
            setup=ClusterSetup(is_sharded=True, cells=(1, 2), workers=3),
        ),
        FaultRow(
            "cells-changed",
            "two of three cells take submissions; one is added, another one drained, twice",
            nemeses.change_cells,
            150,
            45,
            setup=ClusterSetup(is_sharded=True, cells=(1,), workers=3),
        ),
        FaultRow(
            "versions",
            "processes are upgraded to a later release and rolled back, and workers are killed",
            nemeses.mix_releases,
            80,
            30,
            mixes_releases=True,
            needs="tests.faults.later_version",
        ),
        FaultRow(
            "poison",
            "3 of the refinements kill every process that plays them",
            nemeses.endure_poison,
            40,
            15,
            poisons=(7, 20, 21),
            setup=ClusterSetup(worker_module="tests.faults.poison"),
            needs="tests.faults.poison",
        ),
        FaultRow(
            "archive",
            "all workers are killed 12 times, as soon as one has written an object",
            nemeses.kill_archiving,
            80,
            25,
            setup=ClusterSetup(archives=True),
        ),
        FaultRow(
            "archive-away",
            "the archive is away 3 times",
            nemeses.lose_archive,
            60,
            20,
            setup=ClusterSetup(archives=True),
        ),
        FaultRow(
            "archive-restored",
            "an older copy, then an empty Redis takes the place of the one that knew the archive,"
            " beside another service in the same directory",
            nemeses.loses_redis(30),
            30,
            10,
            setup=ClusterSetup(archives=True),
        ),
        FaultRow(
            "rate-limit",
            "the provider answers 20 calls a second and refuses the others",
            providers.limits(20),
            100,
            0,
            shape_of=iterative_only,
            limit_per_s=20,
            ratios={"pace": PACE_GOAL},
        ),
        FaultRow(
            "cell0-away",
            "the provider answers 20 calls a second; for workers of another cell, cell 0 stops for"
            " 12 s, and is then away for longer than the grace of 20 s",
            providers.lose_cell0(20),
            150,
            0,
            shape_of=iterative_only,
            setup=ClusterSetup(workers=3, is_apart=True, settings={"cell0_grace_s": 20}),
        ),
        FaultRow(
            "in-flight",
            "6 calls at a time are allowed; one of 4 workers is killed 8 times, and Redis 3 times",
            providers.kills_beside_a_limit(8, 3),
            40,
            10,
            most_at_once=6,
            setup=ClusterSetup(workers=4, settings=SIX_AT_ONCE),
        ),
        FaultRow(
            "in-flight-away",
            "6 calls at a time are allowed; for workers of another cell, cell 0 stops for 12 s, and"
            " is then away for longer than the grace of 20 s",
            providers.lose_cell0(),
            60,
            0,
            most_at_once=6,
            setup=ClusterSetup(
                workers=3, is_apart=True, settings={"cell0_grace_s": 20, **SIX_AT_ONCE}
            ),
        ),
        FaultRow(
            "outage-5s", "the provider resets every call for 5 s", providers.outage(5), 100, 10
        ),
        FaultRow(
            "outage-60s",
            "the provider answers 503 for 60 s",
            providers.outage(60, providers.OVERLOADED),
            100,
            20,
        ),
        FaultRow(
            "outage-150s",
            "the provider cannot be reached for 150 s",
            providers.outage(150, None),
            100,
            20,
        ),
        FaultRow(
            "outage-kills",
            "the provider answers 503 for 50 s while hundreds wait, and 10 workers are killed",
            providers.outage(50, providers.OVERLOADED, kills=10, after_s=1),
            300,
            8,
            goals=RECOVERS,
        ),
        FaultRow(
            "wrong-key",
            "the provider refuses the key for 40 s",
            providers.outage(40, providers.WRONG_KEY),
            100,
            20,
        ),
        FaultRow(
            "no-credit",
            "the credit is exhausted for 40 s",
            providers.outage(40, providers.NO_CREDIT),
            100,
            20,
        ),
        FaultRow(
            "two-providers",
            "one of two providers answers 10 calls a second",
            providers.limits(10),
            160,
            40,
            shape_of=other_first,
            setup=ClusterSetup(settings={"concurrency": 30}),
            ratios={"slowdown": SLOWDOWN_GOAL},
        ),
        FaultRow(
            "crowd",
            "3,000 refinements of another tenant are queued, and a batch of the own one",
            nemeses.crowd,
            160,
            30,
            shape_of=mostly_batch,
            setup=ClusterSetup(settings={"concurrency": 20}),
            goals={"starting": START_GOAL_S},
        ),
        FaultRow(
            "hang",
            "one of two providers accepts calls and answers none, with 3,000 of its refinements"
            " queued",
            providers.stuck(providers.hanging),
            200,
            50,
            shape_of=other_first,
            setup=ClusterSetup(settings={"concurrency": 30, "model_timeout_s": 40}),
            goals={"starting": START_GOAL_S},
            ratios={"slowdown": SLOWDOWN_GOAL},
        ),
        FaultRow(
            "slow",
            "one of two providers takes 30 s to answer, with 3,000 of its refinements queued",
            providers.stuck(providers.slowed),
            200,
            50,
            shape_of=other_first,
            setup=ClusterSetup(settings={"concurrency": 30, "model_timeout_s": 40}),
            goals={"starting": START_GOAL_S},
            ratios={"slowdown": SLOWDOWN_GOAL},
        ),
    )
}


async def run(
    row: FaultRow, seed: int, expected: Expected, refinements: int = 0, logs: Path | None = None
) -> Figures:
    """Run one row with one seed; `refinements` other than 0 replaces its own number.

    The logs of its processes are copied into `logs`, if given.
    """
    if row.mixes_releases:
        expected = {**expected, **await undisturbed(is_later=True)}
    with tempfile.TemporaryDirectory(prefix="hone-faults-") as directory:
        async with (
            running_cluster(Path(directory), seed, row.setup) as cluster,
            Clients(cluster.url, cluster.endpoint) as clients,
        ):
            began = time.monotonic()
            await _play(row, seed, refinements or row.refinements, cluster, clients)
            took_s = time.monotonic() - began
            if logs:
                _copy_logs(Path(directory), logs / f"{row.name}-{seed}")
            return _figures(row, seed, cluster, clients, expected, took_s)


def _copy_logs(directory: Path, to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    for log in directory.glob("*.log"):
        shutil.copy(log, to)


async def undisturbed(*, is_later: bool = False) -> Expected:
    """Return the final record of each shape from a run without faults, or of the later release."""
    setup = ClusterSetup(latency_s=(0, 0), is_later=is_later)
    shapes = (*SHAPES, *BODIES.keys() - set(SHAPES), *TOOL_SHAPES)
    row = FaultRow("reference", "", seconds=0, setup=setup, shape_of=lambda it: shapes[it])
    with tempfile.TemporaryDirectory(prefix="hone-faults-") as directory:
        async with (
            running_cluster(Path(directory), 0, row.setup) as cluster,
            Clients(cluster.url, cluster.endpoint) as clients,
        ):
            await _play(row, 0, len(shapes), cluster, clients)
            history = _history(cluster, clients)
    ended = {it.shape: history.refinements[it.ids[0]] for it in history.submissions}
    found = {release_of(shape, it): final_record(it) for shape, it in ended.items()}
    wrong = violations(history, found)
    assert not wrong, wrong
    assert ended.keys() == BODIES.keys() | TOOL_SHAPES.keys()
    return found


async def _play(row: FaultRow, seed: int, count: int, cluster: Cluster, clients: Clients) -> None:
    submitted_by = time.monotonic() + row.seconds
    cluster.watched = clients.watched
    async with asyncio.TaskGroup() as group:
        disturbing = group.create_task(row.nemesis(cluster))
        tasks = [
            group.create_task(_client(row, seed, number, count, clients)) for number in range(count)
        ]
        await asyncio.wait([disturbing])
        await _until_ended(cluster, clients, count, submitted_by)
        await asyncio.wait(tasks, timeout=SETTLE_S / 2)
        for task in tasks:
            task.cancel()  # what it lacks is found by the checker
    if row.setup.archives:
        await cluster.bring_back(clients.ids)


async def _client(row: FaultRow, seed: int, number: int, count: int, clients: Clients) -> None:
    """Submit one refinement in its turn; watch or cancel it as the seed says."""
    chance = Random(f"{seed}-{number}")
    await asyncio.sleep(row.seconds * number / count)
    shape = POISON if number in row.poisons else row.shape_of(number)
    refinement_id = await clients.submit(number, chance, shape)
    async with asyncio.TaskGroup() as group:
        if chance.random() < WATCHED:
            group.create_task(clients.watch(refinement_id, chance))
        if chance.random() < row.canceled:
            await asyncio.sleep(chance.uniform(0, 5))
            await clients.cancel(refinement_id)


async def _until_ended(cluster: Cluster, clients: Clients, count: int, submitted_by: float) -> None:
    give_up = max(time.monotonic(), submitted_by) + SETTLE_S
    while time.monotonic() < give_up:
        ids = clients.ids
        accepted = sum(bool(it.ids) for it in clients.submissions)
        if accepted == count and not cluster.unfinished(ids):
            return
        await asyncio.sleep(POLL_S)


def _history(cluster: Cluster, clients: Clients) -> History:
    with cluster.client() as client:
        return History(
            refinements=stored(client, sorted(set(clients.ids))),
            listed=listed(client),
            submissions=clients.submissions,
            calls=[it for it in cluster.calls if not it.is_refused],
            refused=[it for it in cluster.calls if it.is_refused],
            watched=clients.watched,
            losses=cluster.losses,
            unmanned=cluster.unmanned,
            answers=clients.answers,
        )


def _too_many(row: FaultRow, history: History) -> Iterator[str]:
    found = figures.most_at_once(history)
    if found > row.most_at_once > 0:
        yield f"{found} calls were under way at one time"


def _figures(
    row: FaultRow, seed: int, cluster: Cluster, clients: Clients, expected: Expected, took_s: float
) -> Figures:
    history = _history(cluster, clients)
    if any(it.kind == "kill" for it in history.losses):
        cluster.counts["s without a worker"] = round(figures.unmanned(history))
    return Figures(
        row=row.name,
        seed=seed,
        statuses=figures.statuses(history),
        faults=cluster.counts,
        repeated=figures.repeated(history),
        in_hand=figures.in_hand(history),
        recovery=figures.recovery(history),
        canceling=figures.canceling(history),
        pickup=figures.pickup(history, cluster.lost_entries),
        leaving=figures.Seconds.of(cluster.left_in_s),
        accepting=figures.accepting(cluster.promoted_at, clients.accepted_at),
        refused=len(history.refused),
        starting=figures.starting(history) if "starting" in row.goals else figures.NONE,
        pace=figures.pace(history, row.limit_per_s) if row.limit_per_s else None,
        slowdown=figures.slowdown(history),
        watchers=len(history.watched),
        cuts=sum(it.cuts for it in history.watched),
        unavailable=figures.Seconds.of(history.answers.unavailable_s),
        took_s=took_s,
        broken=(*cluster.broken, *_too_many(row, history), *violations(history, expected)),
        goals=row.goals,
        ratios=row.ratios,
    )
