"""Renders the cells as Markdown tables, and writes them into docs/convergence.md."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.simulation.figures import Cell, Mean

BEGIN, END = "<!-- printed by the simulation: begin -->", "<!-- printed by the simulation: end -->"
PAGE = Path(__file__).parent.parent.parent / "docs" / "convergence.md"

COLUMNS = (
    "critic",
    "cap",
    "quality: naive",
    "Hone",
    "gain",
    "at equal calls",
    "plateau off",
    "tolerant",
    "tolerant, at equal calls",
    "truly met: naive",
    "Hone",
    "gain",
    "calls: naive",
    "Hone",
    "plateau off",
    "tolerant",
    "score too high by: naive",
    "Hone",
    "",
)
HEAD = f"| {' | '.join(COLUMNS)} |"
RULE = "|---|" + "--:|" * (len(COLUMNS) - 2) + "---|"


def rendered(cells: Sequence[Cell], seeds: range) -> str:
    """Return the output of the simulation."""
    facts = [
        f"- {len(cells)} rows of {len(seeds)} seeds, {seeds.start} to {seeds.stop - 1}",
        f"- as shipped: {_counted([it.hone.verdict_against(it.naive) for it in cells])}",
        f"- at equal calls: {_signs([it.hone.gain_over(it.matched) for it in cells])}",
        f"- plateau off: {_counted([it.patient.verdict_against(it.naive) for it in cells])}",
        f"- tolerant: {_counted([it.tolerant.verdict_against(it.naive) for it in cells])}",
        f"- tolerant, at equal calls: {_tolerant_at_equal_calls(cells)}",
        f"- mean over the rows: {_means(cells)}",
        f"- truly met, as shipped: {_signs([it.hone.met_gain_over(it.naive) for it in cells])}",
        f"- truly met, plateau off: {_signs([it.patient.met_gain_over(it.naive) for it in cells])}",
    ]
    parts = ["\n".join(facts)]
    for reviser in dict.fromkeys(cell.reviser for cell in cells):
        mine = [cell for cell in cells if cell.reviser == reviser]
        title = f"Reviser: {reviser.name}. {_of_reviser(mine)}"
        parts.append("\n".join([title, "", HEAD, RULE, *[_row(cell) for cell in mine]]))
    return "\n\n".join(parts)


def write(text: str) -> None:
    """Put the text between the markers of docs/convergence.md."""
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


def _of_reviser(cells: Sequence[Cell]) -> str:
    return (
        f"As shipped: {_counted([it.hone.verdict_against(it.naive) for it in cells])}. "
        f"At equal calls: {_signs([it.hone.gain_over(it.matched) for it in cells])}. "
        f"Plateau off: {_counted([it.patient.verdict_against(it.naive) for it in cells])}. "
        f"Tolerant: {_counted([it.tolerant.verdict_against(it.naive) for it in cells])}; "
        f"at equal calls: {_tolerant_at_equal_calls(cells)}."
    )


def _means(cells: Sequence[Cell]) -> str:
    """Return mean gains over the naive loop, and the share of its calls that were spent."""
    spent = fmean(it.naive.calls for it in cells)

    def told(name: str, gains: Sequence[Mean], calls: Sequence[float]) -> str:
        gain, share = fmean(it.value for it in gains), fmean(calls) / spent
        return f"{name} {gain:+.3f} for {share:.0%} of the calls"

    ours = [it.hone.gain_over(it.naive) for it in cells]
    equal = fmean(it.hone.gain_over(it.matched).value for it in cells)
    patient = [it.patient.gain_over(it.naive) for it in cells]
    tolerant = [it.tolerant.gain_over(it.naive) for it in cells]
    shown = (
        told("as shipped", ours, [it.hone.calls for it in cells]),
        f"at equal calls {equal:+.3f}",
        told("plateau off", patient, [it.patient.calls for it in cells]),
        told("tolerant", tolerant, [it.tolerant.calls for it in cells]),
    )
    return "; ".join(shown)


def _tolerant_at_equal_calls(cells: Sequence[Cell]) -> str:
    return _signs([it.tolerant.gain_over(it.tolerant_matched) for it in cells])


def _counted(verdicts: Sequence[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in Counter(verdicts).most_common())


def _signs(gains: Sequence[Mean]) -> str:
    return _counted([("even", "better", "worse")[gain.sign] for gain in gains])


def _row(cell: Cell) -> str:
    naive, hone, patient, tolerant = cell.naive, cell.hone, cell.patient, cell.tolerant
    met_gain = hone.met_gain_over(naive)
    cells = [
        cell.critic.name,
        str(cell.cap),
        *[f"{arm.quality:.3f}" for arm in (naive, hone)],
        *[_signed(hone.gain_over(arm)) for arm in (naive, cell.matched)],
        _signed(patient.gain_over(naive)),
        _signed(tolerant.gain_over(naive)),
        _signed(tolerant.gain_over(cell.tolerant_matched)),
        *[f"{arm.truly_met:.1%}" for arm in (naive, hone)],
        f"{met_gain.value:+.1%} ± {met_gain.margin:.1%}",
        *[f"{arm.calls:.1f}" for arm in (naive, hone, patient, tolerant)],
        *[f"{arm.overstated:+.3f}" for arm in (naive, hone)],
        hone.verdict_against(naive),
    ]
    return f"| {' | '.join(cells)} |"


def _signed(mean: Mean) -> str:
    return f"{mean.value:+.3f} ± {mean.margin:.3f}"
