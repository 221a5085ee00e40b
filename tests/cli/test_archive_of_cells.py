"""`hone archive` with several cells: what another cell has is never taken for lost."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis
from typer.testing import Result

from app.queue import RefinementQueue
from app.store import open_store, open_worker_store
from app.store.redis import keys
from app.store.state import cell_coded_in
from tests.api.several_cells import CellGroup, several_cells
from tests.cli.conftest import Run
from tests.store.store_harness import TENANT
from tests.store.test_archive import archive_now
from tests.store.test_packing import succeeded
from tests.waiting import TIMEOUT_S

pytest.importorskip("obstore")

Command = Callable[..., Awaitable[Result]]
MONTH_S = 30 * 86_400
QUEUE = RefinementQueue("hone")


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[CellGroup]:
    """Return three cells with one object store."""
    archive = {"archive_url": f"file://{tmp_path / 'archive'}", "archive_after_s": 0}
    with several_cells(tmp_path / "redis", **archive) as found:
        for cell in (1, 2):
            found.command(cell, "SET", keys.FORMAT, keys.FIRST_RELEASE)
        yield found


async def archived(group: CellGroup, cell: int, count: int = 1) -> list[str]:
    settings, ids = group.settings.in_cell(cell), []
    async with (
        open_store(settings, QUEUE) as store,
        open_worker_store(settings, QUEUE, f"w{cell}") as worker,
        Redis.from_url(group.servers[cell].url, socket_timeout=TIMEOUT_S) as redis,
    ):
        for _ in range(count):
            held = await succeeded(store, worker)
            await archive_now(redis, worker, held.id)
            ids.append(held.id)
    return ids


def forget(group: CellGroup, refinement_id: str) -> None:
    cell = cell_coded_in(refinement_id)
    group.command(cell, "DEL", keys.SUMMARY + refinement_id)
    group.command(cell, "ZREM", keys.refinement_list(TENANT), refinement_id)


def objects(tmp_path: Path) -> dict[str, Path]:
    """Return the objects by id, all of which were written a month ago."""
    found = {it.parent.name: it for it in (tmp_path / "archive").glob("*/*/*/*")}
    for path in found.values():
        os.utime(path, (time.time() - MONTH_S,) * 2)
    return found


@pytest.fixture
def command(group: CellGroup, hone: Run) -> Command:
    """`hone archive` with the settings of all cells."""
    settings = group.settings
    assert settings.secret_key is not None
    where = {
        "HONE_REDIS_URL": settings.redis_url,
        "HONE_CELLS": str(settings.cells),
        "HONE_CELLS_URL": settings.cells_url,
        "HONE_ARCHIVE_URL": settings.archive_url,
        "HONE_SECRET_KEY": settings.secret_key.get_secret_value(),
    }

    async def run(*arguments: str, **more: str) -> Result:
        return await asyncio.to_thread(lambda: hone("archive", *arguments, **(where | more)))

    return run


async def test_an_object_whose_stub_is_in_another_cell_is_neither_listed_nor_deleted(
    group: CellGroup, tmp_path: Path, command: Command
) -> None:
    ids = await archived(group, 0, 100)
    shared = group.command(0, "HGET", keys.ARCHIVE, "installation")
    group.command(1, "HSET", keys.ARCHIVE, "installation", shared)
    ids += await archived(group, 1)
    ids += await archived(group, 2)
    forget(group, ids[0])
    before = objects(tmp_path)
    assert before.keys() == {*ids}
    checked = (await command("check")).stdout
    listed = [line for line in checked.splitlines() if line.startswith("  ")]
    assert listed == [f"  {before[ids[0]].relative_to(tmp_path / 'archive')}"] * 2
    assert (await command("check", "--delete")).exit_code == 0
    assert objects(tmp_path).keys() == {*ids[1:]}


async def test_nothing_is_listed_or_deleted_while_a_cell_is_away_or_not_named(
    group: CellGroup, tmp_path: Path, command: Command
) -> None:
    ids = [*await archived(group, 0), *await archived(group, 1)]
    forget(group, ids[0])
    alone = {"HONE_CELLS": "1", "HONE_CELLS_URL": ""}
    for arguments in (("check", "--delete"), ("restore",)):
        refused = await command(*arguments, **alone)
        assert (refused.exit_code, "cell 1" in refused.stderr) == (1, True)
    group.servers[2].stop()
    for arguments in (("check", "--delete"), ("restore",)):
        refused = await command(*arguments)
        assert (refused.exit_code, "cell 2 is away" in refused.stderr) == (1, True)
    assert objects(tmp_path).keys() == {*ids}


async def test_what_is_lost_comes_back_in_the_cell_of_its_id(
    group: CellGroup, tmp_path: Path, command: Command
) -> None:
    ids = [*await archived(group, 0), *await archived(group, 1), *await archived(group, 2)]
    assert [*map(cell_coded_in, ids)] == [0, 1, 2]
    for refinement_id in ids:
        forget(group, refinement_id)
    assert "restored: 3 refinements" in (await command("restore")).stdout
    for refinement_id in ids:
        has = [group.command(n, "EXISTS", keys.SUMMARY + refinement_id) for n in range(3)]
        assert has == [n == cell_coded_in(refinement_id) for n in range(3)]
    assert "without a stub: 1" not in (await command("check")).stdout
