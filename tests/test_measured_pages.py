"""What the pages say that the offline editor does is what it does."""

from pathlib import Path

from benchmarks.examples import page
from benchmarks.json_repair import DOCUMENTS, SEED, all_mended, report

DOCS = Path(__file__).parent.parent / "docs"


async def test_the_page_of_all_strategies_is_what_they_come_to() -> None:
    text, steps = await page()
    assert (DOCS / "strategies.md").read_text() == text
    assert (DOCS / "data" / "steps.txt").read_text() == steps


async def test_of_fifty_broken_documents_none_loses_a_value_by_its_repair() -> None:
    done = await all_mended(SEED, DOCUMENTS)
    assert len(done) == 50
    assert len({fault for it in done for fault in it.broken.faults}) >= 10
    assert sum(it.is_valid for it in done) >= 20
    assert [it.broken.faults for it in done if it.is_valid and not it.keeps_values] == []
    assert report(done, SEED) in (DOCS / "data" / "json-repair.txt").read_text()
