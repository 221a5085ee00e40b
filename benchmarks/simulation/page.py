"""The cells as Markdown tables, and their place in docs/convergence.md."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.simulation.figures import THRESHOLD, Cell, Mean

BEGIN, END = "<!-- printed by the simulation: begin -->", "<!-- printed by the simulation: end -->"
PAGE = Path(__file__).parent.parent.parent / "docs" / "convergence.md"

HEAD = (
    "| critic | cap | quality: naive | Hone | gain | gain at equal calls | truly met: naive | Hone "
    "| gain | calls: naive | Hone | score too high by: naive | Hone | |"
)
RULE = "|---|" + "--:|" * 12 + "---|"


def rendered(cells: Sequence[Cell], seeds: range) -> str:
    """Return everything that the simulation prints."""
    facts = [
        f"- {len(seeds)} seeds a row, {seeds.start} to {seeds.stop - 1}; threshold {THRESHOLD}",
        f"- all {len(cells)} rows: {_counted(cells)}",
        f"- at equal calls: {_signs([cell.gain_at_equal_calls for cell in cells])}",
        f"- share that truly meets the threshold: {_signs([cell.met_gain for cell in cells])}",
    ]
    parts = ["\n".join(facts)]
    for reviser in dict.fromkeys(cell.reviser for cell in cells):
        rows = [_row(cell) for cell in cells if cell.reviser == reviser]
        parts.append("\n".join([f"Reviser: {reviser.name}", "", HEAD, RULE, *rows]))
    return "\n\n".join(parts)


def write(text: str) -> None:
    """Put it between the markers of docs/convergence.md."""
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


def _counted(cells: Sequence[Cell]) -> str:
    counts = Counter(cell.verdict for cell in cells)
    return ", ".join(f"{count} {what}" for what, count in counts.most_common())


def _signs(gains: Sequence[Mean]) -> str:
    counts = Counter(gain.sign for gain in gains)
    return f"{counts[1]} better, {counts[0]} even, {counts[-1]} worse"


def _row(cell: Cell) -> str:
    cells = [
        cell.critic.name,
        str(cell.cap),
        *[f"{quality:.3f}" for quality in cell.quality],
        _signed(cell.gain),
        _signed(cell.gain_at_equal_calls),
        *[f"{share:.1%}" for share in cell.truly_met],
        f"{cell.met_gain.value:+.1%} ± {cell.met_gain.margin:.1%}",
        *[f"{calls:.1f}" for calls in cell.calls],
        *[f"{excess:+.3f}" for excess in cell.overstated],
        cell.verdict,
    ]
    return f"| {' | '.join(cells)} |"


def _signed(mean: Mean) -> str:
    return f"{mean.value:+.3f} ± {mean.margin:.3f}"
