"""python -m benchmarks.cells [--play]: what several cells cost the API, in CPU time, as a table.

One API process, a Redis for each cell. The least of `ROUNDS` counts, since whatever else runs on
the machine only adds to it. Submissions are not played; they have no key of idempotency.

With `--play`, refinements of eight calls are played with one cell and with three by turns, each
with three workers and one API: medians, and the ratio of three cells to one.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from statistics import median

import httpx
from redis import Redis

from app.cli.processes import environment_of, free_port
from app.local.embedded import EmbeddedRedis
from app.store.redis import keys
from benchmarks.contenders import Cast, Contender, Setup, hone
from benchmarks.measuring import measure
from benchmarks.processes import OwnSettings, cpu_s, without_settings

CELLS = (1, 3, 10)
ROUNDS = 8
REQUESTS = 300
AT_REST_S = 10.0
PLAYED, PLAYED_ROUNDS = (1, 3), 3
LATENCIES_MS = (0, 200)
COUNT = 500
BODY = {"task": "Say it plainly.", "draft": "It is, so to speak, raining."}


@contextmanager
def served(path: Path, number: int) -> Iterator[tuple[httpx.Client, int]]:
    """Run an API of so many cells; yield a client, and the id of its process."""
    with ExitStack() as stack:
        places = [path / f"{number}-{cell}" for cell in range(number)]
        servers = [stack.enter_context(EmbeddedRedis(place, aof=False)) for place in places]
        first, *others = [server.url for server in servers]
        port = free_port("127.0.0.1")
        settings = OwnSettings(
            redis_url=first,
            cells=number,
            cells_url=" ".join(others),
            port=port,
            auth="off",
            queue_max=1_000_000,
        )
        open_cells(first, number)
        command = [sys.executable, "-m", "app.cli", "api"]
        environment = {
            **without_settings(),
            **environment_of(settings),
            "HONE_LOG_LEVEL": "error",
        }
        process = subprocess.Popen(command, env=environment, cwd=path)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60))
        for _ in range(600):
            with suppress(httpx.TransportError):
                if client.get("/healthz").is_success:
                    break
            time.sleep(0.1)
        yield client, process.pid


def open_cells(first: str, number: int) -> None:
    """Let submissions go to so many cells from the start; `first` is the Redis of cell 0."""
    with Redis.from_url(first) as client:
        client.set(keys.FORMAT, keys.FIRST_RELEASE)
        opened = json.dumps({"since": 0, "until": None})
        for cell in range(1, number):
            client.hset(keys.CELLS, str(cell), opened)
            client.hset(keys.CELLS, "coded_since", "0")


def of_cells(number: int) -> Contender:
    """Return Hone with so many cells, a Redis for each; it always has as many workers."""

    def start(setup: Setup) -> Cast:
        places = [setup.directory / f"cell-{cell}" for cell in range(1, number)]
        others = [setup.stack.enter_context(EmbeddedRedis(place)).url for place in places]
        open_cells(setup.redis_url, number)
        env = {
            "HONE_CELLS": str(number),
            "HONE_CELLS_URL": " ".join(others),
            "HONE_WORKERS": str(max(PLAYED)),
        }
        return hone(setup, api_env=env, worker_env=env)

    return Contender(f"{number} cells", start)


FIGURES = ("per_s", "cpu_ms/api", "cpu_ms/worker", "cpu_ms/redis")


def play(latency_ms: int, count: int, rounds: int) -> Iterator[str]:
    """Play by turns; yield a line for each number of cells, and one of the last to the first."""
    found: dict[int, list[tuple[float, ...]]] = {number: [] for number in PLAYED}
    for _ in range(rounds):
        for number, runs in found.items():
            figures = measure(of_cells(number), latency_ms, count).figures
            runs.append(tuple(figures[name] for name in FIGURES))
    middle = {number: [*map(median, zip(*runs, strict=True))] for number, runs in found.items()}
    first, *_, last = middle.values()
    ratios = [one / other for one, other in zip(last, first, strict=True)]
    for name, values in [*middle.items(), ("ratio", ratios)]:
        yield f"| {latency_ms} ms | {name} | " + " | ".join(f"{it:.2f}" for it in values) + " |"


def cost_ms(pid: int, ask: Callable[[], httpx.Response], requests: int) -> float:
    """Return the least CPU time of the API for a request."""
    least = float("inf")
    for _ in range(ROUNDS):
        before = cpu_s(pid)
        for _ in range(requests):
            ask().raise_for_status()
        least = min(least, (cpu_s(pid) - before) / requests * 1000)
    return least


def costs(client: httpx.Client, pid: int) -> str:
    """Return what requests cost, and what the process takes of a core at rest."""
    submitted = cost_ms(pid, lambda: client.post("/v1/refinements", json=BODY), REQUESTS)
    listed = client.get("/v1/refinements", params={"limit": 50}).json()["data"]
    ids = cycle([one["id"] for one in listed])
    got = cost_ms(pid, lambda: client.get(f"/v1/refinements/{next(ids)}"), REQUESTS)
    paged = cost_ms(pid, lambda: client.get("/v1/refinements"), REQUESTS // 3)
    before = cpu_s(pid)
    time.sleep(AT_REST_S)
    idle = (cpu_s(pid) - before) / AT_REST_S
    return f"{submitted:.2f} ms | {got:.2f} ms | {paged:.2f} ms | {idle:.1%}"


def main() -> None:
    """Measure, and print a table."""
    if sys.argv[1:] == ["--play"]:
        print(f"{COUNT} refinements, load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        print("| a call | cells | refinements/s | API, CPU ms a call | workers | Redis of cell 0 |")
        print("|--:|--:|--:|--:|--:|--:|")
        for latency_ms in LATENCIES_MS:
            for line in play(latency_ms, COUNT, PLAYED_ROUNDS):
                print(line, flush=True)
        return
    print("| cells | a submission | a GET | a page of 20 | at rest, of a core |")
    print("|--:|--:|--:|--:|--:|")
    for number in CELLS:
        with tempfile.TemporaryDirectory() as directory, served(Path(directory), number) as found:
            print(f"| {number} | {costs(*found)} |", flush=True)


if __name__ == "__main__":
    main()
