"""Repairs broken JSON documents by `self_correction` with the editor: no model, no network.

    python -m benchmarks.json_repair > docs/data/json-repair.txt

A seeded generator writes documents that satisfy a schema and breaks each with one to four named
faults. A repair succeeds if the result satisfies the schema and has every original value.
"""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from random import Random

from app.contract.requests import RefinementRequest
from benchmarks.broken_json import SCHEMA, Broken, broken
from benchmarks.playing import StrategyPlayer
from workers.engine.search import Outcome
from workers.model_registry import Editor
from workers.validators.violation import Body

SEED, DOCUMENTS = 3, 50


@dataclass(frozen=True)
class Mended:
    """One document and the outcome of its repair."""

    broken: Broken
    outcome: Outcome

    @property
    def is_valid(self) -> bool:
        """Whether it is JSON without duplicate names and satisfies its schema."""
        return self.outcome.best.scored.score == 1.0

    @property
    def keeps_values(self) -> bool:
        """Whether every value is the same as before the document was broken."""
        try:
            body = Body(self.outcome.best.scored.draft.text).text
            return bool(json.loads(body) == self.broken.original)
        except json.JSONDecodeError:
            return False


async def mended(document: Broken) -> Mended:
    """Play the strategy against the real validators and the real editor."""
    request = RefinementRequest.model_validate(
        {
            "draft": document.text,
            "strategy": {"kind": "self_correction"},
            "validators": [{"kind": "json"}, {"kind": "json_schema", "schema": SCHEMA}],
        }
    )
    return Mended(document, await StrategyPlayer(request, Editor()).play())


async def all_mended(seed: int, documents: int) -> list[Mended]:
    """Generate the documents of a seed and repair them one after another."""
    random = Random(seed)
    return [await mended(broken(random)) for _ in range(documents)]


def report(done: list[Mended], seed: int) -> str:
    """Return the figures as Markdown."""
    faults = Counter(fault for it in done for fault in it.broken.faults)
    valid = [it for it in done if it.is_valid]
    lines = [
        f"Of {len(done)} broken documents (seed {seed}, {sum(faults.values())} faults,",
        f"{len(faults)} different ones), {len(valid)} satisfy their schema afterwards and",
        f"{sum(it.keeps_values for it in done)} have every value they had before.",
        "",
        "| fault | documents with it | satisfy their schema | keep every value |",
        "|---|---:|---:|---:|",
    ]
    for fault, count in sorted(faults.items()):
        having = [it for it in done if fault in it.broken.faults]
        lines.append(
            f"| {fault} | {count} | {sum(it.is_valid for it in having)}"
            f" | {sum(it.keeps_values for it in having)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the figures."""
    figures = report(asyncio.run(all_mended(SEED, DOCUMENTS)), SEED)
    more = report(asyncio.run(all_mended(SEED + 1, 20 * DOCUMENTS)), SEED + 1).split("\n\n")[0]
    print(f"{more}\n\n{figures}")


if __name__ == "__main__":
    main()
