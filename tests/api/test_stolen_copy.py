"""A copy of Redis lets nobody in: neither a snapshot nor the append-only file."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from redis import Redis

from app.access.keyring import Keyring
from app.access.signed import SESSION_COOKIE, ConsoleSession, ReadToken, Signing
from app.contract.access import OPERATOR, KeyRequest, Rotation, Scope
from app.local.embedded import EmbeddedRedis
from app.queue import RefinementQueue
from app.settings import Settings, derived
from app.store import open_signing, open_store
from app.store.redis.keys import ACCESS
from app.store.redis.keys import REQUEST as REQUEST_KEY
from app.store.sealing import PURPOSE, Sealer
from app.store.signing_secrets import EndpointSecrets
from app.store.state import UnreadableSecrets
from tests.api.api_client import REQUEST, problem
from tests.api.conftest import running
from tests.api.test_access import client
from tests.api.test_secret_rotation import NEW, OLD, URL, rotated
from tests.api.test_secrets import CANARIES, WITH_SECRETS
from tests.api.test_webhooks import HOOK
from tests.local_endpoint import SECRET

OF_ENDPOINTS = "signing secrets of endpoints"
CALLING: dict[str, Any] = {"openai_api_key": SecretStr("key")}
HOUR_MS = 3_600_000
SECRET_KEY = SecretStr("a secret key, kept apart from Redis")


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path, aof=True) as server:
        yield server


def copied(redis: EmbeddedRedis, folder: Path) -> list[bytes]:
    """Return every text in the files of Redis that a secret could be made of."""
    with Redis.from_url(redis.url) as connection:
        connection.save()
    files = [it for it in folder.rglob("*") if it.is_file() and it.suffix in {".rdb", ".aof"}]
    assert {it.suffix for it in files} == {".rdb", ".aof"}
    data = b"\n".join(it.read_bytes() for it in files)
    words = {*re.findall(rb"[!-~]{16,}", data), *re.findall(rb"[0-9a-f]{32,}", data)}
    decoded = [bytes.fromhex(it.decode()) for it in words if re.fullmatch(rb"([0-9a-f]{2})+", it)]
    return [*words, *decoded]


@asynccontextmanager
async def made(settings: Settings) -> AsyncIterator[Keyring]:
    async with open_store(settings, RefinementQueue(settings.queue)) as store:
        yield Keyring(store.access, settings)


async def statuses(url: str, key_id: str, refinement_id: str, secrets: list[bytes]) -> set[int]:
    """Return what an API answers to sessions and tokens that are signed with these secrets."""
    found = set()
    with_effect = {"Sec-Fetch-Site": "same-origin", "Hone-Session": key_id}
    async with client(url) as api:
        for secret in secrets:
            signing, ends_at = Signing([secret]), now_ms() + HOUR_MS // 2
            session = signing.signed(ConsoleSession("session", key_id, ends_at))
            headers = {**with_effect, "Cookie": f"{SESSION_COOKIE}={session}"}
            body: dict[str, Any] = {"scopes": ["admin"]}
            found.add((await api.post("/v1/keys", headers=headers, json=body)).status_code)
            token = signing.signed(ReadToken(OPERATOR, refinement_id, key_id, ends_at))
            path = f"/v1/refinements/{refinement_id}?token={token}"
            found.add((await api.get(path)).status_code)
    return found


def settings_of(redis: EmbeddedRedis, **fields: Any) -> Settings:
    return Settings(redis_url=redis.url, port=0, auth="required", **fields)


async def used(url: str, key: str) -> tuple[str, list[bytes]]:
    """Use everything that has a secret; return a refinement, and what no copy may contain."""
    async with client(url, key) as api:
        made = await api.post("/v1/refinements", json={**REQUEST, **WITH_SECRETS})
        refinement_id = made.json()["id"]
        token = (await api.post(f"/v1/refinements/{refinement_id}/tokens")).json()["token"]
        sealed = {"api_key": "sk-of-the-tenant"}
        provider = await api.put("/v1/tenants/default/provider-keys/openai", json=sealed)
        preset = await api.put("/v1/presets/mail", json={"webhook": HOOK})
        own = (await api.post("/v1/endpoints", json={"url": URL})).json()["secret"]
        assert (made.status_code, provider.is_success, preset.is_success) == (202, True, True)
    async with client(url) as page:
        page.headers["Sec-Fetch-Site"] = "same-origin"
        await page.post("/console/session", json={"key": key})
        session = page.cookies[SESSION_COOKIE]
        assert (await page.delete("/console/session")).status_code == 204
    hidden = (key, token, session, own, sealed["api_key"], SECRET, *CANARIES)
    return refinement_id, [it.encode() for it in hidden]


async def assert_no_secret_serves(
    settings: Settings, url: str, key_id: str, refinement_id: str, secrets: list[bytes]
) -> None:
    """Sign sessions, tokens and webhooks, and open what is sealed, with each of these secrets."""
    assert await statuses(url, key_id, refinement_id, secrets) == {401}
    async with open_signing(settings) as signing:
        signatures = (await signing.of(OPERATOR, URL)).secrets
    with Redis.from_url(settings.redis_url) as connection:
        sealed: Any = connection.hget(REQUEST_KEY + refinement_id, "secrets")
    for secret in secrets:
        of_endpoints = EndpointSecrets([derived(secret, OF_ENDPOINTS)])
        assert of_endpoints.secret(OPERATOR, URL, 0) not in signatures
        with pytest.raises(UnreadableSecrets):
            Sealer([derived(secret, PURPOSE)]).open(sealed, refinement_id)
    right = settings.secret_keys[0]
    assert EndpointSecrets([derived(right, OF_ENDPOINTS)]).secret(OPERATOR, URL, 0) in signatures
    assert Sealer([derived(right, PURPOSE)]).open(sealed, refinement_id), "the right key opens it"


@pytest.mark.parametrize("had_no_key_before", [False, True])
async def test_a_copy_of_redis_signs_and_opens_nothing_where_there_is_a_secret_key(
    redis: EmbeddedRedis, tmp_path: Path, had_no_key_before: bool
) -> None:
    if had_no_key_before:
        async with made(settings_of(redis)) as keyring:
            await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
    settings = settings_of(redis, secret_key=SECRET_KEY, **CALLING)
    async with made(settings) as keyring:
        issued = await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
    with running(settings) as url:
        refinement_id, hidden = await used(url, issued.key)
        secrets = copied(redis, tmp_path)
        assert [it for it in hidden if any(it in word for word in secrets)] == []
        with Redis.from_url(redis.url) as connection:
            drawn: Any = connection.hget(ACCESS, "secret")
        assert (drawn is not None) is had_no_key_before
        assert drawn is None or bytes.fromhex(drawn.decode()) in secrets
        await assert_no_secret_serves(settings, url, issued.id, refinement_id, secrets)
        own = [SECRET_KEY.get_secret_value().encode()]
        assert await statuses(url, issued.id, refinement_id, own) == {200, 201}, "the attack works"


async def test_after_a_rotation_the_old_key_with_a_new_copy_serves_for_nothing(
    redis: EmbeddedRedis, tmp_path: Path
) -> None:
    before = settings_of(redis, secret_key=OLD, **CALLING)
    async with made(before) as keyring:
        first = await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
    with running(before) as url:
        refinement_id, _ = await used(url, first.key)
    both = before.model_copy(update={"secret_key": NEW, "secret_key_old": OLD})
    async with made(both) as keyring:
        issued = await keyring.rotate(OPERATOR, first.id, Rotation(overlap_s=0))
    assert "sealed anew" in await asyncio.to_thread(rotated, both)
    after = both.model_copy(update={"secret_key_old": None})
    with running(after) as url:
        secrets = [*copied(redis, tmp_path), OLD.get_secret_value().encode()]
        for key_id in (first.id, issued.id):
            await assert_no_secret_serves(after, url, key_id, refinement_id, secrets)


async def test_without_a_secret_key_a_copy_is_enough_as_the_page_says(
    redis: EmbeddedRedis, tmp_path: Path
) -> None:
    settings = settings_of(redis)
    async with made(settings) as keyring:
        issued = await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
    with running(settings) as url:
        async with client(url, issued.key) as api:
            refinement_id = (await api.post("/v1/refinements", json=REQUEST)).json()["id"]
        secrets = copied(redis, tmp_path)
        assert {200, 201} <= await statuses(url, issued.id, refinement_id, secrets)
    assert not [it for it in secrets if issued.key.encode() in it]


async def test_a_key_made_before_the_secret_key_is_outdated_and_says_which_command_makes_another(
    redis: EmbeddedRedis,
) -> None:
    async with made(settings_of(redis)) as keyring:
        before = await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
    with running(settings_of(redis, secret_key=SECRET_KEY)) as url:
        async with client(url, before.key) as api:
            refused = problem(await api.get("/v1/refinements"), 401, "unauthenticated")
    async with made(settings_of(redis, secret_key=SECRET_KEY)) as keyring:
        after = await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
        outdated = {key.id: key.outdated for key in await keyring.keys(OPERATOR)}
    assert "`hone keys create --admin`" in refused["detail"]
    assert outdated == {before.id: True, after.id: False}


async def test_what_is_signed_for_longer_than_this_service_signs_it_is_refused(
    redis: EmbeddedRedis,
) -> None:
    settings = settings_of(redis, secret_key=SECRET_KEY)
    async with made(settings) as keyring:
        issued = await keyring.create(OPERATOR, KeyRequest())
    signing, years = Signing(settings.secret_keys), now_ms() + 10 * 365 * 24 * HOUR_MS
    with running(settings) as url:
        async with client(url, issued.key) as api:
            refinement_id = (await api.post("/v1/refinements", json=REQUEST)).json()["id"]
        path = f"/v1/refinements/{refinement_id}"
        token = signing.signed(ReadToken(OPERATOR, refinement_id, issued.id, years))
        session = signing.signed(ConsoleSession("session", issued.id, years))
        async with client(url) as stranger:
            assert (await stranger.get(f"{path}?token={token}")).status_code == 401
            cookie = {"Cookie": f"{SESSION_COOKIE}={session}"}
            assert (await stranger.get(path, headers=cookie)).status_code == 401
