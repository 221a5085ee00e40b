"""Lists are newest first, filtered, and stable while rows are added."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.errors import MalformedHeader
from app.contract.status import Status
from app.store import Store, WorkerStore
from app.store.redis.codec import decode_cursor, encode_cursor
from app.store.refinements import CHUNK
from tests.store.store_harness import TENANT, claim, new, submit


async def ids(
    store: Store,
    tenant: str = TENANT,
    status: Status | None = None,
    metadata: Mapping[str, str] | None = None,
    limit: int = 2,
) -> list[str]:
    """Return what all pages together hold."""
    found: list[str] = []
    cursor = None
    while True:
        page = await store.page(
            tenant, status=status, metadata=metadata or {}, limit=limit, cursor=cursor
        )
        assert len(page.data) <= limit
        assert page.has_more == (page.next_cursor is not None)
        found += [snapshot.id for snapshot in page.data]
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 6, 100])
async def test_pages_hold_everything_once_newest_first(store: Store, limit: int) -> None:
    created = [await submit(store) for _ in range(5)]
    assert await ids(store, limit=limit) == sorted(created, reverse=True)


async def test_an_empty_list_is_one_empty_page(store: Store) -> None:
    page = await store.page(TENANT)
    assert (page.data, page.has_more, page.next_cursor) == ((), False, None)


async def test_rows_that_are_added_or_erased_shift_nothing(store: Store) -> None:
    created = sorted([await submit(store) for _ in range(6)], reverse=True)
    first = await store.page(TENANT, limit=3)
    await submit(store)
    await store.erase(TENANT, created[2])
    second = await store.page(TENANT, limit=3, cursor=first.next_cursor)
    assert [snapshot.id for snapshot in second.data] == created[3:]


async def test_a_filter_by_status_follows_every_move(store: Store, worker: WorkerStore) -> None:
    queued, running, canceled = [await submit(store) for _ in range(3)]
    await claim(worker, running)
    await store.cancel(TENANT, canceled)
    assert await ids(store, status=Status.QUEUED) == [queued]
    assert await ids(store, status=Status.RUNNING) == [running]
    assert await ids(store, status=Status.CANCELED) == [canceled]
    assert await ids(store, status=Status.SUCCEEDED) == []


async def test_filters_are_intersected(store: Store, worker: WorkerStore) -> None:
    both = await submit(store, ticket="1", team="a=b:c")
    await submit(store, ticket="1", team="other")
    running = await submit(store, ticket="1", team="a=b:c")
    await claim(worker, running)
    assert await ids(store, metadata={"ticket": "1", "team": "a=b:c"}) == [running, both]
    only = await ids(store, status=Status.QUEUED, metadata={"ticket": "1", "team": "a=b:c"})
    assert only == [both]
    assert await ids(store, metadata={"ticket": "2"}) == []


async def test_filters_that_seldom_meet_find_what_lies_behind_many_rows(store: Store) -> None:
    oldest = await submit(store, a="1", b="1")
    for n in range(12):
        await submit(store, a="1", c=str(n))
        await submit(store, b="1", c=str(n))
    newest = await submit(store, a="1", b="1")
    assert await ids(store, metadata={"a": "1", "b": "1"}) == [newest, oldest]
    assert CHUNK >= 12


async def test_a_tenant_sees_its_own_alone(store: Store) -> None:
    mine = (await store.create(new("mine", ticket="1"), None)).id
    await store.create(new("yours", ticket="1"), None)
    assert await ids(store, "mine") == await ids(store, "mine", metadata={"ticket": "1"}) == [mine]
    assert await ids(store, "mine", status=Status.QUEUED) == [mine]


async def test_a_cursor_of_another_tenant_is_refused(store: Store) -> None:
    for _ in range(3):
        await store.create(new("yours"), None)
    cursor = (await store.page("yours", limit=1)).next_cursor
    with pytest.raises(MalformedHeader):
        await store.page("mine", cursor=cursor)


@given(st.text())
def test_a_cursor_that_is_not_ours_is_refused(cursor: str) -> None:
    with pytest.raises(MalformedHeader):
        decode_cursor(TENANT, cursor)


@given(st.from_regex(r"\A[a-z0-9_-]{1,30}\Z"), st.from_regex(r"\Aref_[0-9A-Z]{26}\Z"))
def test_a_cursor_comes_back_as_it_went_out(tenant: str, refinement_id: str) -> None:
    assert decode_cursor(tenant, encode_cursor(tenant, refinement_id)) == refinement_id
