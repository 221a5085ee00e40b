"""`hone secrets rotate`: everything sealed under the old secret key is sealed under the new one."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis
from typer.testing import CliRunner

from app.access.keyring import Keyring
from app.cli import app
from app.contract.access import OPERATOR, KeyRequest, Rotation, Scope
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import WorkerStore, open_signing, open_store, open_tenant_keys, open_worker_store
from app.store.redis.keys import JOURNAL
from tests.api.api_client import ManualWorker, submitted
from tests.api.conftest import running
from tests.api.test_access import client
from tests.api.test_batches import accepted, line
from tests.api.test_secrets import CANARIES, WITH_SECRETS
from tests.api.test_webhooks import HOOK
from tests.local_endpoint import SECRET

OLD, NEW = SecretStr("the old key of the server"), SecretStr("the new key of the server")
URL = "https://hooks.example.com/"


@pytest.fixture
def old(keyed: Settings) -> Settings:
    return keyed.model_copy(update={"secret_key": OLD, "pack_after_s": 0})


@pytest.fixture
def both(old: Settings) -> Settings:
    return old.model_copy(update={"secret_key": NEW, "secret_key_old": OLD})


@pytest.fixture
def new(old: Settings) -> Settings:
    return old.model_copy(update={"secret_key": NEW})


def rotated(settings: Settings, **without: str) -> str:
    variables = {
        "HONE_REDIS_URL": settings.redis_url,
        "HONE_SECRET_KEY": NEW.get_secret_value(),
        "HONE_SECRET_KEY_OLD": OLD.get_secret_value(),
        "COLUMNS": "300",
    }
    result = CliRunner().invoke(app, ["secrets", "rotate"], env={**variables, **without})
    return result.output


async def ended(worker: WorkerStore, api: httpx.AsyncClient) -> str:
    """Return a refinement whose record is packed, secrets included."""
    refinement_id = await submitted(api, **WITH_SECRETS)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(1, "Better.", 0.5)
    await manual.complete()
    await asyncio.sleep(0.002)
    await worker.count_and_pack()
    rating = {"path": "iterations/1", "score": 1}
    assert (await api.post(f"/v1/refinements/{refinement_id}/ratings", json=rating)).is_success
    return refinement_id


async def numbers(redis_url: str, refinement_id: str) -> list[Any]:
    async with Redis.from_url(redis_url) as redis:
        return [number for number, _ in await redis.xrange(JOURNAL + refinement_id) or ()]


async def secrets_of(settings: Settings, *ids: str) -> list[set[str]]:
    async with open_store(settings, RefinementQueue(settings.queue)) as store:
        return [{*(await store.request(OPERATOR, it)).secrets().values()} for it in ids]


async def test_after_a_rotation_the_new_key_alone_opens_everything(
    old: Settings, new: Settings, redis_url: str
) -> None:
    queue = RefinementQueue(old.queue)
    with running(old) as url:
        async with client(url) as api, open_worker_store(old, queue, "manual") as worker:
            packed, queued = await ended(worker, api), await submitted(api, **WITH_SECRETS)
            assert (await api.put("/v1/presets/mail", json={"webhook": HOOK})).is_success
            batch = await accepted(api, {"batch": {"webhook": HOOK}}, line("a", webhook=HOOK))
        async with open_store(old, queue) as store:
            await store.provider_keys.put("acme", "openai", "sk-of-acme")
    before = await numbers(redis_url, packed)
    said = await asyncio.to_thread(rotated, old)
    assert "sealed anew: 3 requests, 1 batches, 1 presets, 1 provider keys" in said
    assert "sealed anew: nothing" in await asyncio.to_thread(rotated, old), "it may be repeated"
    assert await numbers(redis_url, packed) == before, "with the rating"
    assert await secrets_of(new, packed, queued) == [set(CANARIES), set(CANARIES)]
    async with open_store(new, queue) as store:
        hook = await store.batches.webhook(OPERATOR, batch["id"])
        assert hook is not None
        assert hook.secret is not None
        assert hook.secret.get_secret_value() == SECRET
        assert SECRET in json.dumps(await store.presets.fields(OPERATOR, "mail"))
    async with open_tenant_keys(new) as keys:
        assert keys is not None
        assert await keys.read("acme") == {"openai": "sk-of-acme"}


async def test_keys_made_under_the_old_one_work_until_it_goes_and_are_named(
    old: Settings, both: Settings, new: Settings
) -> None:
    required: dict[str, Any] = {"auth": "required"}
    old, both, new = (it.model_copy(update=required) for it in (old, both, new))
    async with open_store(old, RefinementQueue(old.queue)) as store:
        before = await Keyring(store.access, old).create(
            OPERATOR, KeyRequest(scopes=tuple(Scope), name="mail service")
        )
    with running(both) as url:
        async with client(url, before.key) as api:
            assert (await api.get("/v1/refinements")).status_code == 200
    said = await asyncio.to_thread(rotated, old)
    assert f"still under the old key: {before.id} default mail service" in said
    async with open_store(both, RefinementQueue(old.queue)) as store:
        after = await Keyring(store.access, both).rotate(OPERATOR, before.id, Rotation(overlap_s=0))
    assert "still under" not in await asyncio.to_thread(rotated, old)
    with running(new) as url:
        for key, status in ((before.key, 401), (after.key, 200)):
            async with client(url, key) as api:
                assert (await api.get("/v1/refinements")).status_code == status


async def test_calls_are_signed_under_both_keys_meanwhile(
    old: Settings, both: Settings, new: Settings
) -> None:
    found = []
    for settings in (old, both, new):
        async with open_signing(settings) as signing:
            found.append((await signing.of("acme", URL)).secrets)
    (under_old, under_both, under_new) = found
    assert under_both == (*under_new, *under_old)


async def test_without_the_old_key_the_command_says_what_to_set(old: Settings) -> None:
    said = await asyncio.to_thread(lambda: rotated(old, HONE_SECRET_KEY_OLD=""))
    assert "HONE_SECRET_KEY_OLD" in said


async def test_the_command_names_what_neither_key_opens(old: Settings) -> None:
    lost = old.model_copy(update={"secret_key": SecretStr("a key that nobody has any more")})
    async with open_store(lost, RefinementQueue(old.queue)) as store:
        await store.provider_keys.put("acme", "openai", "sk-of-acme")
    said = await asyncio.to_thread(rotated, old)
    assert "provider key acme:openai, which another HONE_SECRET_KEY has encrypted" in said
