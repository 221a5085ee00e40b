"""Renders the runs as Markdown tables, and writes tables into pages of the documentation."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from statistics import median

from benchmarks.contenders import AT_ONCE, CONTENDERS, HONE, IN_FLIGHT, SAQ, Contender
from benchmarks.loop import CALLS
from benchmarks.measuring import MeasuredRun

DOCS = Path(__file__).parent.parent / "docs"
PRINTED = (DOCS / "data" / "performance.txt", "printed by the benchmark")
SCALE = (DOCS / "data" / "growth.txt", "printed by the sweeps")
CAPACITY = (DOCS / "operations.md", "printed by the benchmark")
GROWN = (DOCS / "operations.md", "calculated by the benchmark")
"""Where tables are written: pages and files of tables, and the marks around the tables."""

SHARE = 0.7
"""Of a core, that is counted on: beyond it waits grow quickly."""

DAY_S = 86_400

MANY, QUICK_S, SLOW_S = 100_000, 10, 60
"""Refinements in flight that nobody has run, and how long their model calls take."""

REDIS = "Redis"

Medians = dict[str, float]


def rendered(runs: Sequence[MeasuredRun], facts: Sequence[str]) -> str:
    """Return the output of a benchmark: medians of each contender's runs."""
    latencies = sorted({run.latency_ms for run in runs})
    parts = ["\n".join(f"- {fact}" for fact in facts)]
    parts += [_compared(each, _medians(runs, each)) for each in latencies]
    if any(run.contender == HONE for run in runs):
        parts.append(_hone({each: _medians(runs, each)[HONE] for each in latencies}))
    return "\n\n".join(parts)


def varied(runs: Sequence[MeasuredRun]) -> str:
    """Return a table of Hone's variants; ratios are to Hone as it was in the same run."""
    names = list(dict.fromkeys((run.contender, run.latency_ms) for run in runs))
    plain = _medians_of(runs, *names[0])
    bounded = {it.name for it, _ in IN_FLIGHT}
    lines = [
        "Hone in other ways; a model call takes as long as it says, medians of the runs:",
        "",
        (
            "| | call takes | refinements/s | of one worker's | CPU ms/call: worker | API | Redis "
            "| submit p99 ms | reply to event p99 ms | peak MB | calls in flight |"
        ),
        "|---|" + "--:|" * 10,
    ]
    for name, latency_ms in names:
        it = _medians_of(runs, name, latency_ms)
        cells = [
            name,
            f"{latency_ms} ms",
            f"{it['per_s']:.0f}",
            "-" if name in bounded else f"{it['per_s'] / plain['per_s']:.2f}",
            *(f"{it[f'cpu_ms/{role}']:.2f}" for role in ("worker", "api", "redis")),
            f"{it['submitted/p99_ms']:.0f}",
            f"{it['since_reply/p99_ms']:.0f}" if "since_reply/p99_ms" in it else "-",
            f"{it['peak_mb']:.0f}",
            f"{it['in_flight']:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def carried(runs: Sequence[MeasuredRun], facts: Sequence[str]) -> str:
    """Return what a core carries of each process, by the CPU time that it takes."""
    latency_ms, spent_ms = _spent_ms(runs)
    head = f"CPU ms per refinement of {CALLS} calls"
    lines = [
        "\n".join(f"- {fact}" for fact in (*facts, f"a model call takes {latency_ms} ms")),
        "",
        f"| process | {head} | refinements/s with {SHARE:.0%} of a core | a day |",
        "|---|--:|--:|--:|",
    ]
    for name, each_ms in spent_ms.items():
        per_s = SHARE * 1000 / each_ms
        lines.append(
            f"| {name} | {each_ms:.1f} | {per_s:.0f} | {per_s * DAY_S / 1e6:.0f} million |"
        )
    return "\n".join(lines)


def grown(runs: Sequence[MeasuredRun]) -> str:
    """Return how many processes `MANY` refinements in flight would need, of what a core carries."""
    _, spent_ms = _spent_ms(runs)
    ended_per_s = {call_s: MANY / CALLS / call_s for call_s in (QUICK_S, SLOW_S)}
    lines = [
        "| needed | one carries | "
        + " | ".join(f"calls of {it} s: {per_s:,.0f}/s end" for it, per_s in ended_per_s.items())
        + " |",
        "|---|" + "--:|" * (1 + len(ended_per_s)),
    ]
    for name, each_ms in spent_ms.items():
        carried_per_s = SHARE * 1000 / each_ms
        needed = [per_s / carried_per_s for per_s in ended_per_s.values()]
        is_one = name == REDIS
        cells = [f"{it:.1f}" if is_one else f"{ceil(it)}" for it in needed]
        what = f"{name}, of which there is one" if is_one else f"{name} processes"
        lines.append(f"| {what} | {carried_per_s:.0f}/s | {' | '.join(cells)} |")
    return "\n".join(lines)


def _spent_ms(runs: Sequence[MeasuredRun]) -> tuple[int, dict[str, float]]:
    """Return the greatest latency, and the CPU time that a refinement takes then, by process."""
    latency_ms = max(run.latency_ms for run in runs)
    it = _medians_of(runs, HONE, latency_ms)
    roles = {"worker": "worker", "API": "api", REDIS: "redis"}
    return latency_ms, {name: it[f"cpu_ms/{role}"] * CALLS for name, role in roles.items()}


def write(place: tuple[Path, str], text: str) -> None:
    """Put the text between the marks of a page."""
    path, mark = place
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    page = path.read_text()
    before, rest = page.split(begin)
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}")


def _medians_of(runs: Sequence[MeasuredRun], contender: str, latency_ms: int) -> Medians:
    mine = _of(contender, latency_ms, runs)
    return {name: median(it[name] for it in mine) for name in mine[0]}


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
            columns["cpu_of_saq"] = [
                it["cpu_ms/all"] / saq["cpu_ms/all"] for it, saq in zip(mine, saqs, strict=False)
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


def _compared(latency_ms: int, medians: dict[str, Medians]) -> str:
    title = f"A model call takes {latency_ms} ms, {AT_ONCE} refinements in flight:"
    head = (
        "| | of | refinements/s | of SAQ's | CPU ms/call | Redis's | both, of SAQ's | p50 s "
        "| p99 s | peak MB | calls in flight | a crash leaves |"
    )
    lines = [title, "", head, "|---|" + "--:|" * 10 + "---|"]
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
        f"{it['cpu_of_saq']:.2f}" if "cpu_of_saq" in it else "-",
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
