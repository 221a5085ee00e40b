"""python -m benchmarks.looking: measure what logs, metrics and traces cost, side by side in turns.

The same load is played with everything off, with logs and metrics, and with traces as well.
A thread reads both ports of metrics, as Prometheus would, and a process takes the spans, as a
collector would. The cost is CPU time of API and worker per model call. Whatever else runs on the
machine only adds to it, so that the least of many rounds says most. With `--instructions` valgrind
counts those of the processor instead (the kernel's are not among them), which hardly depend on what
else runs: the least of as many rounds as `--rounds` says, by default one. A round takes about six
minutes on a quiet machine.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from threading import Event, Thread
from urllib.error import URLError
from urllib.request import urlopen

from app.cli.processes import free_port
from benchmarks.contenders import LOCAL, Cast, Contender, Setup, hone
from benchmarks.loop import CALLS
from benchmarks.measuring import MeasuredRun, instructions, measure
from benchmarks.processes import allow_many_files

COUNT = 500
ROUNDS = 5
LATENCY_MS = 200
SCRAPE_EVERY_S = 15.0
SLOWER = 15
"""How much longer programs take while their instructions are counted."""

FEW, MANY = 20, 120
"""Refinements of the two runs whose difference is counted: starting is not."""

OFF, LOGS = "off", "logs and metrics"
TENTH, ALL = "and a tenth of the traces", "and all traces"
SAMPLED = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}


@contextmanager
def _scraped(every_s: float, *ports: int) -> Iterator[None]:
    """Read the metrics of these ports again and again."""
    done = Event()

    def scrape() -> None:
        while not done.wait(every_s):
            for port in ports:
                with suppress(URLError, OSError), urlopen(f"http://127.0.0.1:{port}/metrics") as it:
                    it.read()

    thread = Thread(target=scrape, daemon=True)
    thread.start()
    yield
    done.set()
    thread.join()


def _observed(traces: Mapping[str, str] | None, setup: Setup) -> Cast:
    ports = free_port(LOCAL), free_port(LOCAL)
    every_s = SCRAPE_EVERY_S * (SLOWER if setup.under else 1)
    setup.stack.enter_context(_scraped(every_s, *ports))
    shared: Mapping[str, str] = {"HONE_LOG_FORMAT": "json", "HONE_LOG_LEVEL": "info"}
    if traces is not None:
        collector = setup.program("collector", "benchmarks.looking", "--collect")
        address = f"http://127.0.0.1:{collector.heard()['port']}"
        shared = {**shared, **traces, "OTEL_EXPORTER_OTLP_ENDPOINT": address}
    return hone(
        setup,
        api_env={**shared, "HONE_METRICS_ADDRESS": f"127.0.0.1:{ports[0]}"},
        worker_env={**shared, "HONE_METRICS_ADDRESS": f"127.0.0.1:{ports[1]}"},
    )


def _blind(setup: Setup) -> Cast:
    off = {"HONE_LOG_LEVEL": "error"}
    command = ("benchmarks.unobserved",)
    return hone(
        setup, api=(*command, "api"), worker=(*command, "worker"), api_env=off, worker_env=off
    )


CONTENDERS = (
    Contender(OFF, _blind),
    Contender(LOGS, partial(_observed, None)),
    Contender(TENTH, partial(_observed, SAMPLED)),
    Contender(ALL, partial(_observed, {})),
)


class _Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def collect() -> None:
    """Take what exporters send, until killed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Collector)
    print(f'{{"port": {server.server_port}}}', flush=True)
    server.serve_forever()


def rendered(runs: list[MeasuredRun], others: float) -> str:
    """Return a table of the CPU of each, relative to that with everything off."""
    by_name = {
        it.name: [run.figures for run in runs if run.contender == it.name] for it in CONTENDERS
    }
    least = {name: min(it["cpu_ms"] for it in mine) for name, mine in by_name.items()}
    lines = [
        f"{by_name[OFF][0]['count']} refinements of {CALLS} calls at {LATENCY_MS} ms, in turns:",
        f"{len(by_name[OFF])} rounds; {others:.1f} processes ran besides when it began.",
        "",
        "| | CPU ms/call, least | of off | of off in the round, median (least to most) | peak MB |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, mine in by_name.items():
        ratios = [it["cpu_ms"] / off["cpu_ms"] for it, off in zip(mine, by_name[OFF], strict=True)]
        cells = [
            name,
            f"{least[name]:.3f}",
            f"{least[name] / least[OFF]:.3f}",
            f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            f"{median(it['peak_mb'] for it in mine):.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def counted(rounds: int) -> str:
    """Return a table of the instructions of each per model call, relative to everything off.

    Of several rounds it is the least of each process: how much of the work shares a turn of the
    event loop differs between runs, and so do the timers that go off.
    """
    least: dict[str, dict[str, float]] = {it.name: {} for it in CONTENDERS}
    for number in range(rounds):
        for contender in CONTENDERS[:: -1 if number % 2 else 1]:
            few, many = (instructions(contender, LATENCY_MS, count) for count in (FEW, MANY))
            mine = least[contender.name]
            for process in many:
                per_call = (many[process] - few[process]) / (MANY - FEW) / CALLS / 1e6
                mine[process] = min(per_call, mine.get(process, per_call))
            print(f"round {number + 1}, {contender.name}: {mine}", file=sys.stderr, flush=True)
    return instructions_table(least, rounds)


def instructions_table(least: Mapping[str, Mapping[str, float]], rounds: int) -> str:
    """Return millions of instructions per model call by contender and process, as a table."""
    off = sum(least[OFF].values())
    counted_in = f"{MANY - FEW} refinements, least of {rounds} rounds"
    lines = [
        f"Millions of instructions per model call; {counted_in}:",
        "",
        f"| | {' | '.join(least[OFF])} | together | of off |",
        "|---|" + "--:|" * (len(least[OFF]) + 2),
    ]
    for name, mine in least.items():
        together = sum(mine.values())
        figures = " | ".join(f"{it:.3f}" for it in (*mine.values(), together))
        lines.append(f"| {name} | {figures} | {together / off:.3f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure each in turn; the order is reversed in every second round."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, help=f"default: {ROUNDS}, or 1 with --instructions")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--collect", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.collect:
        collect()
        return
    allow_many_files()
    if arguments.instructions:
        print(counted(arguments.rounds or 1))
        return
    others, runs = os.getloadavg()[0], list[MeasuredRun]()
    for number in range(arguments.rounds or ROUNDS):
        for contender in CONTENDERS[:: -1 if number % 2 else 1]:
            began = time.monotonic()
            run = measure(contender, LATENCY_MS, arguments.count)
            runs.append(run)
            print(
                f"round {number + 1}, {contender.name}: {run.figures['cpu_ms']:.3f} ms/call"
                f" ({time.monotonic() - began:.0f} s)",
                file=sys.stderr,
                flush=True,
            )
    print(rendered(runs, others))


if __name__ == "__main__":
    main()
