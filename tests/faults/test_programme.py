"""The short form of the fault programme: a few rows, one seed, and what it writes."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.faults import nemeses
from tests.faults.checker import Expected
from tests.faults.figures import Figures, Seconds
from tests.faults.nemeses import Nemesis
from tests.faults.report import BEGIN, END, PAGE, rewrite, write
from tests.faults.rows import ROWS, FaultRow, run, undisturbed

pytestmark = pytest.mark.long


def short(name: str, nemesis: Nemesis) -> FaultRow:
    row = ROWS[name]
    setup = replace(row.setup, latency_s=(0.1, 0.3))
    return replace(row, nemesis=nemesis, refinements=12, seconds=3.0, canceled=0.3, setup=setup)


SHORT = (
    short("all", nemeses.kill_each),
    short("resets", nemeses.resets(8)),
    short("cells-kills", nemeses.kills_cell(1, times=1)),
)


@pytest.fixture(scope="module")
def expected() -> Expected:
    return asyncio.run(undisturbed())


@pytest.mark.parametrize("row", SHORT, ids=lambda row: row.name)
async def test_every_promise_is_kept(row: FaultRow, expected: Expected) -> None:
    figures = await run(row, 1, expected)
    assert figures.broken == ()
    assert sum(figures.statuses.values()) == row.refinements


def figures(row: str, **changes: Any) -> Figures:
    return replace(
        Figures(
            row=row,
            seed=1,
            statuses={"succeeded": 200},
            faults={"workers killed": 50},
            repeated=3,
            in_hand=5,
            recovery=Seconds.of([5.0, 6.0]),
            unavailable=Seconds.of([0.5]),
            goals={"recovery": 7.0},
        ),
        **changes,
    )


def test_percentiles_are_values_that_were_measured() -> None:
    seconds = Seconds.of([3.0, 1.0, 2.0])
    assert [seconds.percentile(it) for it in (1, 50, 99)] == [1.0, 2.0, 3.0]


def test_a_missed_goal_is_a_broken_promise() -> None:
    assert figures("kills").is_kept
    assert not figures("kills", recovery=Seconds.of([5.0, 8.0])).is_kept
    assert not figures("kills", broken=("a gap",)).is_kept


def test_the_table_adds_the_seeds_up_and_names_what_did_not_run(tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
    page.write_text(PAGE.read_text())
    runs = [figures("kills"), figures("kills", seed=2, recovery=Seconds.of([9.0]))]
    rows = [ROWS["kills"], replace(ROWS["clock"], needs="tests.missing")]
    write(page, rows, runs, 0.1)
    write(page, rows, runs, 0.1)
    table = page.read_text().split(BEGIN)[1].split(END)[0]
    kills, clock = [line for line in table.splitlines() if line.startswith("| `")]
    assert "| 400 succeeded | 100 workers killed | 6 / 10 | recovery 6.0 / 9.0 / 9.0 s |" in kills
    assert "| 2, 0.5 s | seed 2: recovery p99 9.0 s, promised 7 s |" in kills
    assert "there is no tests.missing" in clock


def test_the_lines_of_some_rows_are_replaced_and_the_others_stay(tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
    page.write_text(PAGE.read_text())
    rows = [ROWS["kills"], ROWS["serve"]]
    write(page, rows, [figures("kills"), figures("serve")], 0.1)
    rewrite(page, [ROWS["serve"], ROWS["rate-limit"]], [figures("serve", seed=7)])
    table = page.read_text().split(BEGIN)[1].split(END)[0]
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in lines] == ["kills", "serve", "rate-limit"]
    assert lines[0].endswith("| kept |")
    assert lines[1].endswith("| kept, seed 7 |")


def test_the_page_names_every_row() -> None:
    promised = (PAGE.parents[1] / "reliability.md").read_text()
    named = {name for name in ROWS if f"`{name}`" in promised}
    assert ROWS.keys() - named == {"none", "all", "stops", "api"}
