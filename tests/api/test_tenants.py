"""Every operation, by every scope and by another tenant: a new one is covered by itself."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from app.access.keyring import Keyring
from app.api.middleware import NOT_FOR_TOKENS
from app.api.statistics import PARAMETERS
from app.contract.access import OPERATOR, KeyRequest, Scope
from app.contract.providers import BY_NAME
from app.settings import Settings
from app.store import Store, WorkerStore, open_permit_exchange
from app.store.rate_limits import PermitReport
from tests.api.api_client import REQUEST, ended, problem, submitted
from tests.api.conftest import requiring_keys
from tests.api.test_access import OPENAPI
from tests.waiting import TIMEOUT_S

OWNER, STRANGER = "owner-of-it-all", "stranger"
AUDITED = "audited"
"""A tenant of one test: refusals of other tests are counted for seconds after their end."""
ADMINISTERED = ("/metrics", "/v1/keys", "/v1/tenants", "/v1/audit")


@dataclass(frozen=True)
class Operation:
    """One operation of the OpenAPI document, and an example of how to call it."""

    method: str
    path: str
    scopes: tuple[str, ...]
    unknown: dict[str, str]
    query: dict[str, Any]
    body: Any

    def url(self, **of: str) -> str:
        """Return the path for these ids; the examples of the document stand for the others."""
        return self.path.format(**{**self.unknown, **of})


def example_of(schema: dict[str, Any]) -> str:
    return str((schema.get("examples") or schema.get("enum") or [1])[0])


def operations() -> Iterator[Operation]:
    paths = json.loads(OPENAPI.read_text())["paths"]
    for path, methods in paths.items():
        for method, found in methods.items():
            security = found["security"]
            given = [it for it in found.get("parameters", ()) if it["required"]]
            content = found.get("requestBody", {}).get("content", {}).get("application/json", {})
            examples = [it["value"] for it in content.get("examples", {}).values()]
            yield Operation(
                method.upper(),
                path,
                tuple(security[0]["key"]) if security else (),
                {it["name"]: example_of(it["schema"]) for it in given if it["in"] == "path"},
                {it["name"]: example_of(it["schema"]) for it in given if it["in"] == "query"},
                examples[0] if examples else None,
            )


OPERATIONS = tuple(operations())
GUARDED = [it for it in OPERATIONS if it.scopes]


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


async def key_of(keyring: Keyring, tenant: str, *scopes: Scope) -> tuple[str, dict[str, str]]:
    """Return the id of a new key, and the header that sends it."""
    issued = await keyring.create(tenant, KeyRequest(scopes=scopes or tuple(Scope)))
    return issued.id, {"Authorization": f"Bearer {issued.key}"}


async def call(
    api: httpx.AsyncClient, operation: Operation, headers: dict[str, str], **of: str
) -> httpx.Response:
    """Perform an operation; what is not named is unknown."""
    url, query = operation.url(**of), operation.query
    return await api.request(
        operation.method, url, params=query, json=operation.body, headers=headers
    )


def test_every_operation_but_that_of_health_needs_exactly_one_scope() -> None:
    assert [it.path for it in OPERATIONS if not it.scopes] == ["/healthz"]
    assert all(len(it.scopes) == 1 for it in GUARDED)
    reviewing = [it.path.rpartition("/")[2] for it in GUARDED if it.scopes == (Scope.REVIEW,)]
    assert sorted(reviewing) == ["ratings", "reviews"]
    assert all(
        (it.scopes == (Scope.ADMIN,)) is it.path.startswith(ADMINISTERED)
        and (it.method == "GET" or it.path.endswith("/tokens") or it.scopes != (Scope.READ,))
        for it in GUARDED
    )


async def test_every_operation_needs_a_key(api: httpx.AsyncClient) -> None:
    for operation in GUARDED:
        problem(await call(api, operation, {}), 401, "unauthenticated")


@pytest.mark.parametrize("scope", Scope)
async def test_a_scope_allows_the_operations_that_name_it_and_no_others(
    api: httpx.AsyncClient, keyring: Keyring, scope: Scope
) -> None:
    _, headers = await key_of(keyring, OWNER, scope)
    allowed = [it for it in GUARDED if (await call(api, it, headers)).status_code != 403]
    assert allowed == [it for it in GUARDED if it.scopes == (scope,)]


async def test_what_is_anothers_is_answered_like_what_does_not_exist(
    api: httpx.AsyncClient, keyring: Keyring, worker: WorkerStore
) -> None:
    key_id, headers = await key_of(keyring, OWNER)
    _, stranger = await key_of(keyring, STRANGER)
    api.headers.update(headers)
    refinement_id = await ended(api, worker)
    here = {"refinement_id": refinement_id, "key_id": key_id, "tenant_id": OWNER}
    registered = await api.post("/v1/endpoints", json={"url": "https://example.com/hook"})
    here["endpoint_id"] = registered.json()["id"]
    await api.put("/v1/presets/own", json={"threshold": 0.5})
    here["preset_id"] = "own"
    batch = json.dumps({"custom_id": "a", "request": REQUEST})
    jsonl = {"Content-Type": "application/jsonl"}
    here["batch_id"] = (await api.post("/v1/batches", content=batch, headers=jsonl)).json()["id"]
    before = await api.get(f"/v1/refinements/{refinement_id}")
    for operation in (it for it in GUARDED if "_id}" in it.path):
        if (operation.method, operation.path) == ("PUT", "/v1/presets/{preset_id}"):
            continue  # every tenant may have a preset of that name
        foreign = await call(api, operation, stranger, **here)
        unknown = await call(api, operation, stranger)
        problem(foreign, 404, "not_found")
        seen = foreign.text
        for name in operation.unknown.keys() & here.keys():
            seen = seen.replace(here[name], operation.unknown[name])
        assert seen == unknown.text
        if operation.method == "GET" and "{proposal_id}" not in operation.path:  # test_learning.py
            assert (await call(api, operation, headers, **here)).status_code == 200
    after = await api.get(f"/v1/refinements/{refinement_id}")
    assert (after.headers["etag"], after.json()) == (before.headers["etag"], before.json())


async def test_a_token_reads_one_refinement_and_does_nothing_else(
    api: httpx.AsyncClient, keyring: Keyring, worker: WorkerStore
) -> None:
    _, headers = await key_of(keyring, OWNER)
    api.headers.update(headers)
    refinement_id = await ended(api, worker)
    made = await api.post(f"/v1/refinements/{refinement_id}/tokens")
    assert made.status_code == 201
    token = f"Bearer {made.json()['token']}"
    other = await submitted(api)
    for operation in GUARDED:
        response = await call(api, operation, {"Authorization": token}, refinement_id=refinement_id)
        of_this = "{refinement_id}" in operation.path
        is_readable = of_this and not operation.path.endswith(NOT_FOR_TOKENS)
        reads = operation.method == "GET" and is_readable
        assert response.status_code == (200 if reads else 403)
        elsewhere = await call(api, operation, {"Authorization": token}, refinement_id=other)
        problem(elsewhere, 403, "forbidden")


async def test_no_list_tells_of_another_tenant(
    api: httpx.AsyncClient, keyring: Keyring, worker: WorkerStore
) -> None:
    key_id, headers = await key_of(keyring, OWNER)
    _, stranger = await key_of(keyring, STRANGER)
    api.headers.update(headers)
    refinement_id = await ended(api, worker, metadata={"of": OWNER})
    said = {"path": "iterations/1", "better_than": "iterations/0"}
    await api.post(f"/v1/refinements/{refinement_id}/ratings", json=said)
    assert refinement_id in (await api.get("/v1/pairs")).text
    lists = (it for it in GUARDED if it.method == "GET" and "_id}" not in it.path)
    responses = [await call(api, it, stranger) for it in lists]
    responses += [
        await api.get("/v1/statistics", params={"of": of}, headers=stranger) for of in PARAMETERS
    ]
    for response in responses:
        assert response.status_code == 200
        for told in (OWNER, refinement_id, key_id):
            assert told not in response.text
    listed = await api.get("/v1/refinements")
    assert [it["id"] for it in listed.json()["data"]] == [refinement_id]


async def test_who_did_what_is_recorded_and_outlives_what_it_is_about(
    api: httpx.AsyncClient, keyring: Keyring
) -> None:
    key_id, headers = await key_of(keyring, AUDITED)
    api.headers.update(headers)
    refinement_id = await submitted(api)
    await api.get(f"/v1/refinements/{refinement_id}")
    problem(await api.post(f"/v1/refinements/{refinement_id}/retry"), 409, "conflict")
    assert (await api.post("/v1/estimates", json={"draft": "A text."})).status_code == 200
    await api.delete(f"/v1/refinements/{refinement_id}")
    made = (await api.post("/v1/keys")).json()
    await api.delete(f"/v1/keys/{made['id']}")
    expected = [
        ("submitRefinement", refinement_id),
        ("eraseRefinement", refinement_id),
        ("createKey", made["id"]),
        ("revokeKey", made["id"]),
    ]
    found: list[dict[str, str]] = []
    query: dict[str, str | int] = {"limit": 3}
    while True:
        page = (await api.get("/v1/audit", params=query)).json()
        found += page["data"]
        if not page["has_more"]:
            break
        query["cursor"] = page["next_cursor"]
    assert [(it["action"], it["about"]) for it in reversed(found)] == expected
    assert {it["by"] for it in found} == {key_id}
    _, operator = await key_of(keyring, "default")
    seen = await api.get("/v1/audit", params={"tenant": AUDITED}, headers=operator)
    assert seen.json()["data"] == found
    _, stranger = await key_of(keyring, STRANGER)
    refused = await api.get("/v1/audit", params={"tenant": AUDITED}, headers=stranger)
    problem(refused, 404, "not_found")


async def test_a_tenant_learns_what_an_operator_reads_of_it(
    api: httpx.AsyncClient, keyring: Keyring
) -> None:
    key_id, owner = await key_of(keyring, OWNER)
    by, operator = await key_of(keyring, "default")
    read = {
        "getTenant": f"/v1/tenants/{OWNER}",
        "listProviderKeys": f"/v1/tenants/{OWNER}/provider-keys",
        "getKey": f"/v1/keys/{key_id}",
        "getStatistics": f"/v1/statistics?of=usage&tenant={OWNER}",
        "listActions": f"/v1/audit?tenant={OWNER}",
    }
    for path in read.values():
        assert (await api.get(path, headers=operator)).status_code == 200
        assert (await api.get(path, headers=owner)).status_code == 200
    logs = [
        {(entry["by"], entry["action"]) for entry in page.json()["data"]}
        for page in [await api.get("/v1/audit", headers=who) for who in (owner, operator)]
    ]
    assert all({(by, action) for action in read} <= log for log in logs)
    assert not {(key_id, action) for action in read} & logs[0]


async def test_neither_keys_of_requests_nor_cursors_reach_another_tenant(
    api: httpx.AsyncClient, keyring: Keyring
) -> None:
    _, owner = await key_of(keyring, OWNER)
    _, stranger = await key_of(keyring, STRANGER)
    once = {"Idempotency-Key": "same"}
    ids = [
        (await api.post("/v1/refinements", json=REQUEST, headers=who | once)).json()["id"]
        for who in (owner, owner, stranger)
    ]
    assert ids[0] == ids[1] != ids[2]
    api.headers.update(owner)
    await submitted(api)
    cursor = (await api.get("/v1/refinements?limit=1")).json()["next_cursor"]
    api.headers.update(stranger)
    refused = await api.get("/v1/refinements", params={"cursor": cursor})
    problem(refused, 400, "malformed_header")


async def test_what_models_others_use_is_told_to_the_operator_alone(
    api: httpx.AsyncClient, keyring: Keyring, redis_url: str, settings: Settings
) -> None:
    fingerprint = settings.fingerprint_of(BY_NAME["openai"])
    refused = PermitReport(number=1, bad=5, bad_reason="unreachable", detail="their words")
    async with open_permit_exchange(Settings(redis_url=redis_url)) as exchange:
        assert exchange
        names = (f"openai:theirs@{fingerprint}", f"openai@{fingerprint}")
        await exchange.exchange(*names, refused)
    for tenant, is_told in ((OPERATOR, True), (STRANGER, False)):
        _, headers = await key_of(keyring, tenant)
        for path in ("/v1/models", "/readyz"):
            answer = await api.get(path, headers=headers)
            assert ("openai:theirs" in answer.text, "their words" in answer.text) == (
                is_told,
                is_told,
            )
