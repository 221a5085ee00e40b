"""python -m benchmarks [peers|scale|write]: measure Hone and its peers in one run.

`peers` compares the contenders; its last line is JSON, by latency or by refinements in flight.
`scale` measures what grows with what. `write` does all of it, with Hone's variants, and puts tables
and plots into docs/data, docs/plots, docs/performance.md and docs/operations.md; so does `--write`
for the other forms.
All processes that it starts are ended.
"""

import argparse
import json
import os
import platform
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from redis import Redis

from app.local.embedded import EmbeddedRedis
from benchmarks.contenders import (
    CONTENDERS,
    HONE,
    IN_FLIGHT,
    REPLY_MS,
    REPLY_TO_WATCHER,
    VARIANTS,
    Contender,
)
from benchmarks.environments import CannotInstall
from benchmarks.measuring import MeasuredRun, measure
from benchmarks.processes import allow_many_files
from benchmarks.scale import PLOTS, SWEEPS, measured, section
from benchmarks.table import (
    CAPACITY,
    COMPARED,
    GROWN,
    HEADLINE,
    PLOT,
    SCALE,
    VARIED,
    carried,
    draw,
    grown,
    headline,
    held,
    peers_table,
    rounds_played,
    varied,
    write,
)

COUNT = 1_000
LATENCIES_MS = (0, 200)
VARIED_MS = 200
ROUNDS = 5


def machine() -> list[str]:
    """Return what the figures depend on: cores, interpreter, Redis, and what else runs."""
    built = sysconfig.get_config_var("CONFIG_ARGS") or ""
    ways = {"PGO": "--enable-optimizations", "LTO": "--with-lto"}
    build = ", ".join(f"{'with' if flag in built else 'without'} {it}" for it, flag in ways.items())
    with (
        TemporaryDirectory() as directory,
        EmbeddedRedis(Path(directory)) as server,
        Redis.from_url(server.url) as redis,
    ):
        facts = redis.info("server")
    number = facts.get("valkey_version", facts["redis_version"])
    product = f"{facts.get('server_name', 'redis')} {number}"
    kind = f"{platform.system()} {platform.machine()}"
    return [
        f"{os.cpu_count()} cores of {kind} for contender, Redis, model server and clients together",
        f"Python {platform.python_version()} {build}; {product}",
        f"{os.getloadavg()[0]:.1f} processes ran besides when it began",
    ]


def measured_once(contender: Contender, latency_ms: int, count: int) -> MeasuredRun:
    """Measure a contender, and say so."""
    began = time.monotonic()
    run = measure(contender, latency_ms, count)
    print(
        f"{latency_ms} ms, {contender.name}: {run.figures['per_s']:.1f}/s "
        f"({time.monotonic() - began:.0f} s)",
        file=sys.stderr,
        flush=True,
    )
    return run


def in_turn(
    chosen: Sequence[tuple[Contender, int]], rounds: int, count: int
) -> tuple[list[MeasuredRun], list[str]]:
    """Measure contenders, each at a latency, in interleaved rounds; say which are left out.

    A peer is left out that cannot be installed, and from its first failure on.
    """
    runs, left_out = list[MeasuredRun](), dict[str, str]()
    for number in range(rounds):
        for contender, latency_ms in chosen:
            is_over = number >= (contender.most_rounds or rounds)
            if contender.name not in left_out and not is_over:
                try:
                    runs.append(measured_once(contender, latency_ms, count))
                except (CannotInstall, RuntimeError, OSError) as reason:
                    if contender.name.startswith("Hone"):
                        raise
                    print(f"{contender.name}: {reason}", file=sys.stderr, flush=True)
                    left_out[contender.name] = str(reason).partition("\n")[0]
    return runs, [f"without {name}: {it}" for name, it in left_out.items()]


def variants(count: int) -> list[MeasuredRun]:
    """Measure Hone's variants in turn, and with many in flight."""
    hone = next(it for it in CONTENDERS if it.name == HONE)
    runs = [measured_once(contender, VARIED_MS, count) for contender in (hone, *VARIANTS)]
    for contender, latency_ms in IN_FLIGHT:
        most = contender.at_once if count >= COUNT else count
        runs.append(measured_once(contender, latency_ms, most))
    return runs


def main() -> None:
    """Measure what is asked for, and print or write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("form", nargs="?", choices=("peers", "scale", "write"), default="peers")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", action="append", choices=[it.name for it in CONTENDERS])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--latency-ms", type=int, action="append")
    parser.add_argument("--count", type=int, default=COUNT, help="refinements of each contender")
    parser.add_argument("--values", type=int, help="how many values of each sweep, from the first")
    arguments = parser.parse_args()
    allow_many_files()
    is_whole = arguments.form == "write"
    is_written, facts = is_whole or arguments.write, machine()

    def publish(place: tuple[Path, str], text: str) -> None:
        print(text, end="\n\n", flush=True)
        if is_written:
            write(place, text)

    runs: list[MeasuredRun] = []
    if arguments.form != "scale":
        latencies = arguments.latency_ms or LATENCIES_MS
        names = arguments.only or [it.name for it in CONTENDERS]
        chosen = [(it, each) for each in latencies for it in CONTENDERS if it.name in names]
        if not arguments.only:
            chosen += [(it, REPLY_MS) for it in REPLY_TO_WATCHER]
        runs, left_out = in_turn(chosen, arguments.rounds, arguments.count)
        told = [*facts, *rounds_played(runs), *left_out]
        publish(COMPARED, peers_table(runs, told))
        if not arguments.only:
            publish(HEADLINE, headline(runs, told))
            publish(CAPACITY, carried(runs))
            publish(GROWN, grown(runs))
            if is_written:
                draw(runs, PLOT)
        if is_whole:
            publish(VARIED, varied(variants(arguments.count)))
    if arguments.form != "peers":
        swept = [(it, it.values[: arguments.values]) for it in SWEEPS]
        plots = PLOTS if is_written else None
        parts = [
            section(sweep, values, measured(sweep, values), plots=plots) for sweep, values in swept
        ]
        publish(SCALE, "\n\n".join(["\n".join(f"- {it}" for it in facts), *parts]))
    if runs:
        print(json.dumps(held(runs)))


if __name__ == "__main__":
    main()
