"""The figures about presets that learn are those that their benchmark prints."""

import re
from concurrent.futures import ProcessPoolExecutor

from benchmarks.learning import FIGURES, tables


def test_the_benchmark_prints_the_figures_that_the_page_names() -> None:
    """Other presets give other figures in the same lines."""
    printed = FIGURES.read_text().strip()
    with ProcessPoolExecutor(2) as processes:
        again = tables(2, processes)
    shown, _, by_gepa = printed.rpartition("\n\n")
    assert without_figures(again) == without_figures(shown)
    assert by_gepa.startswith("GEPA (")
    useless = next(line for line in shown.splitlines() if line.startswith("| +0.00"))
    assert all(float(share) <= 5 for share in re.findall(r"([0-9.]+) %", useless)[:3])


def without_figures(text: str) -> str:
    return re.sub(r"[+-]?[0-9]+(\.[0-9]+)?", "0", text)
