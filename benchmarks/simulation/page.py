"""Renders the cells as tables: files in docs/data, and a short one in docs/judging.md."""

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.simulation.figures import (
    FEWER,
    PAST,
    THRESHOLD,
    THRESHOLDS,
    Arm,
    Calibration,
    Cell,
    Mean,
    Reported,
    calibrations,
)

BEGIN, END = "<!-- printed by the simulation: begin -->", "<!-- printed by the simulation: end -->"
DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE, DATA = DOCS / "judging.md", DOCS / "data"

ARMS: dict[str, Callable[[Cell], Arm | None]] = {
    "the rule, no history": lambda cell: cell.fresh,
    f"the rule, {PAST} past refinements": lambda cell: cell.learnt,
    f"tolerance 0.15, {FEWER} seeds": lambda cell: cell.tolerant,
    f"highest score, plateau of two, {FEWER} seeds": lambda cell: cell.strict,
    "reviser and critic known": lambda cell: cell.informed,
}
WORLDS = {
    "yardstick": "The yardstick",
    "wider": "Wider rows",
    "wrong": "Wrong history",
    "programs": "Programs with injected faults",
    "masked": "Masked faults",
    "samples": "Samples side by side",
}
BESIDE = {"yardstick": "wrong", "programs": "masked"}
"""Worlds whose rows are a column of the rows of another: the lowest gain after `PAST`."""
COLUMNS = (
    *("world", "reviser", "critic", "cap", "quality naive"),
    *("gain no history", "margin no history", f"gain {PAST} past", f"margin {PAST} past"),
    *("met naive", "met no history", f"met {PAST} past"),
    *("calls naive", "calls no history", f"calls {PAST} past"),
    *("too high naive", f"too high {PAST} past", "no history is", f"{PAST} past is"),
    *("beside gain", "beside margin", "beside is"),
)
"""Columns of a row; the last three are of the worlds beside its own."""
SUMMARY = (
    *("world", "policy", "better", "dearer", "even", "worse"),
    *("mean gain", "worst row", "calls", "at most"),
)
SHARES = (
    *("world", "reported", "mean chance", "truly met", "within two errors"),
    *("chance shown", "mean chance shown", "truly met where shown"),
)
"""The last three are of results after 30 that a person scored."""
CHANCES = (
    *("chance", "drafts", "mean chance", "truly met"),
    *("drafts at its own", "truly met at its own"),
)


@dataclass(frozen=True, slots=True)
class Table:
    """The figures of a file in docs/data."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(cells: Sequence[Cell]) -> dict[str, Table]:
    """Return all tables of the simulation by the name of their file."""
    shares, chances = _calibrated([cell for cell in cells if cell.world != "samples"])
    shown = [cell for cell in cells if cell.world not in BESIDE.values()]
    return {
        "policies": Table(SUMMARY, _summary(cells)),
        "estimates-by-world": Table(SHARES, shares),
        "estimates": Table(CHANCES, chances),
        "convergence": Table(COLUMNS, [_row(cell, _beside(cell, cells)) for cell in shown]),
    }


def write(figures: Mapping[str, Table], cost_ms: float) -> None:
    """Write the tables to docs/data, and the short one between the markers of docs/judging.md."""
    DATA.mkdir(exist_ok=True)
    for name, table in figures.items():
        with (DATA / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([table.columns, *table.rows])
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    text = short(figures["policies"], cost_ms)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


def short(policies: Table, cost_ms: float) -> str:
    """Return what the page shows: the rule with a history, in each world."""
    rows = [
        [row[0], *row[2:]]
        for row in policies.rows
        if row[1] == f"the rule, {PAST} past refinements"
    ]
    columns = [SUMMARY[0], *SUMMARY[2:]]
    return f"{_table(columns, rows)}\n\nA judged draft costs the rule {cost_ms:.3f} ms."


def one_row(cell: Cell) -> str:
    """Return the gains of a row in a line, and what became of its chances."""
    naive, fresh, learnt = cell.naive, cell.fresh, cell.learnt
    gains = (fresh.gain_over(naive), learnt.gain_over(naive), learnt.gain_over(fresh))
    said = [" ± ".join(_signed(it)) for it in gains]
    return (
        f"{cell.world}, {cell.reviser}, {cell.critic}, cap {cell.cap}: no history {said[0]}, {PAST}"
        f" past {said[1]}, by the history {said[2]}; {', '.join(_reported(Reported.of([learnt])))}"
    )


def _summary(cells: Sequence[Cell]) -> list[list[str]]:
    """Return how each policy does against the naive loop in each world."""
    rows = []
    for world, title in WORLDS.items():
        mine = [cell for cell in cells if cell.world == world]
        for name, arm_of in ARMS.items():
            arms = [arm_of(cell) for cell in mine]
            pairs = [(arm, it) for arm, it in zip(arms, mine, strict=True) if arm is not None]
            if pairs:
                rows.append([title, name, *_figures(pairs)])
    return rows


def _figures(pairs: Sequence[tuple[Arm, Cell]]) -> list[str]:
    """Return how a policy does against the naive loop, over the cells of a world."""
    naives = [cell.naive.first(len(arm.results)) for arm, cell in pairs]
    verdicts = Counter(arm.verdict_against(cell.naive) for arm, cell in pairs)
    gains = [arm.gain_over(cell.naive).value for arm, cell in pairs]
    calls = [arm.calls / its.calls for (arm, _), its in zip(pairs, naives, strict=True)]
    share = sum(arm.calls for arm, _ in pairs) / sum(it.calls for it in naives)
    return [
        *[str(verdicts[it]) for it in ("better", "better, dearer", "even", "worse")],
        f"{fmean(gains):+.3f}",
        f"{min(gains):+.3f}",
        f"{share:.2f}",
        f"{max(calls):.2f}",
    ]


def _calibrated(cells: Sequence[Cell]) -> tuple[list[list[str]], list[list[str]]]:
    """Return what became of the estimates of the returned drafts: by world, and by chance."""
    named = {
        title: [it.learnt for it in cells if it.world == world] for world, title in WORLDS.items()
    }
    arms = [cell.learnt for cell in cells]
    found = {title: Reported.of(mine) for title, mine in (named | {"All": arms}).items() if mine}
    shares = [[title, *_reported(it)] for title, it in found.items()]
    own = {it.low: it for it in calibrations(arms, (THRESHOLD,))}
    return shares, [_calibration(it, own.get(it.low)) for it in calibrations(arms, THRESHOLDS)]


def _reported(it: Reported | None) -> list[str]:
    if it is None:
        return ["0.0%", *["-"] * 6]
    shown = it.chances
    held = ["0.0%", "-", "-"]
    if shown is not None:
        held = [f"{share:.1%}" for share in (shown.share, shown.promised, shown.met)]
    return [*[f"{share:.1%}" for share in (it.share, it.promised, it.met, it.covered)], *held]


def _calibration(it: Calibration, own: Calibration | None) -> list[str]:
    at_own = ["0", "-"] if own is None else [str(own.count), f"{own.met:.1%}"]
    return [
        f"{it.low:.1f} to {it.high:.1f}",
        str(it.count),
        f"{it.promised:.1%}",
        f"{it.met:.1%}",
        *at_own,
    ]


def _beside(cell: Cell, cells: Sequence[Cell]) -> list[Cell]:
    """Return the rows that are a column of this one: of its reviser, its critic and its cap."""
    key = (BESIDE.get(cell.world), cell.reviser, cell.critic, cell.cap)
    return [
        it for it in cells if (it.world, it.reviser.partition(",")[0], it.critic, it.cap) == key
    ]


def _row(cell: Cell, beside: Sequence[Cell]) -> list[str]:
    naive, fresh, learnt = cell.naive, cell.fresh, cell.learnt
    arms = (fresh, learnt)
    return [
        WORLDS[cell.world],
        cell.reviser,
        cell.critic,
        str(cell.cap),
        f"{naive.quality:.3f}",
        *_signed(fresh.gain_over(naive)),
        *_signed(learnt.gain_over(naive)),
        *[f"{arm.truly_met:.1%}" for arm in (naive, fresh, learnt)],
        *[f"{arm.calls:.1f}" for arm in (naive, fresh, learnt)],
        *[f"{arm.overstated:+.3f}" for arm in (naive, learnt)],
        *[arm.verdict_against(naive) for arm in arms],
        *_lowest(beside),
    ]


def _lowest(cells: Sequence[Cell]) -> list[str]:
    """Return the lowest gain of these rows and what they are by it; empty cells for no rows."""
    found = [(it.learnt.gain_over(it.naive), it.learnt.verdict_against(it.naive)) for it in cells]
    if not found:
        return ["", "", ""]
    gain, verdict = min(found, key=lambda it: it[0].value)
    return [*_signed(gain), verdict]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = "|---|" + "--:|" * (len(columns) - 1)
    lines = [f"| {' | '.join(columns)} |", rule, *[f"| {' | '.join(row)} |" for row in rows]]
    return "\n".join(lines)


def _signed(mean: Mean) -> list[str]:
    return [f"{mean.value:+.3f}", f"{mean.margin:.3f}"]
