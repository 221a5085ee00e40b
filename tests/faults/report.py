"""Writes the figures of a whole programme into docs/data/faults.txt."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.faults.figures import Figures, Seconds
from tests.faults.rows import FaultRow

PAGE = Path(__file__).parents[2] / "docs" / "data" / "faults.txt"
BEGIN, END = "<!-- written by make faults: begin -->", "<!-- written by make faults: end -->"

HEAD = (
    "| row | what is done | ended | done to it | calls repeated / in hand "
    "| seconds, p50 / p99 / max; ratios | answers 503, slowest | promises |\n"
    "|---|---|---|---|--:|---|--:|---|"
)
DURATIONS = {
    "recovery": "recovery",
    "canceling": "cancel",
    "pickup": "lost entry",
    "leaving": "leaving",
    "accepting": "submissions back",
    "starting": "start",
}


def write(page: Path, rows: Sequence[FaultRow], done: Sequence[Figures], load: float) -> None:
    """Replace the table between the two marks of the page; `load` is that of other processes."""
    text = page.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    page.write_text(f"{before}{BEGIN}\n\n{table(rows, done, load)}\n\n{END}{after}")


def rewrite(page: Path, rows: Sequence[FaultRow], done: Sequence[Figures]) -> None:
    """Replace the lines of these rows in the page, or add them; the other lines stay."""
    text = page.read_text()
    before, rest = text.split(BEGIN, 1)
    body, after = rest.split(END, 1)
    lines = body.strip().splitlines()
    for row in rows:
        runs = [it for it in done if it.row == row.name]
        seeds = ", ".join(str(it.seed) for it in runs)
        line = _line(row, runs).removesuffix(" |") + (f", seed {seeds} |" if runs else " |")
        start = f"| `{row.name}` |"
        at = next((n for n, it in enumerate(lines) if it.startswith(start)), len(lines))
        lines[at : at + 1] = [line]
    page.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}")


def table(rows: Sequence[FaultRow], done: Sequence[Figures], load: float) -> str:
    """Return the rows as Markdown, the seeds of each taken together."""
    seeds = ", ".join(map(str, sorted({it.seed for it in done})))
    lines = [_line(row, [it for it in done if it.row == row.name]) for row in rows]
    facts = (
        f"Seeds {seeds}, added up; {os.cpu_count()} cores for everything; {load:.1f} processes "
        "of others were ready to run when it began."
    )
    return "\n".join([facts, "", HEAD, *lines])


def _line(row: FaultRow, runs: Sequence[Figures]) -> str:
    if not runs:
        cells = [row.obstacle or "not run in this form", "", "", "", "", ""]
    else:
        repeated = f"{sum(it.repeated for it in runs)} / {sum(it.in_hand for it in runs)}"
        cells = [
            _added(Counter(dict(it.statuses)) for it in runs),
            _added(_done_to(it) for it in runs) or "-",
            repeated,
            "<br>".join(_durations(runs)) or "-",
            _unavailable(runs),
            "kept" if all(it.is_kept for it in runs) else "<br>".join(_not_kept(runs)),
        ]
    return f"| `{row.name}` | {row.what} | {' | '.join(cells)} |"


def _done_to(it: Figures) -> Counter[str]:
    refused = {"calls refused": it.refused} if it.refused else {}
    return Counter({**it.faults, **refused})


def _added(counts: Iterator[Counter[str]]) -> str:
    total: Counter[str] = sum(counts, Counter())
    return ", ".join(f"{count:,} {name}" for name, count in total.items() if count)


def _durations(runs: Sequence[Figures]) -> Iterator[str]:
    for name, shown in DURATIONS.items():
        pooled = Seconds.of([second for it in runs for second in getattr(it, name).values])
        if pooled:
            yield f"{shown} {pooled}"
    for name in ("pace", "slowdown"):
        ratios = [ratio for it in runs for found, ratio in it.measured_ratios if found == name]
        if ratios:
            yield f"{name} {max(ratios):.2f}"


def _unavailable(runs: Sequence[Figures]) -> str:
    values = [second for it in runs for second in it.unavailable.values]
    return f"{len(values)}, {max(values):.1f} s" if values else "0"


def _not_kept(runs: Sequence[Figures]) -> Iterator[str]:
    for it in runs:
        for missed in it.missed:
            yield f"seed {it.seed}: {missed}"
        if it.broken:
            yield f"seed {it.seed}: {len(it.broken)} broken"
