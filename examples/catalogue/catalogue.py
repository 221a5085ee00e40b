"""Refine the rows of a CSV file in one batch, and print them as CSV again.

    .venv/bin/python examples/catalogue/catalogue.py examples/catalogue/products.csv > better.csv

Each row is a draft that is an object: its columns stay, and those of LOCKED keep their values.
HONE_SERVER is the address of the server. A row that failed is printed as it was; nothing is
submitted if the file has a row with other columns, or lacks one of LOCKED.
"""

import csv
import io
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from hone import Hone
from hone.params import RefinementRequest

LOCKED = ["/sku", "/price"]
SHARED: RefinementRequest = {
    "task": "Rows of a shop's catalogue. Make `text` one or two plain sentences for customers.",
    "criteria": [
        {"name": "text", "description": "/text is plain, correct and not longer than needed."},
        {"name": "facts", "description": "No fact is new, and none is lost.", "floor": 0.8},
    ],
}


def rows_of(content: bytes) -> list[dict[str, Any]]:
    """Return the rows of a CSV file in UTF-8; exit, and say why, if they cannot be submitted."""
    try:
        read = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    except UnicodeDecodeError:
        sys.exit("the file is not UTF-8 text: save it as CSV UTF-8")
    columns, *rows = [cells for cells in read if cells] or [[]]
    if missing := [pointer for pointer in LOCKED if columns.count(pointer[1:]) != 1]:
        sys.exit(f"the first line needs one column {missing[0][1:]}: {', '.join(columns)}")
    for number, cells in enumerate(rows, 1):
        if len(cells) != len(columns):
            sys.exit(f"row {number} has {len(cells)} cells, not {len(columns)}: {cells}")
    if not rows or len({*columns}) < len(columns):
        sys.exit("the file needs rows, and columns of different names")
    return [dict(zip(columns, cells, strict=True)) for cells in rows]


def main(path: str) -> None:
    """Submit all rows, wait, and print what came of each."""
    content = Path(path).read_bytes()
    rows = rows_of(content)
    requests = [RefinementRequest(draft=row, locked=LOCKED) for row in rows]
    with Hone() as client:
        key = sha256(content).hexdigest()  # run again, it finds the same batch
        batch = client.batch(requests, defaults=SHARED, idempotency_key=key)
        for error in batch.errors:
            print(f"line {error.line}: {error.error.detail}", file=sys.stderr)
        client.wait_for_batch(batch)
        for found in client.batch_results(batch):
            result = found.refinement and found.refinement.result
            if result and result.object and found.custom_id:
                rows[int(found.custom_id)] = result.object
    written = csv.DictWriter(sys.stdout, rows[0].keys(), "", "ignore", lineterminator="\n")
    written.writeheader()
    written.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1])
