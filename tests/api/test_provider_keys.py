"""Keys of tenants for providers of models, over HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from app.access.keyring import Keyring
from app.contract.access import OPERATOR, KeyRequest, Scope
from app.settings import Settings
from app.store import Store
from app.store.redis import keys
from tests.api.api_client import problem
from tests.api.conftest import requiring_keys, running
from tests.waiting import TIMEOUT_S

OWN = {"api_key": "sk-of-acme-4711"}
PATH = "/v1/tenants/acme/provider-keys"
REQUEST: dict[str, Any] = {
    "task": "Explain refunds.",
    "models": {"generator": "openai:gpt-5-mini", "critic": "openai:gpt-5-mini"},
}


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    """Settings of a server that has no key of a provider."""
    secret = {"secret_key": SecretStr("a secret key of the server")}
    return requiring_keys(settings).model_copy(update=secret)


@pytest.fixture
async def api(settings: Settings, redis_url: str) -> AsyncIterator[httpx.AsyncClient]:
    with running(settings) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            yield client


async def authorized(
    store: Store, settings: Settings, tenant: str, *scopes: Scope
) -> dict[str, str]:
    request = KeyRequest(tenant=tenant, scopes=scopes or tuple(Scope))
    issued = await Keyring(store.access, settings).create(OPERATOR, request)
    return {"Authorization": f"Bearer {issued.key}"}


async def test_a_key_is_set_listed_and_removed_and_shown_nowhere(
    api: httpx.AsyncClient, store: Store, settings: Settings, redis_url: str
) -> None:
    operator = await authorized(store, settings, OPERATOR)
    acme = await authorized(store, settings, "acme")
    assert (await api.put(f"{PATH}/openai", json=OWN, headers=operator)).status_code == 200
    made = await api.put(f"{PATH}/openai", json=OWN, headers=acme)
    assert (made.status_code, made.json()["provider"]) == (200, "openai")
    listed = await api.get(PATH, headers=acme)
    assert listed.json() == {"data": [made.json()]}
    assert OWN["api_key"] not in made.text + listed.text
    async with Redis.from_url(redis_url) as redis:
        stored = await redis.hgetall(keys.PROVIDER_KEYS + "acme")
    assert OWN["api_key"] not in str(stored)
    assert (await api.delete(f"{PATH}/openai", headers=acme)).status_code == 204
    problem(await api.delete(f"{PATH}/openai", headers=acme), 404, "not_found")
    assert (await api.get(PATH, headers=acme)).json() == {"data": []}


async def test_only_administrators_of_the_tenant_and_of_default_manage_its_keys(
    api: httpx.AsyncClient, store: Store, settings: Settings
) -> None:
    stranger = await authorized(store, settings, "other")
    member = await authorized(store, settings, "acme", Scope.SUBMIT, Scope.READ)
    for headers, status, code in ((stranger, 404, "not_found"), (member, 403, "forbidden")):
        problem(await api.get(PATH, headers=headers), status, code)
        problem(await api.put(f"{PATH}/openai", json=OWN, headers=headers), status, code)
        problem(await api.delete(f"{PATH}/openai", headers=headers), status, code)


@pytest.mark.parametrize("wrong", [{}, {"api_key": ""}, {"api_key": "two\nlines"}, {"key": "x"}])
async def test_what_is_no_key_is_refused(
    api: httpx.AsyncClient, store: Store, settings: Settings, wrong: dict[str, str]
) -> None:
    acme = await authorized(store, settings, "acme")
    problem(await api.put(f"{PATH}/openai", json=wrong, headers=acme), 422, "invalid_request")
    for provider in ("nobody", "offline"):
        refused = await api.put(f"{PATH}/{provider}", json=OWN, headers=acme)
        problem(refused, 404, "not_found")


async def test_with_a_key_of_its_own_a_tenant_uses_models_that_the_server_has_no_key_for(
    api: httpx.AsyncClient, store: Store, settings: Settings
) -> None:
    acme, other = [await authorized(store, settings, it) for it in ("acme", "other")]
    refused = await api.post("/v1/refinements", json=REQUEST, headers=acme)
    assert "needs a key" in problem(refused, 422, "invalid_request")["detail"]
    await api.put(f"{PATH}/openai", json=OWN, headers=acme)
    for path in ("/v1/refinements", "/v1/estimates"):
        assert (await api.post(path, json=REQUEST, headers=acme)).is_success
        problem(await api.post(path, json=REQUEST, headers=other), 422, "invalid_request")
