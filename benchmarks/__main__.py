"""python -m benchmarks [short|full|scale|write]: measure Hone and its peers in one run.

`short` compares the contenders, and `full` with three times as many refinements; `scale` measures
what grows with what. `write` does all of it, with Hone's variants, and puts tables and plots into
docs/data and docs/operations.md; so does `--write` for the other forms. All processes that
it starts are ended.
"""

import argparse
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
    AT_ONCE,
    CONTENDERS,
    HONE,
    IN_FLIGHT,
    VARIANTS,
    Contender,
)
from benchmarks.environments import CannotInstall
from benchmarks.measuring import MeasuredRun, measure
from benchmarks.processes import ServiceProgram, allow_many_files
from benchmarks.scale import PLOTS, SWEEPS, Figures, Sweep, measured, section
from benchmarks.table import (
    CAPACITY,
    GROWN,
    PRINTED,
    SCALE,
    carried,
    grown,
    rendered,
    varied,
    write,
)
from benchmarks.transport import run as drive

COUNT = {"short": 1_000, "full": 3_000, "write": 1_000}
LATENCIES_MS = (0, 200)
VARIED_MS = 200
ROUNDS = 3
VARIED_ROUNDS = 2


def ceiling() -> str:
    """Measure how many calls per second the model server answers alone, without latency."""
    with (
        TemporaryDirectory() as directory,
        ServiceProgram(
            "model server",
            *("benchmarks.stamped", "--latency-ms", 0),
            log_dir=Path(directory),
        ) as server,
    ):
        url = f"http://127.0.0.1:{server.heard()['port']}/v1/chat/completions"
        per_s = drive("raw", url, 20_000, AT_ONCE, 2)["per_s"]
    return f"the model server answers {per_s:.0f} calls/s to two clients that only count bytes"


def machine() -> list[str]:
    """Return what the figures depend on: cores, interpreter, Redis, and what else runs."""
    built = sysconfig.get_config_var("CONFIG_ARGS") or ""
    ways = {"PGO": "--enable-optimizations", "LTO": "--with-lto"}
    build = ", ".join(f"{'with' if flag in built else 'without'} {it}" for it, flag in ways.items())
    with (
        TemporaryDirectory() as directory,
        EmbeddedRedis.start(Path(directory)) as server,
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


def compared(arguments: argparse.Namespace, count: int) -> tuple[list[MeasuredRun], list[str]]:
    """Measure every contender in turn, as often as there are rounds; say which are left out."""
    runs, left_out = list[MeasuredRun](), dict[str, str]()
    chosen = [it for it in CONTENDERS if not arguments.only or it.name in arguments.only]
    for _ in range(arguments.rounds):
        for latency_ms in arguments.latency_ms or LATENCIES_MS:
            for contender in chosen:
                if contender.name not in left_out:
                    try:
                        runs.append(measured_once(contender, latency_ms, count))
                    except CannotInstall as reason:
                        left_out[contender.name] = str(reason)
    return runs, [
        f"without {name}, which cannot be installed: {it}" for name, it in left_out.items()
    ]


def variants(count: int, most: int) -> list[MeasuredRun]:
    """Measure Hone's variants in turn, and once with few and many in flight, of `most` at most."""
    hone = next(it for it in CONTENDERS if it.name == HONE)
    runs = [
        measured_once(contender, VARIED_MS, count)
        for _ in range(VARIED_ROUNDS)
        for contender in (hone, *VARIANTS)
    ]
    for it, latency_ms in IN_FLIGHT:
        runs.append(measured_once(it, latency_ms, min(max(it.at_once, count), most)))
    return runs


def swept(values: int | None) -> list[tuple[Sweep, Sequence[int], list[Figures]]]:
    """Run the sweeps, over the first `values` of each if that is given."""
    chosen = [(sweep, sweep.values[:values]) for sweep in SWEEPS]
    return [(sweep, those, measured(sweep, those)) for sweep, those in chosen]


def main() -> None:
    """Measure what is asked for, and print or write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("form", nargs="?", choices=(*COUNT, "scale"), default="short")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", action="append", choices=[it.name for it in CONTENDERS])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--latency-ms", type=int, action="append")
    parser.add_argument("--count", type=int, help="refinements of each contender")
    parser.add_argument("--values", type=int, help="how many values of each sweep, from the first")
    arguments = parser.parse_args()
    allow_many_files()
    is_whole = arguments.form == "write"
    is_written, facts = is_whole or arguments.write, machine()
    printed: dict[tuple[Path, str], str] = {}
    if arguments.form in COUNT:
        count = arguments.count or COUNT[arguments.form]
        rounds = f"{count} refinements each; medians of {arguments.rounds} interleaved runs"
        runs, left_out = compared(arguments, count)
        printed[PRINTED] = rendered(runs, [*facts, ceiling(), rounds, *left_out])
        if is_whole:
            printed[PRINTED] += "\n\n" + varied(variants(count, arguments.count or AT_ONCE * 10))
        if not arguments.only:
            printed[CAPACITY] = carried(runs, facts)
            printed[GROWN] = grown(runs)
    if arguments.form in {"scale", "write"}:
        parts = [
            section(*it, plots=PLOTS if is_written else None) for it in swept(arguments.values)
        ]
        printed[SCALE] = "\n\n".join(["\n".join(f"- {it}" for it in facts), *parts])
    for place, text in printed.items():
        print(text, end="\n\n")
        if is_written:
            write(place, text)


if __name__ == "__main__":
    main()
