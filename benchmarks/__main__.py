"""python -m benchmarks [full] [--write]: measure Hone and its peers in one run.

The short form takes less than five minutes; `full` runs three times as many refinements. `--write`
puts the output into docs/performance.md. All processes that it starts are ended.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.contenders import AT_ONCE, CONTENDERS
from benchmarks.measuring import MeasuredRun, measure
from benchmarks.processes import ServiceProgram, allow_many_files
from benchmarks.table import rendered, write
from benchmarks.transport import run as drive

COUNT = {"short": 1_000, "full": 3_000}
LATENCIES_MS = (0, 200)
ROUNDS = 3


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


def main() -> None:
    """Measure every contender in turn, three times, and print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("form", nargs="?", choices=COUNT, default="short")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", action="append", choices=[it.name for it in CONTENDERS])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--latency-ms", type=int, action="append")
    arguments = parser.parse_args()
    allow_many_files()
    others = f"{os.getloadavg()[0]:.1f} processes ran besides when it began"
    form = f"form: {arguments.form}; medians of {arguments.rounds} interleaved runs; {others}"
    facts = [ceiling(), form]
    runs: list[MeasuredRun] = []
    for number in range(arguments.rounds):
        for latency_ms in arguments.latency_ms or LATENCIES_MS:
            for contender in CONTENDERS:
                if arguments.only and contender.name not in arguments.only:
                    continue
                began = time.monotonic()
                run = measure(contender, latency_ms, COUNT[arguments.form])
                runs.append(run)
                print(
                    f"round {number + 1}, {latency_ms} ms, {contender.name}: "
                    f"{run.figures['per_s']:.1f}/s ({time.monotonic() - began:.0f} s)",
                    file=sys.stderr,
                    flush=True,
                )
    text = rendered(runs, facts)
    print(text)
    if arguments.write:
        write(text)


if __name__ == "__main__":
    main()
