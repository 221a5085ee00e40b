"""Several cells: numbers in ids, where tenants and workers go, one list of all, and copies."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from ulid import ULID

from app.contract.access import Quotas
from app.contract.snapshot import SnapshotPage
from app.settings import Settings
from app.store import Store
from app.store.cell_records import Opened, Roster
from app.store.cells import CellLoad, Cells, gives_way, merged, neediest
from app.store.redis import keys
from app.store.redis.codec import decode_cursor, encode_cursor
from app.store.shared_quotas import TenantRecord, homes, homes_for
from app.store.state import ID_PREFIX, cell_coded_in, coded
from app.store.statistics import added_up

TENANT = "acme"
ULIDS = st.integers(0, 2**128 - 1)
CELLS = st.integers(0, 1023)


@given(ULIDS, CELLS)
def test_the_last_two_characters_of_an_id_are_its_cell(ulid: int, cell: int) -> None:
    record_id = f"{ID_PREFIX}{ULID.from_int(coded(ulid, cell))}"
    assert cell_coded_in(record_id) == cell
    assert ULID.from_int(coded(ulid, cell)).milliseconds == ULID.from_int(ulid).milliseconds


def test_ids_of_one_millisecond_stay_different_and_in_order() -> None:
    first = int(ULID.from_bytes(bytes(6) + b"\x01" * 10))
    made = [coded(first + n, 7) for n in range(5_000)]
    assert all(one < other for one, other in pairwise(made))


def test_what_was_made_before_cells_were_added_is_in_cell_0() -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    ms = round(since.timestamp() * 1000)
    roster = Roster.of({b"coded_since": str(ms).encode(), b"5": b'{"since": 0, "until": null}'})
    before, after = (
        ULID.from_int(coded(int(ULID.from_bytes(at.to_bytes(6, "big") + bytes(10))), 5))
        for at in (ms - 1, ms)
    )
    assert roster.cell_of(f"{ID_PREFIX}{before}") == 0
    assert roster.cell_of(f"{ID_PREFIX}{after}") == 5
    assert Roster.of({}).cell_of(f"{ID_PREFIX}{after}") == 0


def test_a_cell_that_is_added_moves_its_part_of_the_tenants_only() -> None:
    tenants = [f"tenant-{n}" for n in range(4_000)]
    before = {it: homes(it, 1, range(4)) for it in tenants}
    after = {it: homes(it, 1, range(5)) for it in tenants}
    moved = [it for it in tenants if before[it] != after[it]]
    assert {cell for it in moved for cell in after[it]} == {4}
    assert 600 < len(moved) < 1_000  # a fifth
    spread = Counter(cell for found in before.values() for cell in found)
    assert min(spread.values()) > 850


@pytest.mark.parametrize(
    ("quotas", "number"),
    [
        (Quotas(), 8),
        (Quotas(requests_per_minute=1), 8),
        (Quotas(in_flight=49), 1),
        (Quotas(in_flight=100), 2),
        (Quotas(in_flight=100, queued=10), 1),
        (Quotas(in_flight=10_000), 8),
    ],
)
def test_a_tenant_has_a_home_for_every_fifty(quotas: Quotas, number: int) -> None:
    assert len(homes(TENANT, homes_for(quotas.model_dump()), range(8))) == number


@given(st.integers(1, 2_000), st.integers(1, 9))
def test_the_shares_of_a_quota_add_up_to_it(limit: int, number: int) -> None:
    roster = Roster({cell: Opened() for cell in range(number)})
    record = TenantRecord.of(json.dumps({"in_flight": limit, "models": ["openai:*"]}).encode())
    wanted = record.wanted(TENANT, roster, number)
    assert sum(share["in_flight"] for share in wanted.values()) == limit
    record = replace(record, held=wanted)
    stored = [json.loads(record.stored_in(cell, wanted)) for cell in range(number)]
    assert [it["share"] for it in stored] == [{**record.quotas, **it} for it in wanted.values()]
    assert {it["in_flight"] for it in stored} == {limit}
    assert TenantRecord.of(record.stored_in(0, wanted)) == record


@given(
    st.integers(1, 300),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200), st.booleans()), min_size=1),
)
def test_what_is_given_out_and_what_is_used_is_never_more_than_the_quota(
    limit: int, cells: list[tuple[int, int, bool]]
) -> None:
    roster = Roster({cell: Opened() for cell in range(0, len(cells), 2)})
    held = {cell: {"in_flight": held} for cell, (held, _, _) in enumerate(cells)}
    record = TenantRecord({"in_flight": limit}, held=held)
    wanted = record.wanted(TENANT, roster, len(cells))
    uses = {
        cell: {"in_flight": min(used, held)}
        for cell, (held, used, is_there) in enumerate(cells)
        if is_there
    }
    after = record.held_with(uses, wanted)
    before_raise = sum(
        max(min(wanted[n]["in_flight"], held), uses[n]["in_flight"]) if n in uses else held
        for n, (held, _, _) in enumerate(cells)
    )
    assert sum(amounts["in_flight"] for amounts in after.values()) <= max(limit, before_raise)


async def test_the_quotas_of_one_cell_are_stored_as_they_are_set(
    store: Store, redis: Redis
) -> None:
    quotas = Quotas(in_flight=120, models=("openai:*",))
    await Cells([store]).access.set_quotas("acme", quotas)
    stored = await redis.hget(keys.TENANTS, "acme")
    assert stored == quotas.model_dump_json(exclude_none=True).encode()
    assert await redis.exists(keys.SHARING) == 0


def test_what_cells_have_learnt_about_the_same_is_added_up() -> None:
    one = {"about": {"critic": "a"}, "version": 2, "refinements": [3.0], "evidence": [1.0, 2.0]}
    other = {"about": {"critic": "a"}, "version": 2, "refinements": [4.0], "evidence": [0.5, 0.5]}
    older = {"about": {"critic": "a"}, "version": 1, "refinements": [9.0]}
    alone = {"about": {"critic": "b"}, "version": 2, "refinements": [1.0]}
    both = one | {"refinements": [7.0], "evidence": [1.5, 2.5]}
    assert added_up([one, other, older, alone]) == [both, alone]


class Listed:
    """A record of a list, of which only the id counts."""

    def __init__(self, number: int) -> None:
        self.id = f"{number:026}"


def page_of(numbers: Sequence[int], below: int, limit: int, most_looked_at: int) -> SnapshotPage:
    """Return a page as a cell does that may stop before it has found enough."""
    looked_at = [it for it in numbers if it < below][:most_looked_at]
    shown = looked_at[:limit]
    has_more = len(looked_at) > limit or len(looked_at) == most_looked_at
    stop = shown[-1] if len(looked_at) > limit else (looked_at or [0])[-1]
    cursor = encode_cursor(TENANT, f"{stop:026}") if has_more else None
    data: Any = tuple(map(Listed, shown))
    return SnapshotPage.model_construct(data=data, has_more=has_more, next_cursor=cursor)


def listed(cells: Sequence[Sequence[int]], limit: int, most_looked_at: int) -> list[int]:
    """Return what all pages of several cells have, one after the other."""
    found, below = list[int](), 10**25
    while True:
        pages = [page_of(cell, below, limit, most_looked_at) for cell in cells]
        page = merged(TENANT, pages, limit)
        found += (int(it.id) for it in page.data)
        if page.next_cursor is None:
            return found
        below = int(decode_cursor(TENANT, page.next_cursor))


@given(
    st.lists(st.lists(st.integers(1, 300), unique=True), min_size=1, max_size=5),
    st.integers(1, 20),
    st.integers(0, 20),
)
def test_one_list_has_what_is_in_all_cells_once_newest_first(
    cells: list[list[int]], limit: int, more: int
) -> None:
    seen = set[int]()
    apart = [sorted({*cell} - seen | set(), reverse=True) for cell in cells]
    for n, cell in enumerate(cells):
        apart[n] = sorted({*cell} - seen, reverse=True)
        seen |= {*cell}
    assert listed(apart, limit, limit + 1 + more) == sorted(seen, reverse=True)


@pytest.mark.long
def test_a_million_ids_come_through_the_merge() -> None:
    number = 3
    cells = [range(1_000_000 - first, 0, -number) for first in range(number)]
    places, below, limit = [0] * number, 1_000_001, 100
    while below > 1:
        nearest = [cell[at : at + limit + 1] for cell, at in zip(cells, places, strict=True)]
        pages = [page_of(part, below, limit, limit + 1) for part in nearest]
        data = merged(TENANT, pages, limit).data
        assert [int(it.id) for it in data] == [*range(below - 1, below - 1 - len(data), -1)]
        below -= len(data)
        places = [max(0, (1_000_000 - first - below) // number) for first in range(number)]
    assert below == 1


IDLE = CellLoad(0, ())


def test_workers_that_start_together_go_to_all_cells() -> None:
    cells = dict.fromkeys(range(3), IDLE)
    assert sorted(neediest(cells, "here-", nth) for nth in range(6)) == [0, 0, 1, 1, 2, 2]


def test_a_worker_goes_where_none_is_before_it_goes_where_much_waits() -> None:
    assert neediest({0: CellLoad(1_000, ("a",)), 1: IDLE}, "here-", 0) == 1


def test_a_worker_goes_where_most_waits_for_a_worker() -> None:
    cells = {0: CellLoad(10, ("a",)), 1: CellLoad(90, ("b", "c")), 2: CellLoad(30, ("d",))}
    assert neediest(cells, "here-", 0) == 1


def test_a_worker_that_is_started_again_beside_others_goes_where_it_is_needed() -> None:
    cells = {0: CellLoad(0, ("here-1", "here-2")), 1: IDLE}
    assert neediest(cells, "here-", 2) == 1


def test_one_worker_of_the_fullest_cell_gives_way_to_a_cell_without_any() -> None:
    cells = {0: CellLoad(0, ("a", "b")), 1: IDLE, 2: CellLoad(0, ("c", "d"))}
    assert [gives_way(cells, worker) for worker in "abcd"] == [False, True, False, False]


def test_nobody_gives_way_while_every_cell_has_a_worker_or_none_has_two() -> None:
    assert not gives_way({0: CellLoad(0, ("a", "b")), 1: CellLoad(9, ("c",))}, "b")
    assert not gives_way({0: CellLoad(0, ("a",)), 1: IDLE}, "a")


CLUSTER = "redis+cluster://:x@a,b"


@pytest.mark.parametrize(
    ("url", "cells_url", "third"),
    [
        (CLUSTER, "", f"{CLUSTER}/2"),
        (f"{CLUSTER}?ssl_ca_certs=/ca", "", f"{CLUSTER}/2?ssl_ca_certs=/ca"),
        ("redis://one", CLUSTER, f"{CLUSTER}/2"),
        ("redis://one", "redis://two redis+sentinel://a,b/three", "redis+sentinel://a,b/three"),
    ],
)
def test_a_cell_is_in_the_cluster_or_has_a_url_of_its_own(
    url: str, cells_url: str, third: str
) -> None:
    settings = Settings(redis_url=url, cells=3, cells_url=cells_url)
    assert settings.in_cell(2).redis_url == third
    assert settings.in_cell(0).redis_url == url


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"cells": 2}, "must have 1 URLs for HONE_CELLS=2"),
        ({"cells": 3, "cells_url": "redis://two"}, "must have 2 URLs"),
        ({"cell": 1}, "the last cell is 0"),
    ],
)
def test_cells_without_a_url_are_refused(given: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Settings.model_validate({"redis_url": "redis://one", **given})
