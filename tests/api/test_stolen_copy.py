"""A copy of Redis lets nobody in: neither a snapshot nor the append-only file."""

import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from redis import Redis

from app.access import Keyring
from app.access.signed import SESSION_COOKIE, ConsoleSession, ReadToken, Signing
from app.contract.access import OPERATOR, KeyRequest, Scope
from app.local.embedded import EmbeddedRedis
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import open_store
from app.store.keys import ACCESS
from tests.api.api_client import REQUEST, problem
from tests.api.conftest import running
from tests.api.test_access import client

HOUR_MS = 3_600_000
SECRET_KEY = SecretStr("a secret key, kept apart from Redis")


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis.start(tmp_path, aof=True) as server:
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


@pytest.mark.parametrize("had_no_key_before", [False, True])
async def test_a_copy_of_redis_signs_nothing_where_there_is_a_secret_key(
    redis: EmbeddedRedis, tmp_path: Path, had_no_key_before: bool
) -> None:
    if had_no_key_before:
        async with made(settings_of(redis)) as keyring:
            await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
    settings = settings_of(redis, secret_key=SECRET_KEY)
    async with made(settings) as keyring:
        issued = await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
    with running(settings) as url:
        async with client(url, issued.key) as api:
            refinement_id = (await api.post("/v1/refinements", json=REQUEST)).json()["id"]
            token = await api.post(f"/v1/refinements/{refinement_id}/tokens")
            assert token.status_code == 201
        secrets = copied(redis, tmp_path)
        with Redis.from_url(redis.url) as connection:
            drawn: Any = connection.hget(ACCESS, "secret")
        assert (drawn is not None) is had_no_key_before
        assert drawn is None or bytes.fromhex(drawn.decode()) in secrets
        assert await statuses(url, issued.id, refinement_id, secrets) == {401}
        own = [SECRET_KEY.get_secret_value().encode()]
        assert await statuses(url, issued.id, refinement_id, own) == {200, 201}, "the attack works"


async def test_a_key_made_before_the_secret_key_says_which_command_makes_another(
    redis: EmbeddedRedis,
) -> None:
    async with made(settings_of(redis)) as keyring:
        before = await keyring.create(OPERATOR, KeyRequest(scopes=tuple(Scope)))
    with running(settings_of(redis, secret_key=SECRET_KEY)) as url:
        async with client(url, before.key) as api:
            refused = problem(await api.get("/v1/refinements"), 401, "unauthenticated")
    assert "`hone keys create --admin`" in refused["detail"]


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
