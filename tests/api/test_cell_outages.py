"""Cells that are away: the others go on, and it is said which ones are missing."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from app.access.keyring import Keyring
from app.contract.access import OPERATOR, KeyRequest, Scope
from app.queue import RefinementQueue
from app.store import open_store
from app.store.redis import keys
from app.store.state import cell_coded_in
from tests.api.api_client import REQUEST, problem
from tests.api.conftest import running
from tests.api.several_cells import CELLS, CellGroup, several_cells
from tests.waiting import TIMEOUT_S, eventually

PATH = "/v1/refinements"


@pytest.fixture
def group(tmp_path: Path) -> Iterator[CellGroup]:
    with several_cells(tmp_path, redis_timeout_s=8.0) as found:
        yield found


@contextmanager
def client_of(group: CellGroup, key: str = "") -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with (
        running(group.settings) as url,
        httpx.Client(base_url=url, timeout=TIMEOUT_S, headers=headers) as client,
    ):
        yield client


@pytest.fixture
def client(group: CellGroup) -> Iterator[httpx.Client]:
    with client_of(group) as client:
        yield client


def submit(client: httpx.Client, key: str = "") -> httpx.Response:
    return client.post(PATH, json=REQUEST, headers={"Idempotency-Key": key} if key else {})


def in_each_cell(client: httpx.Client) -> dict[int, tuple[str, str]]:
    """Return the key and the id of a submission in each cell."""
    found: dict[int, tuple[str, str]] = {}
    while len(found) < CELLS:
        key = f"key {time.time_ns()}"
        refinement_id = submit(client, key).json()["id"]
        found[cell_coded_in(refinement_id)] = key, refinement_id
    return found


@pytest.mark.parametrize("gone", [0, 1])
def test_without_a_cell_the_others_refuse_nothing(
    group: CellGroup, client: httpx.Client, gone: int
) -> None:
    sent = in_each_cell(client)
    group.servers[gone].stop()
    for _ in range(20):
        assert submit(client).status_code == 202
    for cell, (key, refinement_id) in sent.items():
        if cell == gone:
            problem(client.get(f"{PATH}/{refinement_id}"), 503, "unavailable")
            problem(submit(client, key), 503, "unavailable")
        else:
            assert client.get(f"{PATH}/{refinement_id}").status_code == 200
            assert submit(client, key).json()["id"] == refinement_id
            assert client.post(f"{PATH}/{refinement_id}/cancel").status_code == 202
    listed = client.get(PATH)
    assert listed.headers["hone-cells-away"] == str(gone)
    assert gone not in {cell_coded_in(it["id"]) for it in listed.json()["data"]}
    assert f"cell {gone} is away" in " ".join(client.get("/readyz").json()["warnings"])
    assert client.get("/v1/statistics?of=usage").headers["hone-cells-away"] == str(gone)
    group.servers[gone].revive()
    assert eventually(lambda: client.get(f"{PATH}/{sent[gone][1]}").status_code == 200)
    assert eventually(lambda: "hone-cells-away" not in client.get(PATH).headers)


def test_a_cell_that_stands_still_costs_its_own_records_only(
    group: CellGroup, client: httpx.Client
) -> None:
    sent = in_each_cell(client)
    os.kill(group.servers[2].pid, signal.SIGSTOP)
    try:
        problem(client.get(f"{PATH}/{sent[2][1]}"), 503, "unavailable")
        assert client.get(f"{PATH}/{sent[1][1]}").status_code == 200
        assert eventually(lambda: client.get(PATH).headers.get("hone-cells-away") == "2")
        assert submit(client).status_code == 202
    finally:
        os.kill(group.servers[2].pid, signal.SIGCONT)


async def test_without_cell_0_keys_work_and_presets_are_read_and_nothing_of_them_changes(
    group: CellGroup,
) -> None:
    group.settings = group.settings.model_copy(update={"auth": "required"})
    async with open_store(group.settings.in_cell(0), RefinementQueue("hone")) as store:
        asked = KeyRequest(scopes=tuple(Scope))
        key = (await Keyring(store.access, group.settings).create(OPERATOR, asked)).key
    with client_of(group, key) as client:
        assert client.put("/v1/presets/plain", json={"task": "Say it."}).status_code == 201
        group.servers[0].stop()
        assert submit(client).status_code == 202
        assert client.get("/v1/presets/plain").status_code == 200
        problem(client.put("/v1/presets/plain", json={}), 503, "unavailable")
        problem(client.post("/v1/keys", json={}), 503, "unavailable")
        unknown = {"Authorization": "Bearer nothing"}
        problem(client.get(PATH, headers=unknown), 401, "unauthenticated")
        group.servers[0].revive()
        assert eventually(lambda: client.put("/v1/presets/plain", json={}).status_code == 200)
        group.servers[0].stop()
    with client_of(group, key) as client:  # a process that never saw cell 0
        assert submit(client).status_code == 202
        group.servers[0].revive()


async def test_a_key_is_not_read_where_it_was_not_revoked_yet(group: CellGroup) -> None:
    group.settings = group.settings.model_copy(update={"auth": "required"})
    async with open_store(group.settings.in_cell(0), RefinementQueue("hone")) as store:
        keyring = Keyring(store.access, group.settings)
        kept, gone = [
            await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope))) for _ in range(2)
        ]
    with client_of(group, kept.key) as client:
        of_gone = {"Authorization": f"Bearer {gone.key}"}
        assert client.get(PATH, headers=of_gone).status_code == 200
        os.kill(group.servers[1].pid, signal.SIGSTOP)
        try:
            assert eventually(lambda: client.get(PATH).headers.get("hone-cells-away") == "1")
            assert client.delete(f"/v1/keys/{gone.id}").status_code == 204
            group.servers[0].stop()
        finally:
            os.kill(group.servers[1].pid, signal.SIGCONT)
        assert eventually(lambda: client.get(PATH).headers.get("hone-cells-away") == "0")
        problem(client.get(PATH, headers=of_gone), 401, "unauthenticated")
        group.servers[0].revive()


def test_a_cell_that_a_process_does_not_know_gets_nothing_of_it(
    group: CellGroup, client: httpx.Client
) -> None:
    group.open(7)
    with client_of(group) as uninformed:
        answers = [submit(uninformed, f"key {n}").status_code for n in range(20)]
        assert {*answers} == {202, 503}
        assert {submit(uninformed).status_code for _ in range(20)} == {202}


def test_without_cell_0_nothing_is_accepted_that_may_exceed_a_quota_of_the_day(
    group: CellGroup, client: httpx.Client
) -> None:
    quotas = {"tokens_per_day": 1_000_000}
    group.command(0, "HSET", keys.TENANTS, "default", str(quotas).replace("'", '"'))
    group.open(1, 2)
    assert eventually(
        lambda: b"tokens" in (group.command(1, "HGET", keys.TENANTS, "default") or b"")
    )
    assert submit(client).status_code == 202
    group.servers[0].stop()
    refused = submit(client)
    problem(refused, 503, "unavailable")
    assert int(refused.headers["retry-after"]) > 0
    assert client.get(PATH).status_code == 200
    group.servers[0].revive()
    assert eventually(lambda: submit(client).status_code == 202)
