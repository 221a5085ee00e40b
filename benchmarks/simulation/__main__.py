"""python -m benchmarks.simulation [--seeds tuning] [--count 100] [--write]: compare policies.

Every reviser, critic and cap takes half an hour of processor time; `--count` plays fewer seeds, and
`--only WORDS` the rows with these words in their name, with all seeds. With `--write` the results
of the held-out seeds go into docs/data and docs/judging.md.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from time import process_time

from benchmarks.simulation.figures import (
    HELD_OUT,
    TUNING,
    WIDE_SEEDS,
    played,
    programs,
    samples,
    wider,
    wrong,
    yardstick,
)
from benchmarks.simulation.page import one_row, short, tables, write
from workers.engine.quality import QualityFilter

SEEDS = {"held-out": HELD_OUT, "tuning": TUNING}
TIMED = 500
"""Chains of eight drafts whose cost is measured."""


def cost_ms() -> float:
    """Return the milliseconds of processor time that the rule takes for a judged draft."""
    begun = process_time()
    for number in range(TIMED):
        quality, base = QualityFilter(), "0"
        quality.add(base, 0.5)
        for path in "1234567":
            quality.add(path, 0.5 + (number * int(path) % 37) / 100, base)
            base = path if quality.keeps(path, base) else base
        quality.lesson()
    return 1000 * (process_time() - begun) / (8 * TIMED)


def main() -> None:
    """Simulate every cell, print the short table and, when asked, write all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", choices=SEEDS, default="held-out")
    parser.add_argument("--count", type=int, default=len(HELD_OUT))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("only all rows are written")
    if arguments.write and arguments.seeds != "held-out":
        parser.error("only held-out seeds are reported")
    seeds = SEEDS[arguments.seeds][: arguments.count]
    fewer = seeds if arguments.only else seeds[:WIDE_SEEDS]
    masked = programs(fewer, is_masking=True)
    specs = [*yardstick(seeds), *wider(fewer), *wrong(fewer), *programs(fewer), *masked]
    specs += samples(fewer)
    chosen = [it for it in specs if arguments.only in it.name]
    with ProcessPoolExecutor() as processes:
        cells = list(processes.map(played, chosen))
    if arguments.only:
        print("\n".join(one_row(cell) for cell in cells))
        return
    figures, cost = tables(cells), cost_ms()
    print(short(figures["policies"], cost))
    if arguments.write:
        write(figures, cost)


if __name__ == "__main__":
    main()
