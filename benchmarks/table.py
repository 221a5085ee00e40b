"""Renders the runs as Markdown tables, a plot and ratios, and writes tables into pages."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

import leather

from benchmarks.contenders import (
    AFTER_A_CRASH,
    AT_ONCE,
    CONTENDERS,
    DBOS,
    HONE,
    IN_FLIGHT,
    OUT_OF_THE_BOX,
    REPLY_MS,
    REPLY_TO_WATCHER,
    RESTATE,
    RESTATE_TYPESCRIPT,
    SAQ,
    Contender,
)
from benchmarks.loop import CALLS
from benchmarks.measuring import MeasuredRun

DOCS = Path(__file__).parent.parent / "docs"
VARIED = (DOCS / "data" / "performance.txt", "printed by the benchmark")
COMPARED = (DOCS / "data" / "peers.txt", "printed by the benchmark")
HEADLINE = (DOCS / "performance.md", "printed by the benchmark")
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

SPAN = "first entry to last (Restate, and what is not watched: request to answer)"

PLOT = DOCS / "plots" / "cpu.svg"
WIDTH, HEIGHT, HIGHEST_MS = 1000, 260, 6
"""Of the plot; what is more expensive is cut off and has its figure in its name."""

NOT_ITS_OWN = {"cpu_ms/all", "cpu_ms/model", "cpu_ms/driver"}

HELD = {
    "cpu_of_saq_http": ("cpu_ms/all", HONE, SAQ),
    "of_restate": ("cpu_ms/all", HONE, RESTATE),
    "of_restate_typescript": ("cpu_ms/all", HONE, RESTATE_TYPESCRIPT),
    "of_dbos": ("cpu_ms/all", HONE, DBOS),
    "rate_of_restate": ("per_s", OUT_OF_THE_BOX, RESTATE),
}
"""Ratios that a program may hold Hone to: the figure, of which, and of which peer."""

Medians = dict[str, float]


def rounds_played(runs: Sequence[MeasuredRun]) -> list[str]:
    """Return what figures are medians of: a line for contenders alike, without names for most."""
    alike = defaultdict[tuple[float, int], list[str]](list)
    for it in CONTENDERS:
        if mine := [run for run in runs if run.contender == it.name]:
            rounds = max(Counter(run.latency_ms for run in mine).values())
            alike[mine[0].figures["count"], rounds].append(it.name)
    ((count, rounds), _), *others = sorted(alike.items(), key=lambda pair: -len(pair[1]))
    usual = f"{count:.0f} refinements each; medians of {rounds} rounds"
    return [usual, *(f"{some:.0f} in {few} rounds: {'; '.join(of)}" for (some, few), of in others)]


def peers_table(runs: Sequence[MeasuredRun], facts: Sequence[str]) -> str:
    """Return what contenders cost, how long watchers wait, and what a crash leaves: medians."""
    latencies = sorted({run.latency_ms for run in runs if run.contender in AFTER_A_CRASH})
    parts = ["\n".join(f"- {fact}" for fact in facts)]
    parts += [_compared(each, runs) for each in latencies]
    return "\n\n".join([*parts, _replies(runs), _left_by_a_crash(runs)])


def headline(runs: Sequence[MeasuredRun], facts: Sequence[str]) -> str:
    """Return what a call costs each contender, of the least latency: medians."""
    latency_ms = min(run.latency_ms for run in runs)
    lines = [
        *(f"- {fact}" for fact in facts),
        f"- a model call takes {latency_ms} ms, at most {AT_ONCE} refinements in flight",
        "",
        "| | CPU ms/call | of SAQ's | refinements/s | p50 s | p99 s | reply to watcher, ms |",
        "|---|" + "--:|" * 6,
    ]
    for contender in CONTENDERS:
        if not _of(contender.name, runs, latency_ms):
            continue
        spent = _medians_of(runs, contender.name, latency_ms)
        of_saq = _ratios(runs, "cpu_ms/all", contender.name, SAQ, latency_ms)
        cells = [
            contender.name,
            f"{spent['cpu_ms/all']:.2f}",
            f"{median(of_saq):.2f}" if of_saq else "-",
            f"{spent['per_s']:.0f}",
            f"{spent['p50_s']:.2f}",
            f"{spent['p99_s']:.2f}",
            _since_reply(spent),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def held(runs: Sequence[MeasuredRun]) -> dict[str, dict[str, float]]:
    """Return ratios to peers by latency, and milliseconds to a watcher by refinements in flight.

    What was not measured is not among them.
    """
    latencies = sorted({run.latency_ms for run in runs})
    found = {
        name: {
            str(each): round(median(ratios), 3)
            for each in latencies
            if (ratios := _ratios(runs, figure, mine, peer, each))
        }
        for name, (figure, mine, peer) in HELD.items()
    }
    found["reply_p99_ms"] = {
        str(it.at_once): round(_medians_of(runs, it.name)["since_reply/p99_ms"], 1)
        for it in REPLY_TO_WATCHER
        if it.name.startswith(HONE) and _of(it.name, runs)
    }
    return found


def draw(runs: Sequence[MeasuredRun], path: Path) -> None:
    """Draw the CPU time of a call by contender, beside each other for each latency."""
    grid = leather.Grid()
    for latency_ms in sorted({run.latency_ms for run in runs}):
        bars = []
        for it in CONTENDERS:
            if _of(it.name, runs, latency_ms):
                spent_ms = _medians_of(runs, it.name, latency_ms)["cpu_ms/all"]
                bars.append((min(spent_ms, HIGHEST_MS), f"{it.name}: {spent_ms:.2f}"))
        chart = leather.Chart(f"CPU ms per call that takes {latency_ms} ms")
        chart.add_x_scale(0, HIGHEST_MS)
        chart.add_bars(bars[::-1], fill_color=_colour)
        grid.add_one(chart)
    grid.to_svg(str(path), WIDTH, HEIGHT)


def _colour(bar: Any) -> str:
    return "#2b6cb0" if bar.y.startswith("Hone") else "#a0aec0"


def varied(runs: Sequence[MeasuredRun]) -> str:
    """Return a table of Hone's variants; ratios are to Hone as it was in the same run."""
    names = list(dict.fromkeys((run.contender, run.latency_ms) for run in runs))
    plain = _medians_of(runs, *names[0])
    bounded = {it.name for it, _ in IN_FLIGHT}
    lines = [
        "Hone in other ways, one run each; a model call takes as long as it says:",
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


def carried(runs: Sequence[MeasuredRun]) -> str:
    """Return what a core carries of each process, by the CPU time that it takes."""
    latency_ms, spent_ms = _spent_ms(runs)
    head = f"CPU ms per refinement of {CALLS} calls"
    lines = [
        f"A model call takes {latency_ms} ms:",
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
    latency_ms = max(run.latency_ms for run in runs if run.contender == HONE)
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


def _of(
    contender: str, runs: Sequence[MeasuredRun], latency_ms: int | None = None
) -> list[dict[str, float]]:
    """Return the figures of a contender's runs in the order of rounds, of one latency if given."""
    return [
        run.figures
        for run in runs
        if run.contender == contender and latency_ms in {None, run.latency_ms}
    ]


def _medians_of(
    runs: Sequence[MeasuredRun], contender: str, latency_ms: int | None = None
) -> Medians:
    mine = _of(contender, runs, latency_ms)
    return {name: median(it[name] for it in mine) for name in mine[0]}


def _ratios(
    runs: Sequence[MeasuredRun], figure: str, contender: str, peer: str, latency_ms: int
) -> list[float]:
    """Return the ratio of each round, in which the load of the machine is similar for both."""
    both = zip(_of(contender, runs, latency_ms), _of(peer, runs, latency_ms), strict=False)
    return [mine[figure] / its[figure] for mine, its in both]


def _compared(latency_ms: int, runs: Sequence[MeasuredRun]) -> str:
    head = (
        "| | refinements | CPU ms/call | of it | of SAQ's | refinements/s | p50 s | p99 s "
        "| reply to watcher p50 / p99, ms |"
    )
    calls = f"{CALLS} calls x {latency_ms} ms = {CALLS * latency_ms / 1000:g} s"
    return "\n".join(
        [
            f"A model call takes {latency_ms} ms, at most {AT_ONCE} refinements in flight:",
            "",
            head,
            "|---|--:|--:|---|" + "--:|" * 5,
            *(_line(it, runs, latency_ms) for it in CONTENDERS if _of(it.name, runs, latency_ms)),
            "",
            f"p50 and p99 are of one refinement, {SPAN}; {calls}.",
        ]
    )


def _line(contender: Contender, runs: Sequence[MeasuredRun], latency_ms: int) -> str:
    mine, it = _of(contender.name, runs, latency_ms), _medians_of(runs, contender.name, latency_ms)
    parts = {
        name.removeprefix("cpu_ms/"): spent
        for name, spent in it.items()
        if name.startswith("cpu_ms/") and name not in NOT_ITS_OWN and spent >= 0.005
    }
    of_saq = _ratios(runs, "cpu_ms/all", contender.name, SAQ, latency_ms)
    cells = [
        contender.name,
        f"{it['count']:.0f}",
        _spread([each["cpu_ms/all"] for each in mine], 2),
        ", ".join(f"{name} {spent:.2f}" for name, spent in parts.items()),
        _spread(of_saq, 2) if of_saq else "-",
        _spread([each["per_s"] for each in mine], 0),
        f"{it['p50_s']:.2f}",
        f"{it['p99_s']:.2f}",
        _since_reply(it),
    ]
    return f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float], digits: int) -> str:
    middle, least, most = (f"{it:.{digits}f}" for it in (median(values), min(values), max(values)))
    return f"{middle} ({least} to {most})"


def _since_reply(it: Medians) -> str:
    names = ("since_reply/p50_ms", "since_reply/p99_ms")
    return " / ".join(f"{it[name]:.0f}" for name in names) if names[0] in it else "-"


def _replies(runs: Sequence[MeasuredRun]) -> str:
    lines = [
        f"From a model's reply to its watcher, a model call takes {REPLY_MS} ms:",
        "",
        "| | p50 / p99, ms |",
        "|---|--:|",
    ]
    measured = [it.name for it in REPLY_TO_WATCHER if _of(it.name, runs)]
    lines += [f"| {name} | {_since_reply(_medians_of(runs, name))} |" for name in measured]
    return "\n".join(lines)


def _left_by_a_crash(runs: Sequence[MeasuredRun]) -> str:
    lines = [
        "All processes but the store were killed and started again (by documentation and code):",
        "",
        "| | refinements | replies | events |",
        "|---|---|---|---|",
    ]
    measured = [it.name for it in CONTENDERS if _of(it.name, runs)]
    lines += [f"| {name} | {' | '.join(AFTER_A_CRASH[name])} |" for name in measured]
    return "\n".join(lines)
