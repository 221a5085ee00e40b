"""python -m benchmarks.simulation [--seeds tuning] [--write]: compare Hone with the naive loop.

Every reviser, critic and cap takes about a minute and a half on one core. `--write` puts the
results of the held-out seeds into docs/convergence.md.
"""

import argparse

from benchmarks.simulation.figures import CAPS, HELD_OUT, TUNING, simulated
from benchmarks.simulation.page import rendered, write
from benchmarks.simulation.world import CRITICS, REVISERS

SEEDS = {"held-out": HELD_OUT, "tuning": TUNING}


def main() -> None:
    """Simulate every cell, print the tables and, when asked, write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", choices=SEEDS, default="held-out")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.write and arguments.seeds != "held-out":
        parser.error("only held-out seeds are reported")
    seeds = SEEDS[arguments.seeds]
    cells = [
        simulated(reviser, critic, cap, seeds)
        for reviser in REVISERS
        for critic in CRITICS
        for cap in CAPS
    ]
    text = rendered(cells, seeds)
    print(text)
    if arguments.write:
        write(text)


if __name__ == "__main__":
    main()
