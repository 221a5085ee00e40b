"""A tenant's own key for a provider: used by its refinements only, with limits of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from app.contract.waiting import own_key_name
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import Store, open_store
from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, refusal
from benchmarks.model_server import ScriptedModelServer
from tests.models.calls import RecordingBehaviour, call
from workers.model_registry import ModelRegistry, open_models
from workers.models.port import ModelWaits

SERVERS, OWN = "the key of the server", "sk-of-acme"
MODEL = "openai:gpt-x"


def answered(asked: AskedPrompt) -> ModelServerReply:
    """Answer every key but one that was revoked."""
    is_revoked = "revoked" in (asked.header("authorization") or "")
    return refusal(401, "Incorrect API key provided") if is_revoked else chat("done")


def configured(redis_url: str, **more: str | None) -> Settings:
    key = "a secret key of the server"
    return Settings.model_validate({"redis_url": redis_url, "secret_key": key, **more})


@asynccontextmanager
async def opened(
    redis_url: str, behaviour: RecordingBehaviour, key: str | None = SERVERS
) -> AsyncIterator[tuple[ModelRegistry, Store]]:
    """The models of a worker, and the store of an API."""
    async with ScriptedModelServer(behaviour) as server:
        settings = configured(redis_url, openai_base_url=server.url, openai_api_key=key)
        async with (
            open_store(settings, RefinementQueue(settings.queue)) as store,
            open_models(settings) as models,
        ):
            yield models, store


def used(behaviour: RecordingBehaviour) -> list[str]:
    return [(it.header("authorization") or "").removeprefix("Bearer ") for it in behaviour.asked]


async def test_a_tenants_own_key_is_used_for_its_calls_and_for_no_others(redis_url: str) -> None:
    behaviour = RecordingBehaviour(answered)
    async with opened(redis_url, behaviour) as (models, store):
        await store.provider_keys.put("acme", "openai", OWN)
        for tenant in ("acme", "other", "acme"):
            assert (await models.complete(MODEL, call(tenant=tenant))).text == "done"
    assert used(behaviour) == [OWN, SERVERS, OWN]
    assert [it.json["model"] for it in behaviour.asked] == ["gpt-x"] * 3


async def test_a_key_that_is_refused_stops_its_own_tenant_alone(redis_url: str) -> None:
    behaviour = RecordingBehaviour(answered)
    async with opened(redis_url, behaviour) as (models, store):
        await store.provider_keys.put("acme", "openai", "sk-revoked")
        with pytest.raises(ModelWaits) as refused:
            await models.complete(MODEL, call(tenant="acme"))
        assert refused.value.awaited == own_key_name("acme", MODEL) == "own:acme:openai:gpt-x"
        assert (refused.value.reason, refused.value.is_open) == ("unauthorized", True)
        assert (await models.complete(MODEL, call(tenant="other"))).text == "done"
        assert await models.permits(MODEL, 3) == 3
        with pytest.raises(ModelWaits):
            await models.complete(MODEL, call(tenant="acme"))
    assert used(behaviour) == ["sk-revoked", SERVERS]


async def test_permits_for_what_waits_are_those_of_the_tenants_own_key(redis_url: str) -> None:
    async with opened(redis_url, RecordingBehaviour(answered)) as (models, store):
        await store.provider_keys.put("acme", "openai", OWN)
        assert await models.permits(own_key_name("acme", MODEL), 3) == 3
        assert await models.permits(own_key_name("other", MODEL), 3) == 3, "its key is gone"


async def test_without_redis_a_tenants_calls_wait_and_never_use_the_servers_key() -> None:
    behaviour = RecordingBehaviour(answered)
    async with ScriptedModelServer(behaviour) as server:
        away = "redis://127.0.0.1:1"
        settings = configured(away, openai_base_url=server.url, openai_api_key=SERVERS)
        async with open_models(settings) as models:
            with pytest.raises(ModelWaits) as waits:
                await models.complete(MODEL, call(tenant="acme"))
    assert (waits.value.reason, behaviour.asked) == ("unreachable", [])
