"""What grows with what: sweeps over iterations, sizes of drafts, watchers and ended refinements.

`python -m benchmarks scale` prints them as tables; with `--write` they and their plots go into
docs/data/growth.txt. One run each, with one API and one worker, and a model that answers at once.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

import leather
from redis import Redis
from ulid import ULID

from app.local.embedded import EmbeddedRedis
from app.store.redis import keys
from benchmarks.contenders import Setup, start_hone
from benchmarks.measuring import percentiles
from benchmarks.processes import ServiceProgram, cpu_s, peak_mb

PLOTS = Path(__file__).parent.parent / "docs" / "plots"
WIDTH, HEIGHT = 640, 320
ITERATIONS = (1, 5, 10, 20, 50)
CHARACTERS = (1_000, 10_000, 50_000, 100_000, 200_000)
IDLE = (0, 1_000, 2_500, 5_000)
ENDED = (0, 1_000, 10_000, 100_000)
SETTLE_S, LOOK_S = 3.0, 15.0
HANGING_MS = 600_000
"""The time that a model takes which answers nothing while it is looked at."""

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Plot:
    """A picture: figures of a sweep in one unit."""

    file: str
    unit: str
    figures: tuple[str, ...]
    is_named: bool = False
    """Whether the names of its figures have the unit."""


@dataclass(frozen=True)
class Sweep:
    """One quantity that grows, and what is measured at each of its values."""

    title: str
    grows: str
    values: Sequence[int]
    look: Callable[[Sequence[int]], Iterator[Figures]]
    plots: tuple[Plot, ...]


@dataclass(frozen=True)
class RunningHone:
    """A running API and worker, with a model server and a Redis of their own."""

    setup: Setup
    port: int
    redis: Redis
    pids: Mapping[str, int]

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds of each process so far."""
        return {name: cpu_s(pid) for name, pid in self.pids.items()}

    def used(self, before: Figures) -> dict[str, float]:
        """Return the CPU seconds of each process since then."""
        return {name: now - before[name] for name, now in self.cpu().items()}

    def memory(self) -> int:
        """Return the bytes that Redis has allocated."""
        taken: int = self.redis.info("memory")["used_memory"]
        return taken

    def load(self, count: int, request: Mapping[str, Any], *more: str) -> ServiceProgram:
        """Start a client that submits and watches refinements."""
        counted = ("--port", self.port, "--count", count, "--request", json.dumps(request))
        client = self.setup.program("load", "benchmarks.load", *counted, *more)
        client.heard()
        client.tell("go")
        return client

    def driven(self, count: int, request: Mapping[str, Any]) -> dict[str, Any]:
        """Play refinements to their ends; return what the client observed."""
        facts = self.load(count, request).heard()
        if failures := facts["failures"]:
            raise RuntimeError(f"{len(failures)} refinements failed, first: {failures[0]}")
        return facts


@contextmanager
def service(latency_ms: int = 0, at_once: int = 500) -> Iterator[RunningHone]:
    """Start a service."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="hone-bench-")))
        embedded = stack.enter_context(EmbeddedRedis(directory))
        command = ("benchmarks.stamped", "--climbing", "--latency-ms", latency_ms)
        model = stack.enter_context(ServiceProgram("model server", *command, log_dir=directory))
        url = f"http://127.0.0.1:{model.heard()['port']}/v1"
        setup = Setup(url, embedded.url, directory, max(ENDED), stack, at_once=at_once)
        port, (api, worker) = start_hone(setup)
        redis = stack.enter_context(Redis.from_url(embedded.url))
        pids = {"API": api.pid, "worker": worker.pid, "Redis": embedded.pid}
        yield RunningHone(setup, port, redis, pids)


def request(iterations: int, task: str = "Explain our refund policy.") -> dict[str, Any]:
    """Return a request that needs all of its iterations."""
    return {"task": task, "threshold": 0.99, "max_iterations": iterations}


def _per_call(running: RunningHone, count: int, iterations: int, task: str) -> dict[str, float]:
    """Return CPU milliseconds per model call, and the bytes that Redis keeps of a refinement."""
    before, held = running.cpu(), running.memory()
    running.driven(count, request(iterations, task))
    calls = count * iterations * 2
    figures = {name: spent * 1000 / calls for name, spent in running.used(before).items()}
    return figures | {"kB in Redis per refinement": (running.memory() - held) / count / 1_000}


def by_iterations(values: Sequence[int]) -> Iterator[Figures]:
    """Play refinements of so many iterations, a draft and a verdict each."""
    with service() as running:
        running.driven(20, request(2))
        for iterations in values:
            task = "Explain our refund policy."
            yield _per_call(running, max(10, 400 // iterations), iterations, task)


def by_size(values: Sequence[int]) -> Iterator[Figures]:
    """Play refinements of four iterations whose drafts have so many characters."""
    with service() as running:
        running.driven(20, request(2))
        for characters in values:
            task = f"Explain our refund policy in {characters} characters."
            yield _per_call(running, 40 if characters <= 10_000 else 10, 4, task)


def by_idle(values: Sequence[int]) -> Iterator[Figures]:
    """Let so many refinements wait for a model, each with a watcher, and look for a while."""
    for count in values:
        with service(HANGING_MS, at_once=max(count, 500)) as running:
            if count:
                running.load(count, request(1), "--idle").heard()
            time.sleep(SETTLE_S)
            before, began = running.cpu(), time.monotonic()
            time.sleep(LOOK_S)
            seconds = time.monotonic() - began
            cores = {name: it / seconds for name, it in running.used(before).items()}
            held = {f"{name} MB": peak_mb(pid) for name, pid in running.pids.items()}
            yield {**cores, **held}


def by_ended(values: Sequence[int]) -> Iterator[Figures]:
    """Keep so many refinements that are packed, and play, submit and list beside them."""
    with service() as running:
        running.driven(1, request(2))
        while running.redis.zcard(keys.TO_PACK):
            time.sleep(1)
        (only,) = _listed(running, 1)["data"]
        present = 0
        for count in values:
            multiply(running.redis, only["id"], count - present)
            _until_rewritten(running.redis)
            present = count
            before, kept = running.cpu(), running.memory()
            facts = running.driven(100, request(4))
            figures = {name: it / 0.8 for name, it in running.used(before).items()}  # 800 calls
            began = time.perf_counter()
            taken = [began]
            for _ in range(20):
                _listed(running, 20)
                taken.append(time.perf_counter())
            lists = [after - at for at, after in pairwise(taken)]
            yield figures | {
                "submit p50": percentiles(facts["submitted"])[0] * 1000,
                "list of 20": median(lists) * 1000,
                "MB in Redis": kept / 1_000_000,
            }


def _listed(running: RunningHone, limit: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{running.port}/v1/refinements?limit={limit}"
    with urlopen(url, timeout=30) as reply:
        listed: dict[str, Any] = json.load(reply)
    return listed


def multiply(redis: "Redis", refinement_id: str, count: int) -> None:
    """Copy whatever Redis keeps of a refinement under other ids."""
    if count <= 0:
        return
    own, members, fields = [], [], []
    known, all_of_it = refinement_id.encode(), f"*{refinement_id}*"
    for key in redis.scan_iter(count=1_000):
        if known in key:
            own.append((key, redis.dump(key) or b"", max(redis.pttl(key), 0)))
        elif redis.type(key) == b"zset":
            found = redis.zscan_iter(key, match=all_of_it, count=10_000)
            members += [(key, member, score) for member, score in found]
        elif redis.type(key) == b"hash":
            named = redis.hscan_iter(key, match=all_of_it, count=10_000)
            fields += [(key, name, value) for name, value in named]
    pipe = redis.pipeline(transaction=False)
    for number in range(count):
        other = f"{refinement_id[:-26]}{ULID()}".encode()
        for key, dumped, ttl in own:
            pipe.restore(key.replace(known, other), ttl, dumped)
        for key, member, score in members:
            pipe.zadd(key, {member.replace(known, other): score})
        for key, name, value in fields:
            pipe.hset(key, name.replace(known, other), value)
        if number % 500 == 499 or number == count - 1:
            pipe.execute()


def _until_rewritten(redis: "Redis") -> None:
    """Wait until Redis has rewritten its append-only file, as it does after so many copies."""
    while True:
        facts = redis.info("persistence")
        if not facts["aof_rewrite_in_progress"] and not facts["aof_rewrite_scheduled"]:
            return
        time.sleep(0.1)


PROCESSES = ("worker", "API", "Redis")
SWEEPS = (
    Sweep(
        "Iterations",
        "iterations",
        ITERATIONS,
        by_iterations,
        (
            Plot("iterations", "CPU ms per model call", PROCESSES),
            Plot(
                "iterations-memory",
                "kB in Redis per refinement",
                ("kB in Redis per refinement",),
                is_named=True,
            ),
        ),
    ),
    Sweep(
        "Sizes of drafts",
        "characters",
        CHARACTERS,
        by_size,
        (
            Plot("sizes", "CPU ms per model call", PROCESSES),
            Plot(
                "sizes-memory",
                "kB in Redis per refinement",
                ("kB in Redis per refinement",),
                is_named=True,
            ),
        ),
    ),
    Sweep(
        "Waiting and watched",
        "refinements, each with a watcher",
        IDLE,
        by_idle,
        (
            Plot("idle", "cores", PROCESSES),
            Plot("idle-memory", "MB at most", tuple(f"{it} MB" for it in PROCESSES), is_named=True),
        ),
    ),
    Sweep(
        "Ended and kept",
        "refinements",
        ENDED,
        by_ended,
        (
            Plot("ended", "CPU ms per model call", PROCESSES),
            Plot("ended-times", "ms", ("submit p50", "list of 20")),
            Plot("ended-memory", "MB in Redis", ("MB in Redis",), is_named=True),
        ),
    ),
)


def measured(sweep: Sweep, values: Sequence[int]) -> list[Figures]:
    """Run a sweep, and say so."""
    found: list[Figures] = []
    for value, figures in zip(values, sweep.look(values), strict=True):
        shown = ", ".join(f"{name} {it:.3g}" for name, it in figures.items())
        print(f"{sweep.title}, {value}: {shown}", file=sys.stderr, flush=True)
        found.append(figures)
    return found


def section(
    sweep: Sweep, values: Sequence[int], found: Sequence[Figures], *, plots: Path | None
) -> str:
    """Return the table of a sweep, and links to its plots, which are written into that folder."""
    units = [(plot, name) for plot in sweep.plots for name in plot.figures]
    head = [it if plot.is_named else f"{it}, {plot.unit}" for plot, it in units]
    lines = [f"### {sweep.title}", "", f"| {sweep.grows} | {' | '.join(head)} |"]
    lines.append("|--:|" + "--:|" * len(head))
    for value, figures in zip(values, found, strict=True):
        cells = (f"{figures[name]:.3g}" for _, name in units)
        lines.append(f"| {value:,} | {' | '.join(cells)} |")
    for plot in sweep.plots if plots else ():
        assert plots
        _draw(plots, sweep, plot, values, found)
        lines += ["", f"![{plot.unit} by {sweep.grows}](plots/{plot.file}.svg)"]
    return "\n".join(lines)


def _draw(
    folder: Path, sweep: Sweep, plot: Plot, values: Sequence[int], found: Sequence[Figures]
) -> None:
    highest = max(figures[name] for figures in found for name in plot.figures)
    chart = leather.Chart(plot.unit)
    chart.add_x_axis(name=sweep.grows)
    chart.add_y_scale(0, highest * 1.05 or 1)
    for name in plot.figures:
        points = [(value, it[name]) for value, it in zip(values, found, strict=True)]
        chart.add_line(points, name=name)
    folder.mkdir(exist_ok=True)
    chart.to_svg(str(folder / f"{plot.file}.svg"), WIDTH, HEIGHT)
