"""`make faults`: the rows of the fault programme, one line of figures for each row and seed.

python -m tests.faults [ROW ...] [--seeds 1,2,3] [--refinements N] [--write] [--list]
"""

import argparse
import asyncio
import os
import signal
import sys
import traceback
from pathlib import Path

from tests.faults.figures import Figures
from tests.faults.report import PAGE, rewrite, write
from tests.faults.rows import ROWS, FaultRow, run, undisturbed


async def programme(
    rows: list[FaultRow], seeds: list[int], refinements: int, logs: Path | None, *, verbose: bool
) -> list[Figures]:
    """Run each row with each seed, and print a line as soon as one is done."""
    expected = await undisturbed()
    done = []
    for row in rows:
        if obstacle := row.obstacle:
            print(f"{row.name:<14} skipped: {obstacle}", flush=True)
            continue
        for seed in seeds:
            try:
                done.append(await run(row, seed, expected, refinements, logs))
            except Exception as error:  # noqa: BLE001 - the other rows are run all the same
                traceback.print_exception(error)
                done.append(Figures(row.name, seed, broken=(f"the row ended with {error!r}",)))
            print(done[-1].line, flush=True)
            for wrong in done[-1].broken if verbose else ():
                print(f"    {wrong}", flush=True)
    return done


def main() -> int:
    """Run the rows; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--refinements", type=int, default=0, help="instead of each row's own")
    parser.add_argument("--list", action="store_true", help="list the rows and run none")
    parser.add_argument("--logs", type=Path, help="a directory that keeps the processes' logs")
    parser.add_argument("--verbose", action="store_true", help="print everything that is broken")
    parser.add_argument("--write", action="store_true", help=f"write the table in {PAGE.name}")
    given = parser.parse_args()
    if unknown := set(given.rows) - ROWS.keys():
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    rows = [ROWS[name] for name in given.rows or ROWS]
    if given.list:
        print("\n".join(f"{row.name:<14} {row.what}" for row in rows))
        return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    load = os.getloadavg()[0]
    seeds = [*map(int, given.seeds.split(","))]
    try:
        done = asyncio.run(
            programme(rows, seeds, given.refinements, given.logs, verbose=given.verbose)
        )
    except KeyboardInterrupt:
        print("interrupted: nothing is left running")
        return 130
    if given.write and given.rows:
        rewrite(PAGE, rows, done)
    elif given.write:
        write(PAGE, rows, done, load)
    return 0 if all(it.is_kept for it in done) else 1


if __name__ == "__main__":
    sys.exit(main())
