"""The API of several cells, each in a Redis of its own."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import httpx
import pytest

from app.access.tenants import Tenants, erase_tenant, exported_tenant
from app.contract.access import OPERATOR, Quotas
from app.contract.errors import QuotaExceeded
from app.queue import RefinementQueue
from app.store import open_cells, open_worker_store
from app.store.cell_records import LOOKED_BACK_MS
from app.store.cells import Cells
from app.store.redis import keys
from app.store.state import cell_coded_in
from tests.api.conftest import running
from tests.api.several_cells import CELLS, CellGroup, several_cells
from tests.store.store_harness import new
from tests.waiting import TIMEOUT_S, eventually

TEXT = {"task": "Say it plainly.", "draft": "It is, so to speak, raining."}


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CellGroup]:
    with several_cells(tmp_path_factory.mktemp("cells")) as found:
        yield found


@pytest.fixture(scope="module")
def server(group: CellGroup) -> Iterator[str]:
    with running(group.settings) as url:
        yield url


@pytest.fixture
async def api(server: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server, timeout=TIMEOUT_S) as client:
        yield client


async def submit(api: httpx.AsyncClient, **headers: str) -> str:
    response = await api.post("/v1/refinements", json=TEXT, headers=headers)
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


async def submitted_to_all(api: httpx.AsyncClient) -> list[str]:
    """Return ids in every cell."""
    ids: list[str] = []
    while {cell_coded_in(it) for it in ids} != {*range(CELLS)}:
        ids += [await submit(api, **{"Idempotency-Key": f"{api.base_url} {len(ids)}"})]
    return ids


async def test_a_refinement_is_found_by_its_id_in_the_cell_that_has_it(
    api: httpx.AsyncClient, group: CellGroup
) -> None:
    for refinement_id in await submitted_to_all(api):
        cell = cell_coded_in(refinement_id)
        assert group.command(cell, "EXISTS", keys.SUMMARY + refinement_id) == 1
        path = f"/v1/refinements/{refinement_id}"
        assert (await api.get(path)).json()["id"] == refinement_id
        accept = {"Accept": "application/json"}
        events = (await api.get(f"{path}/events", headers=accept)).json()
        assert [it["type"] for it in events["data"]] == ["refinement.queued"]
        assert (await api.get(f"{path}/report")).status_code == 200
        assert (await api.post(f"{path}/cancel")).json()["status"] == "canceled"


async def test_submissions_of_one_tenant_are_spread_over_all_cells(api: httpx.AsyncClient) -> None:
    found: set[int] = set()
    async with asyncio.timeout(TIMEOUT_S):
        while len(found) < CELLS:
            found.add(cell_coded_in(await submit(api)))


async def test_a_list_has_what_is_in_all_cells_newest_first(api: httpx.AsyncClient) -> None:
    ids = await submitted_to_all(api)
    found: list[str] = []
    query: dict[str, str | int] = {"limit": 2}
    while True:
        page = (await api.get("/v1/refinements", params=query)).json()
        found += [it["id"] for it in page["data"]]
        if not page["has_more"]:
            break
        query["cursor"] = page["next_cursor"]
    assert found == sorted(found, reverse=True)
    assert len(found) == len({*found})
    assert {*ids} <= {*found}


async def test_a_submission_sent_again_with_its_key_finds_the_first(api: httpx.AsyncClient) -> None:
    for n in range(6):
        key = {"Idempotency-Key": f"again {n}"}
        assert await submit(api, **key) == await submit(api, **key)


async def test_a_key_used_before_a_change_of_cells_is_found_where_it_was(
    api: httpx.AsyncClient, group: CellGroup
) -> None:
    sent = {f"once {n}": await submit(api, **{"Idempotency-Key": f"once {n}"}) for n in range(9)}
    assert {*map(cell_coded_in, sent.values())} == {*range(CELLS)}
    group.open(1, 2, until=time.time() * 1000)
    with running(group.settings) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as later:
            for key, refinement_id in sent.items():
                assert await submit(later, **{"Idempotency-Key": key}) == refinement_id
            new = [await submit(later, **{"Idempotency-Key": f"later {n}"}) for n in range(9)]
            assert {*map(cell_coded_in, new)} == {0}
    group.open(1, 2)


async def test_a_batch_lives_in_one_cell(api: httpx.AsyncClient, group: CellGroup) -> None:
    lines = [json.dumps({"custom_id": str(n), "request": TEXT}) for n in range(3)]
    headers = {"Content-Type": "application/jsonl"}
    sent = await api.post("/v1/batches", content="\n".join(lines), headers=headers)
    batch_id = sent.json()["id"]
    cell = cell_coded_in(batch_id)
    assert group.command(cell, "EXISTS", keys.BATCH + batch_id) == 1
    assert (await api.get(f"/v1/batches/{batch_id}")).json()["id"] == batch_id
    assert batch_id in {it["id"] for it in (await api.get("/v1/batches")).json()["data"]}


async def test_a_preset_works_in_every_cell_as_soon_as_it_is_stored(
    api: httpx.AsyncClient, group: CellGroup
) -> None:
    for n in range(4):
        await api.put("/v1/presets/plain", json={"task": f"Say it in {n} words."})
        for _ in range(CELLS):
            response = await api.post("/v1/refinements", json={**TEXT, "preset": "plain"})
            assert response.status_code == 202, response.text
        for cell in range(CELLS):
            stored = group.command(cell, "HGET", keys.PRESETS + "default", "plain")
            assert f"in {n} words".encode() in stored
    await api.delete("/v1/presets/plain")
    assert group.command(1, "HLEN", keys.PRESETS + "default") == 0


async def test_readiness_counts_the_workers_of_all_cells(
    api: httpx.AsyncClient, group: CellGroup
) -> None:
    queue = RefinementQueue(group.settings.queue)
    async with open_worker_store(group.settings.in_cell(1), queue, "manual") as worker:
        group.command(1, "ZADD", keys.WORKERS, "9999999999999", "manual")
        ready = (await api.get("/readyz")).json()
        assert ready["workers"] == 1
        assert "cell 0 has no worker" in " ".join(ready["warnings"])
        await worker.leave()
    group.command(1, "DEL", keys.WORKERS)


def test_a_cell_in_the_place_of_another_one_is_refused(group: CellGroup) -> None:
    assert eventually(lambda: group.command(2, "GET", keys.CELL) == b"2")


async def test_an_endpoint_paused_in_any_cell_is_shown_and_resumed_everywhere(
    api: httpx.AsyncClient, group: CellGroup
) -> None:
    made = (await api.post("/v1/endpoints", json={"url": "https://hooks.example/a"})).json()
    key = keys.endpoint("default", made["id"])
    for cell in range(CELLS):
        assert group.command(cell, "HGET", key, "url") == b"https://hooks.example/a"
    group.command(2, "HSET", key, "paused_at", 1_000, "failures", 20)
    path = f"/v1/endpoints/{made['id']}"
    assert (await api.get(path)).json()["paused_since"] is not None
    (listed,) = (await api.get("/v1/endpoints")).json()["data"]
    assert listed["failures"] == 20
    assert (await api.post(f"{path}/resume")).status_code == 200
    assert (await api.get(path)).json()["paused_since"] is None
    assert (await api.delete(path)).status_code == 204
    assert group.command(2, "SCARD", keys.ENDPOINTS + "default") == 0


async def test_quotas_are_shared_out_and_together_are_what_was_set(group: CellGroup) -> None:
    async with open_cells(group.settings, RefinementQueue(group.settings.queue)) as cells:
        for limit in (120, 99):
            quotas = Quotas(in_flight=limit, queued=limit)
            await Tenants(cells.access).set_quotas(OPERATOR, "acme", quotas)
            await cells.changed(["acme"])
            stored = [group.command(n, "HGET", keys.TENANTS, "acme") for n in range(CELLS)]
            shares = [json.loads(it)["share"]["in_flight"] for it in stored]
            homes = len([it for it in shares if it])
            assert (sum(shares), homes) == (limit, limit // 50)
            assert {json.loads(it)["in_flight"] for it in stored} == {limit}


async def test_what_a_tenant_has_is_exported_and_erased_in_every_cell(
    api: httpx.AsyncClient, group: CellGroup
) -> None:
    await submitted_to_all(api)
    async with open_cells(group.settings, RefinementQueue(group.settings.queue)) as cells:
        exported = [it async for it in exported_tenant(cells, "default")]
        told = {it["snapshot"]["id"] for it in exported if it["kind"] == "refinement"}
        assert {cell_coded_in(it) for it in told} == {*range(CELLS)}
        assert await erase_tenant(cells, "default") == len(told)
    assert (await api.get("/v1/refinements")).json()["data"] == []


def counted(group: CellGroup, tenant: str) -> list[int]:
    listed = keys.listed_by_status(tenant, "queued")
    return [group.command(cell, "ZCARD", listed) for cell in range(CELLS)]


async def filled(cells: Cells, tenant: str) -> None:
    """Submit in every cell until it refuses."""
    for store in cells.stores:
        with suppress(QuotaExceeded):
            while True:
                await store.create(new(tenant=tenant), None)


async def test_a_shared_quota_is_not_exceeded_while_homes_move(group: CellGroup) -> None:
    queue = RefinementQueue(group.settings.queue)
    async with open_cells(group.settings, queue) as cells, open_cells(group.settings, queue) as b:
        tenants = Tenants(cells.access)
        await tenants.set_quotas(OPERATOR, "moves", Quotas(in_flight=120))
        await cells.changed(["moves"])
        await filled(b, "moves")
        for limit in (49, 150, 60):
            await tenants.set_quotas(OPERATOR, "moves", Quotas(in_flight=limit))
            await asyncio.gather(cells.changed(["moves"]), b.changed([]), filled(b, "moves"))
            await filled(cells, "moves")
            assert sum(counted(group, "moves")) <= 150
        assert sum(counted(group, "moves")) == 150
        await erase_tenant(cells, "moves")


async def test_what_is_left_in_an_old_home_is_taken_from_the_new_one(group: CellGroup) -> None:
    queue = RefinementQueue(group.settings.queue)
    async with open_cells(group.settings, queue) as cells:
        await Tenants(cells.access).set_quotas(OPERATOR, "drains", Quotas(in_flight=10))
        await cells.changed(["drains"])
        await filled(cells, "drains")
        old = next(n for n, found in enumerate(counted(group, "drains")) if found)
        group.open(*{1, 2} - {old}, until=None)
        group.command(0, "HSET", keys.CELLS, old, json.dumps({"since": 0, "until": 1}))
        group.command(0, "HSET", keys.ACCESS, "version", "drained")
        await cells.changed([])
        await filled(cells, "drains")
        assert sum(counted(group, "drains")) == 10
        page = await cells.stores[old].page("drains", limit=4)
        for record in page.data:
            await cells.stores[old].erase("drains", record.id)

        while sum(counted(group, "drains")) < 10:
            await asyncio.sleep(0.1)
            await filled(cells, "drains")
        assert (sum(counted(group, "drains")), counted(group, "drains")[old]) == (10, 6)
        await erase_tenant(cells, "drains")
    group.open(0, 1, 2)


async def moved(group: CellGroup, cells: Cells, tenant: str, at_ms: float) -> None:
    """Let the moves of a tenant's homes have been at another time."""
    stored = json.loads(group.command(0, "HGET", keys.TENANTS, tenant))
    stored["moves"] = [(round(at_ms), most) for _, most in stored["moves"]]
    group.command(0, "HSET", keys.TENANTS, tenant, json.dumps(stored))
    await cells.changed([])


async def test_a_key_used_before_a_change_of_quotas_is_found_where_it_was(
    group: CellGroup,
) -> None:
    async with open_cells(group.settings, RefinementQueue(group.settings.queue)) as cells:
        tenants = Tenants(cells.access)
        await tenants.set_quotas(OPERATOR, "keyed", Quotas(in_flight=150))
        await cells.changed(["keyed"])
        before = {f"key {n}": cells.homes_of("keyed", f"key {n}") for n in range(20)}
        assert len({home for home, *_ in before.values()}) == CELLS
        now_ms = time.time() * 1000
        await tenants.set_quotas(OPERATOR, "keyed", Quotas(in_flight=40))
        await cells.changed(["keyed"])
        *_, (until_ms, _) = json.loads(group.command(0, "HGET", keys.TENANTS, "keyed"))["moves"]
        assert until_ms - now_ms > 4_000  # for 5 seconds; here for longer than any pause
        await moved(group, cells, "keyed", until_ms + TIMEOUT_S * 1000)
        assert {key: cells.homes_of("keyed", key) for key in before} == before
        await moved(group, cells, "keyed", time.time() * 1000 - 1_000)
        assert len({home for key in before for home in cells.homes_of("keyed", key)}) == 1
        for key, (home,) in before.items():
            assert home in {*cells.homes_of("keyed", key), *cells.earlier_homes_of("keyed", key)}
        await moved(group, cells, "keyed", time.time() * 1000 - LOOKED_BACK_MS)
        assert not any(cells.earlier_homes_of("keyed", key) for key in before)
