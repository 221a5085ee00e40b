"""`GET /v1/statistics?of=usage`: whose it is, by what it is added up, and in which format."""

import csv
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date, timedelta
from typing import Any, cast

import httpx
import pytest
from redis.asyncio import Redis

from app.access.keyring import Keyring
from app.access.tenants import exported_tenant
from app.contract.access import OPERATOR, Scope
from app.contract.statistics import ModelUse, UsageCell, UsageGrouping, UsageGroups
from app.contract.status import Status
from app.settings import Settings
from app.store import Store, WorkerStore
from app.store.cells import Cells
from app.store.redis import keys
from app.store.statistics import MOST_GROUPS
from tests.api.api_client import REQUEST, ManualWorker, problem, submitted
from tests.api.conftest import requiring_keys
from tests.api.test_batches import begun, line, sent
from tests.api.test_tenants import key_of
from tests.store.store_harness import (
    BROKEN,
    COMPLETED,
    FAILED,
    JUDGED,
    SUCCEEDED,
    count_ended,
    stored_sums,
)
from tests.waiting import TIMEOUT_S, today

GPT, CLAUDE = "openai:gpt-5-mini", "anthropic:claude-sonnet-5"
USED = {GPT: ModelUse(2, 30, 20, 10, 500_000_000, 0), CLAUDE: ModelUse(1, 9, 8, 0, 0, 1)}
NAMES = ("refinements", "calls", "input_tokens", "output_tokens", "cached_tokens")
DAY = date(2026, 1, 31)


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    return requiring_keys(settings)


@pytest.fixture
def keyring(settings: Settings, store: Store) -> Keyring:
    return Keyring(store.access, settings)


@pytest.fixture
async def api(guarded: str, redis_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=guarded, timeout=TIMEOUT_S) as client:
        yield client


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url, protocol=2) as client:
        yield client


async def end(worker: WorkerStore, refinement_id: str, *, is_failed: bool = False) -> None:
    """Let a refinement end that has used both models."""
    claimed = await worker.claim(refinement_id, f"{refinement_id}-1", "worker-1")
    assert claimed is not None
    ending = (FAILED, BROKEN) if is_failed else (COMPLETED, SUCCEEDED)
    entry, fields = ending
    fields = replace(fields, best=JUDGED.best, best_passed=True, used=USED)
    to = Status.FAILED if is_failed else Status.SUCCEEDED
    await worker.journal(claimed).append([entry], fields, to=to)
    await count_ended(worker)


async def usage(api: httpx.AsyncClient, headers: dict[str, str], **query: Any) -> dict[str, Any]:
    response = await api.get("/v1/statistics", params={"of": "usage", **query}, headers=headers)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def groups(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the values of each group, and its refinements and calls."""
    rows = found["data"]
    return [(*row["group"].values(), row["refinements"], row["calls"]) for row in rows]


async def test_usage_is_added_up_by_what_is_asked_for(
    api: httpx.AsyncClient, keyring: Keyring, worker: WorkerStore
) -> None:
    key_id, headers = await key_of(keyring, "acme", Scope.SUBMIT, Scope.READ)
    api.headers.update(headers)
    await end(worker, await submitted(api))
    await end(worker, await submitted(api), is_failed=True)
    by_model = await usage(api, {}, group_by=["key", "model"])
    assert groups(by_model) == [(key_id, CLAUDE, 2, 2), (key_id, GPT, 2, 4)]
    claude, gpt = by_model["data"]
    assert (claude["cost_usd"], claude["unpriced_calls"]) == (None, 2)
    assert (gpt["cost_usd"], gpt["not_passed"]["cost_usd"]) == (1.0, 0.5)
    assert [gpt[it] for it in NAMES] == [2, 4, 60, 40, 20]
    assert [gpt["not_passed"][it] for it in NAMES] == [1, 2, 30, 20, 10]
    by_day = await usage(api, {})
    assert groups(by_day) == [(by_day["to"], 2, 6)]
    first, last = (date.fromisoformat(by_day[it]) for it in ("from", "to"))
    assert (last - first).days == 29
    assert by_day["data"][0] == {"group": by_day["data"][0]["group"], **by_day["total"]}
    by_outcome = await usage(api, {}, group_by="outcome")
    assert groups(by_outcome) == [("failed", 1, 3), ("passed", 1, 3)]
    before = str(first - timedelta(days=1))
    nothing = await usage(api, {}, **{"from": before, "to": before})
    assert (nothing["data"], nothing["total"]["cost_usd"]) == ([], 0.0)


async def test_a_tenant_sees_its_own_usage_and_the_operator_that_of_all(
    api: httpx.AsyncClient, keyring: Keyring, worker: WorkerStore
) -> None:
    _, headers = await key_of(keyring, "other", Scope.SUBMIT, Scope.READ)
    _, of_acme = await key_of(keyring, "acme", Scope.SUBMIT)
    for sent_with in (headers, of_acme):
        made = await api.post("/v1/refinements", json=REQUEST, headers=sent_with)
        await end(worker, made.json()["id"])
    _, admin = await key_of(keyring, OPERATOR)
    everybody = [("acme", 1, 3), ("other", 1, 3)]
    assert groups(await usage(api, admin, group_by="tenant")) == everybody
    assert groups(await usage(api, admin, group_by="tenant", tenant="acme")) == everybody[:1]
    assert groups(await usage(api, headers, group_by="tenant")) == everybody[1:]
    assert groups(await usage(api, headers, group_by="tenant", tenant="other")) == everybody[1:]
    refused = await api.get(
        "/v1/statistics", params={"of": "usage", "tenant": "acme"}, headers=headers
    )
    problem(refused, 404, "not_found")
    _, reader = await key_of(keyring, OPERATOR, Scope.READ)
    assert groups(await usage(api, reader, group_by="tenant")) == []


async def test_requests_of_batches_and_continuations_count_for_the_key_that_sent_them(
    api: httpx.AsyncClient, keyring: Keyring, worker: WorkerStore
) -> None:
    key_id, headers = await key_of(keyring, "acme", Scope.SUBMIT, Scope.READ)
    api.headers.update(headers)
    batch = (await sent(api, line("a"))).json()
    [first] = await begun(api, worker, batch)
    manual = await ManualWorker.claim(worker, first)
    await manual.judge(0, "First line.\nSecond line.\n", 0.5)
    await manual.complete()
    continued = await api.post(f"/v1/refinements/{first}/continue", json={})
    await api.post(f"/v1/refinements/{continued.json()['id']}/cancel")
    await count_ended(worker)
    found = await usage(api, {}, group_by=["key", "outcome"])
    assert groups(found) == [(key_id, "canceled", 1, 0), (key_id, "passed", 1, 1)]


async def test_usage_comes_as_csv_on_request(
    api: httpx.AsyncClient, keyring: Keyring, worker: WorkerStore
) -> None:
    _, headers = await key_of(keyring, "acme", Scope.SUBMIT, Scope.READ)
    api.headers.update(headers)
    await end(worker, await submitted(api))
    query = {"group_by": ["model", "strategy"]}
    asked = await api.get(
        "/v1/statistics", params={"of": "usage", **query}, headers={"Accept": "text/csv"}
    )
    named = await api.get("/v1/statistics", params={"of": "usage", **query, "format": "csv"})
    assert asked.text == named.text
    assert asked.headers["content-type"] == "text/csv; charset=utf-8"
    names, *rows = csv.reader(asked.text.splitlines())
    assert names[:4] == ["model", "strategy", "refinements", "calls"]
    assert len(names) == 2 + 7 + 7
    numbers = ["1", "2", "30", "20", "10", "0.500000000", "0"]
    assert rows[1] == [GPT, "iterative", *numbers, "0", "0", "0", "0", "0", "0.000000000", "0"]
    assert rows[0][7] == ""  # the cost of what has no price
    as_json = await api.get(
        "/v1/statistics", params={"of": "usage", "format": "json"}, headers={"Accept": "text/csv"}
    )
    assert as_json.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("query", "pointer", "says"),
    [
        ({"from": "2026-02-01", "to": "2026-01-31"}, "/from", "after the last day"),
        ({"from": "yesterday"}, "/from", "such as 2026-01-31"),
        ({"from": "2026-02-30"}, "/from", "date"),
        ({"from": ""}, "/from", "such as 2026-01-31"),
        ({"to": "1700000000"}, "/to", "such as 2026-01-31"),
        ({"group_by": "day,model"}, "/group_by", "one of day,"),
        ({"group_by": "colour"}, "/group_by", "one of day,"),
        ({"format": "xml"}, "/format", "json or csv"),
        ({"tenant": "ACME"}, "/tenant", "small letters"),
    ],
)
async def test_a_query_that_cannot_be_answered_is_refused(
    api: httpx.AsyncClient, keyring: Keyring, query: dict[str, str], pointer: str, says: str
) -> None:
    _, headers = await key_of(keyring, "acme")
    refused = problem(
        await api.get("/v1/statistics", params={"of": "usage", **query}, headers=headers),
        422,
        "invalid_request",
    )
    (error,) = refused["errors"]
    assert (error["pointer"], says in error["detail"]) == (pointer, True), error


async def test_another_format_is_not_acceptable(api: httpx.AsyncClient, keyring: Keyring) -> None:
    _, headers = await key_of(keyring, "acme")
    answer = await api.get("/v1/statistics?of=usage", headers={**headers, "Accept": "text/html"})
    problem(answer, 406, "not_acceptable")


@pytest.mark.parametrize(
    ("of", "query"),
    [
        ("usage", "limit=1"),
        ("insights", "group_by=day"),
        ("calibration", "since=2026-01-01"),
        ("models", "format=csv"),
    ],
)
async def test_a_parameter_of_other_statistics_is_refused(
    api: httpx.AsyncClient, keyring: Keyring, of: str, query: str
) -> None:
    _, headers = await key_of(keyring, "acme")
    refused = await api.get(f"/v1/statistics?of={of}&{query}", headers=headers)
    assert f"is no parameter of {of}" in problem(refused, 422, "invalid_request")["detail"]


async def test_what_models_achieved_is_shown_as_json_alone(
    api: httpx.AsyncClient, keyring: Keyring
) -> None:
    _, headers = await key_of(keyring, "acme")
    asked = await api.get("/v1/statistics?of=models", headers=headers)
    assert asked.json() == {"data": []}
    as_csv = {**headers, "Accept": "text/csv"}
    problem(await api.get("/v1/statistics?of=models", headers=as_csv), 406, "not_acceptable")


async def test_more_groups_than_anybody_reads_are_refused(
    api: httpx.AsyncClient, keyring: Keyring, redis: Redis
) -> None:
    last = today()
    for n in range(MOST_GROUPS // 1_000 + 1):
        day = last - timedelta(days=n)
        number = (day - date(1970, 1, 1)).days
        cells = {f"passed s k openai:m{n}": stored_sums(1, 1, 1, 1, 0, 0, 0) for n in range(1_000)}
        await redis.hset(
            keys.statistics("usage", "acme", day), mapping=cast("dict[Any, Any]", cells)
        )
        await redis.zadd(keys.STATISTICS, {f"acme:{number}": number})
    _, headers = await key_of(keyring, "acme")
    query = {"group_by": ["day", "model"]}
    refused = problem(
        await api.get("/v1/statistics", params={"of": "usage", **query}, headers=headers),
        422,
        "invalid_request",
    )
    assert refused["errors"][0]["pointer"] == "/group_by"
    assert len((await usage(api, headers, group_by="model"))["data"]) == 1_000


async def test_usage_is_exported_with_its_tenant(
    api: httpx.AsyncClient, keyring: Keyring, store: Store, worker: WorkerStore
) -> None:
    key_id, headers = await key_of(keyring, "acme")
    made = await api.post("/v1/refinements", json=REQUEST, headers=headers)
    await end(worker, made.json()["id"])
    told = [it async for it in exported_tenant(Cells([store]), "acme") if it["kind"] == "usage"]
    assert {it["group"][UsageGrouping.MODEL]: it["calls"] for it in told} == {GPT: 2, CLAUDE: 1}
    assert {it["group"][UsageGrouping.KEY] for it in told} == {key_id}


def test_groups_count_each_refinement_once_unless_they_are_of_models() -> None:
    both = UsageGroups([UsageGrouping.MODEL]), UsageGroups([UsageGrouping.STRATEGY])
    cells = [
        (UsageCell(DAY, "acme", "", model, "iterative", "passed"), 2, ModelUse(*([n] * 6)))
        for n, model in enumerate(["", GPT, CLAUDE])
    ]
    for it in both:
        it.add(cells)
    of_models, of_strategies = (it.rows() for it in both)
    assert [(it.refinements, it.calls) for it in of_models] == [(2, 2), (2, 1)]
    assert [(it.refinements, it.calls) for it in of_strategies] == [(2, 3)]
    assert {it.total().refinements for it in both} == {2}
