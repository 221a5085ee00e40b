"""Renders the runs as Markdown tables, and writes them into docs/performance.md."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.contenders import AT_ONCE, CONTENDERS, HONE, SAQ, Contender
from benchmarks.loop import CALLS
from benchmarks.measuring import MeasuredRun

BEGIN, END = "<!-- printed by the benchmark: begin -->", "<!-- printed by the benchmark: end -->"
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"

Medians = dict[str, float]


def rendered(runs: Sequence[MeasuredRun], facts: Sequence[str]) -> str:
    """Return the output of a benchmark: medians of each contender's runs."""
    latencies = sorted({run.latency_ms for run in runs})
    parts = ["\n".join(f"- {fact}" for fact in (_machine(), *facts))]
    parts += [_compared(each, _medians(runs, each)) for each in latencies]
    if any(run.contender == HONE for run in runs):
        parts.append(_hone({each: _medians(runs, each)[HONE] for each in latencies}))
    return "\n\n".join(parts)


def write(text: str) -> None:
    """Put the text between the markers of docs/performance.md."""
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


def _medians(runs: Sequence[MeasuredRun], latency_ms: int) -> dict[str, Medians]:
    """Return the medians by contender, and for `per_s` and `of_saq` the least and the most.

    Ratios are taken within a round, in which the load of the machine is similar for both.
    """
    found: dict[str, Medians] = {}
    saqs = _of(SAQ, latency_ms, runs)
    for contender in CONTENDERS:
        if not (mine := _of(contender.name, latency_ms, runs)):
            continue
        columns = {name: [figures[name] for figures in mine] for name in mine[0]}
        if saqs:
            columns["of_saq"] = [
                it["per_s"] / saq["per_s"] for it, saq in zip(mine, saqs, strict=False)
            ]
        found[contender.name] = {name: median(values) for name, values in columns.items()}
        for name in {"per_s", "of_saq"} & columns.keys():
            found[contender.name] |= {
                f"{name}/least": min(columns[name]),
                f"{name}/most": max(columns[name]),
            }
    return found


def _of(contender: str, latency_ms: int, runs: Sequence[MeasuredRun]) -> list[dict[str, float]]:
    return [
        run.figures for run in runs if (run.contender, run.latency_ms) == (contender, latency_ms)
    ]


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores for everything: contender, Redis, model server and clients; "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    )


def _compared(latency_ms: int, medians: dict[str, Medians]) -> str:
    title = f"A model call takes {latency_ms} ms, {AT_ONCE} refinements in flight:"
    head = (
        "| | of | refinements/s | of SAQ's | CPU ms/call | Redis's | p50 s | p99 s | peak MB "
        "| calls in flight | a crash leaves |"
    )
    lines = [title, "", head, "|---|" + "--:|" * 9 + "---|"]
    lines += [_line(it, medians[it.name]) for it in CONTENDERS if it.name in medians]
    calls = f"{CALLS} calls x {latency_ms} ms = {CALLS * latency_ms / 1000:g} s"
    lines += ["", f"p50 and p99 are of one refinement, first call to last entry; {calls}."]
    return "\n".join(lines)


def _line(contender: Contender, it: Medians) -> str:
    cells = [
        contender.name,
        f"{it['count']:.0f}",
        _spread(it, "per_s", 0 if it["per_s"] >= 10 else 1),
        _spread(it, "of_saq", 2) if "of_saq" in it else "-",
        f"{it['cpu_ms']:.2f}",
        f"{it['cpu_ms/redis']:.2f}",
        f"{it['p50_s']:.2f}",
        f"{it['p99_s']:.2f}",
        f"{it['peak_mb']:.0f}",
        f"{it['in_flight']:.0f}",
        contender.keeps,
    ]
    return f"| {' | '.join(cells)} |"


def _spread(it: Medians, name: str, digits: int) -> str:
    middle, least, most = (f"{it[name + end]:.{digits}f}" for end in ("", "/least", "/most"))
    return f"{middle} ({least} to {most})"


def _hone(by_latency: dict[int, Medians]) -> str:
    latencies = list(by_latency)
    lines = [
        "Hone, more closely:",
        "",
        "| | " + " | ".join(f"at {each} ms" for each in latencies) + " |",
        "|---|" + "--:|" * len(latencies),
    ]
    rows = {
        "submit p50 / p99, ms": ("submitted/p50_ms", "submitted/p99_ms"),
        "model's reply to its event at a watcher p50 / p99, ms": (
            "since_reply/p50_ms",
            "since_reply/p99_ms",
        ),
        "journal to watcher p50 / p99, ms": ("since_journal/p50_ms", "since_journal/p99_ms"),
        "CPU ms per call: worker / API": ("cpu_ms/worker", "cpu_ms/api"),
        "CPU ms per call: Redis / model server": ("cpu_ms/redis", "cpu_ms/model"),
        "CPU ms per call: submitter and watchers": ("cpu_ms/driver",),
        "peak MB: worker / API": ("peak_mb/worker", "peak_mb/api"),
    }
    for title, names in rows.items():
        digits = 2 if "CPU" in title else 0
        cells = [
            " / ".join(f"{it[name]:.{digits}f}" if name in it else "-" for name in names)
            for it in by_latency.values()
        ]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)
