"""Renders the cells as Markdown tables, and writes them into docs/convergence.md."""

from collections import Counter
from collections.abc import Callable, Sequence
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
PAGE = Path(__file__).parent.parent.parent / "docs" / "convergence.md"

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
    "critic",
    "cap",
    "quality: naive",
    "gain: no history",
    f"{PAST} past",
    "truly met: naive",
    "no history",
    f"{PAST} past",
    "calls: naive",
    "no history",
    f"{PAST} past",
    "score too high by: naive",
    f"{PAST} past",
    "no history is",
    f"{PAST} past is",
)


def rendered(cells: Sequence[Cell], seeds: range, cost_ms: float) -> str:
    """Return the output of the simulation."""
    parts = [
        f"Seeds from {seeds.start}. A judged draft costs the rule {cost_ms:.3f} ms.",
        _summary(cells),
        _calibrated([cell for cell in cells if cell.world != "samples"]),
    ]
    shown = [world for world in WORLDS if world not in BESIDE.values()]
    for world in shown:
        mine = [cell for cell in cells if cell.world == world]
        if mine:
            seeds_each = len(mine[0].naive.results)
            parts.append(f"## {WORLDS[world]}\n\n{len(mine)} rows of {seeds_each} seeds.")
            for reviser in dict.fromkeys(cell.reviser for cell in mine):
                rows = [
                    _row(cell, _beside(cell, cells)) for cell in mine if cell.reviser == reviser
                ]
                parts.append(f"Reviser: {reviser}.\n\n{_table(_columns(world), rows)}")
    return "\n\n".join(parts)


def write(text: str) -> None:
    """Put the text between the markers of docs/convergence.md."""
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


def _summary(cells: Sequence[Cell]) -> str:
    """Return how each policy does against the naive loop in each world."""
    rows = []
    for world, title in WORLDS.items():
        mine = [cell for cell in cells if cell.world == world]
        for name, arm_of in ARMS.items():
            arms = [arm_of(cell) for cell in mine]
            pairs = [(arm, it) for arm, it in zip(arms, mine, strict=True) if arm is not None]
            if pairs:
                rows.append([title, name, *_figures(pairs)])
    names = ("better", "dearer", "even", "worse", "mean gain", "worst row", "calls", "at most")
    return _table(("world", "policy", *names), rows, left=2)


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


def _calibrated(cells: Sequence[Cell]) -> str:
    """Return what became of the estimates of the drafts that were returned."""
    named = {
        title: [it.learnt for it in cells if it.world == world] for world, title in WORLDS.items()
    }
    arms = [cell.learnt for cell in cells]
    found = {title: Reported.of(mine) for title, mine in (named | {"All": arms}).items() if mine}
    names = ("world", "reported", "mean chance", "truly met", "within two errors")
    shares = [[title, *_reported(it)] for title, it in found.items()]
    columns = ("chance", "drafts", "mean chance", "truly met", "drafts at its own", "truly met")
    own = {it.low: it for it in calibrations(arms, (THRESHOLD,))}
    every = calibrations(arms, THRESHOLDS)
    rows = [_calibration(it, own.get(it.low)) for it in every]
    title = f"## Estimates after {PAST} refinements"
    return "\n\n".join([title, _table(names, shares), _table(columns, rows)])


def _reported(it: Reported | None) -> list[str]:
    if it is None:
        return ["0.0%", "-", "-", "-"]
    return [f"{share:.1%}" for share in (it.share, it.promised, it.met, it.covered)]


def _calibration(it: Calibration, own: Calibration | None) -> list[str]:
    at_own = ["0", "-"] if own is None else [str(own.count), f"{own.met:.1%}"]
    return [
        f"{it.low:.1f} to {it.high:.1f}",
        str(it.count),
        f"{it.promised:.1%}",
        f"{it.met:.1%}",
        *at_own,
    ]


def _columns(world: str) -> Sequence[str]:
    if world not in BESIDE:
        return COLUMNS
    return (*COLUMNS, f"{WORLDS[BESIDE[world]].lower()}, {PAST} past")


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
        cell.critic,
        str(cell.cap),
        f"{naive.quality:.3f}",
        *[_signed(arm.gain_over(naive)) for arm in arms],
        *[f"{arm.truly_met:.1%}" for arm in (naive, fresh, learnt)],
        *[f"{arm.calls:.1f}" for arm in (naive, fresh, learnt)],
        *[f"{arm.overstated:+.3f}" for arm in (naive, learnt)],
        *[arm.verdict_against(naive) for arm in (fresh, learnt)],
        *_lowest(beside),
    ]


def _lowest(cells: Sequence[Cell]) -> list[str]:
    """Return the lowest gain of these rows and what they are by it; nothing for no rows."""
    found = [(it.learnt.gain_over(it.naive), it.learnt.verdict_against(it.naive)) for it in cells]
    if not found:
        return []
    gain, verdict = min(found, key=lambda it: it[0].value)
    return [f"{_signed(gain)}, {verdict}"]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    rule = "|" + "---|" * left + "--:|" * (len(columns) - left)
    lines = [f"| {' | '.join(columns)} |", rule, *[f"| {' | '.join(row)} |" for row in rows]]
    return "\n".join(lines)


def _signed(mean: Mean) -> str:
    return f"{mean.value:+.3f} ± {mean.margin:.3f}"
