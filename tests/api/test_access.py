"""API keys: who is let in, and what a key allows."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from app.access.callers import Directory
from app.access.keyring import Keyring
from app.api.middleware import TRUSTED_S, scope_needed
from app.contract.access import OPERATOR, KeyRequest, Rotation, Scope
from app.contract.errors import InvalidRequest
from app.settings import Settings
from app.store import Store
from app.store.redis.keys import API_KEYS, ARCHIVE, ENTRIES_OF
from tests.api.api_client import REQUEST, problem
from tests.api.conftest import running
from tests.store.store_harness import subscribers
from tests.waiting import TIMEOUT_S

OPENAPI = Path(__file__).parents[2] / "openapi/openapi.json"
JSON = {"Accept": "application/json"}
EVERYTHING = KeyRequest(scopes=tuple(Scope))


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    """Settings with a secret key, because the tests empty the Redis that has the random one."""
    secret = SecretStr("a secret of the tests")
    return settings.model_copy(update={"secret_key": secret, "auth": "auto"})


@pytest.fixture(scope="module")
def guarded(settings: Settings) -> Iterator[str]:
    """An API that requires keys."""
    with running(settings.model_copy(update={"auth": "required"})) as url:
        yield url


@pytest.fixture
def keyring(store: Store, settings: Settings) -> Keyring:
    return Keyring(store.access, settings)


@asynccontextmanager
async def client(url: str, key: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_S) as made:
        yield made


async def is_let_in(url: str, key: str | None) -> bool:
    async with client(url, key) as api:
        response = await api.get("/v1/refinements")
    if response.status_code == 401:
        problem(response, 401, "unauthenticated")
        assert response.headers["www-authenticate"] == "Bearer"
    return response.status_code == 200


async def until(url: str, key: str | None, *, is_in: bool) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while await is_let_in(url, key) is not is_in:  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.05)


async def test_a_key_lets_in_and_nothing_else_does(guarded: str, keyring: Keyring) -> None:
    key = (await keyring.create(OPERATOR, KeyRequest())).key
    wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
    assert await is_let_in(guarded, key)
    for other in (None, wrong, key + "x", key.replace("hone_", "hone-"), "hone_x_y", key[5:]):
        assert not await is_let_in(guarded, other)
    async with client(guarded) as api:
        for headers in ({"Authorization": key}, {"Authorization": f"Basic {key}"}):
            problem(await api.get("/v1/models", headers=headers), 401, "unauthenticated")
        twice = [("Authorization", f"Bearer {key}")] * 2
        problem(await api.get("/v1/models", headers=twice), 401, "unauthenticated")
        assert (
            await api.get("/v1/models", headers={"Authorization": f"bearer {key}"})
        ).status_code == 200
        assert (await api.get("/healthz")).status_code == 200
        assert (await api.get("/openapi.json")).status_code == 200


async def test_what_is_stored_of_a_key_does_not_let_in(
    guarded: str, keyring: Keyring, redis_url: str
) -> None:
    key = (await keyring.create(OPERATOR, EVERYTHING)).key
    secret = key.rpartition("_")[2].encode()
    async with client(guarded, key) as api:
        await api.post("/v1/refinements", json=REQUEST)
    with Redis.from_url(redis_url) as redis:
        stored = b" ".join(redis.dump(name) or b"" for name in redis.scan_iter())
    assert secret not in stored


async def test_a_key_allows_what_its_scopes_say(guarded: str, keyring: Keyring) -> None:
    reading = (await keyring.create(OPERATOR, KeyRequest(scopes=(Scope.READ,)))).key
    async with client(guarded, reading) as api:
        assert (await api.get("/v1/refinements")).status_code == 200
        found = problem(await api.post("/v1/refinements", json=REQUEST), 403, "forbidden")
        assert "`submit`" in found["detail"]
        problem(await api.get("/v1/keys"), 403, "forbidden")


def paths_of_api() -> dict[str, Any]:
    paths: dict[str, Any] = json.loads(OPENAPI.read_text())["paths"]
    return paths


def test_a_name_that_a_client_chose_never_decides_which_scope_is_needed() -> None:
    paths = paths_of_api()
    words = {word for path in paths for word in path.split("/") if word and "{" not in word}
    for path, operations in paths.items():
        for word in words if "{" in path else ():
            named = re.sub(r"\{\w+\}", word, path)
            for method in map(str.upper, operations):
                assert scope_needed(method, named) == scope_needed(method, path), (method, named)


@pytest.mark.parametrize("scope", [Scope.READ, Scope.REVIEW, Scope.ADMIN])
async def test_a_key_that_may_not_submit_changes_no_preset_whatever_its_name(
    guarded: str, keyring: Keyring, scope: Scope
) -> None:
    key = (await keyring.create(OPERATOR, KeyRequest(scopes=(scope,)))).key
    words = sorted(set(re.findall(r"/([a-z][a-z-]*)", " ".join(paths_of_api()))))
    assert {"tokens", "reviews", "ratings", "keys", "events", "request"} <= set(words)
    async with client(guarded, key) as api:
        for name in (*words, "a%2Ftokens", "..%2Frefinements%2Fx%2Ftokens"):
            put = await api.put(f"/v1/presets/{name}", json={"threshold": 0.5})
            assert put.status_code in {403, 404, 405}, name
            assert (await api.delete(f"/v1/presets/{name}")).status_code in {403, 404, 405}, name
    submitting = (await keyring.create(OPERATOR, EVERYTHING)).key
    async with client(guarded, submitting) as api:
        assert (await api.get("/v1/presets")).json()["data"] == []


async def test_a_revoked_key_is_refused_by_every_process_and_its_streams_end(
    guarded: str, settings: Settings, keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    issued = await keyring.create(OPERATOR, EVERYTHING)
    other = await keyring.create(OPERATOR, EVERYTHING)
    with running(settings) as second:
        assert await is_let_in(second, issued.key)
        async with client(guarded, issued.key) as api:
            submitted = await api.post("/v1/refinements", json=REQUEST)
            path = submitted.headers["location"]
            async with api.stream("GET", f"{path}/events") as response:
                lines = response.aiter_lines()
                while await anext(lines) != "id: 1":
                    pass
                await keyring.revoke(OPERATOR, issued.id)
                await until(guarded, issued.key, is_in=False)
                await until(second, issued.key, is_in=False)
                async with client(guarded, other.key) as admin:
                    assert (await admin.post(f"{path}/cancel")).status_code == 202
                assert "id: 2" not in [line async for line in lines]
    shown = await keyring.get(OPERATOR, issued.id)
    await keyring.revoke(OPERATOR, issued.id)
    assert shown.revoked_at
    assert [it.message for it in caplog.records if it.levelno >= logging.ERROR] == []
    assert shown == await keyring.get(OPERATOR, issued.id)


async def test_a_long_poll_is_refused_when_its_key_was_revoked_meanwhile(
    guarded: str, keyring: Keyring, redis_url: str
) -> None:
    issued, other = [await keyring.create(OPERATOR, EVERYTHING) for _ in range(2)]
    async with (
        client(guarded, issued.key) as api,
        client(guarded, other.key) as admin,
        AsyncRedis.from_url(redis_url) as redis,
    ):
        path = (await api.post("/v1/refinements", json=REQUEST)).headers["location"]
        waiting = asyncio.create_task(api.get(path, params={"wait": 60}))
        posting = asyncio.create_task(
            api.post("/v1/refinements", json=REQUEST, headers={"Prefer": "wait=60"})
        )
        async with asyncio.timeout(TIMEOUT_S):
            while len(ids := await awaited(admin, redis)) < 2:  # noqa: ASYNC110 - Redis does not tell
                await asyncio.sleep(0.01)
        await keyring.revoke(OPERATOR, issued.id)
        await until(guarded, issued.key, is_in=False)
        await asyncio.sleep(TRUSTED_S)
        for refinement_id in ids:
            assert (await admin.post(f"/v1/refinements/{refinement_id}/cancel")).is_success
        for answer in (await waiting, await posting):
            assert "stopped working" in problem(answer, 401, "unauthenticated")["detail"]
            assert answer.headers["www-authenticate"] == "Bearer"


async def awaited(admin: httpx.AsyncClient, redis: AsyncRedis) -> list[str]:
    """Return the refinements whose next event a request waits for."""
    listed = (await admin.get("/v1/refinements")).json()["data"]
    return [it["id"] for it in listed if await subscribers(redis, ENTRIES_OF + it["id"])]


async def test_both_keys_work_during_a_rotation(guarded: str, keyring: Keyring) -> None:
    old = await keyring.create(OPERATOR, KeyRequest(tenant="acme", name="mail"))
    new = await keyring.rotate(OPERATOR, old.id, Rotation())
    assert await is_let_in(guarded, old.key)
    assert await is_let_in(guarded, new.key)
    assert (new.tenant, new.name, new.scopes) == (old.tenant, old.name, old.scopes)
    replaced = await keyring.get(OPERATOR, old.id)
    assert replaced.replaced_by == new.id
    assert replaced.expires_at
    await keyring.rotate(OPERATOR, new.id, Rotation(overlap_s=0))
    await until(guarded, new.key, is_in=False)
    with pytest.raises(InvalidRequest, match="revoked or has expired"):
        await keyring.rotate(OPERATOR, new.id, Rotation())


async def test_a_key_expires(guarded: str, store: Store, keyring: Keyring) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    issued = await keyring.create(OPERATOR, KeyRequest(expires_at=later))
    assert await is_let_in(guarded, issued.key)
    (before,) = await store.access.get([issued.id])
    assert before
    soon = datetime.now(UTC) + timedelta(seconds=1)
    expires = replace(before, expires_at=round(soon.timestamp() * 1000))
    assert await store.access.put((before, expires))
    await until(guarded, issued.key, is_in=False)
    with pytest.raises(InvalidRequest, match="in the future"):
        await keyring.create(OPERATOR, KeyRequest(expires_at=soon))


KNOWN_PROXIES = (
    "Via",
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Server",
    "X-Real-IP",
    "CF-Connecting-IP",
    "True-Client-IP",
    "X-Client-IP",
    "X-Cluster-Client-Ip",
)


async def raw_answer(url: str, request: bytes) -> bytes:
    """Return the first line of what an API answers to these bytes, as a plain proxy sends them."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return line


async def test_on_loopback_no_key_is_needed_until_there_is_one_and_never_again(
    settings: Settings, keyring: Keyring
) -> None:
    named = settings.model_copy(update={"allowed_hosts": "hone.example.com"})
    with running(named) as url:
        assert await is_let_in(url, None)
        old = b"GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"
        assert b"401" in await raw_answer(url, old)
        assert not await is_let_in(url, "hone_unknown")
        async with client(url) as api:
            for header in (*KNOWN_PROXIES, "Host"):
                name = "hone.example.com" if header == "Host" else "for=10.0.0.1"
                response = await api.get("/v1/refinements", headers={header: name})
                assert "proxy" in problem(response, 401, "unauthenticated")["detail"], header
            refused = problem(await api.get("/v1/keys"), 403, "forbidden")
            assert "hone keys create" in refused["detail"]
        issued = await keyring.create(OPERATOR, KeyRequest())
        await until(url, None, is_in=False)
        assert await is_let_in(url, issued.key)
        async with client(url, issued.key) as api:
            forwarded = await api.get("/v1/refinements", headers={"X-Forwarded-For": "10.0.0.1"})
            assert forwarded.status_code == 200
        await keyring.revoke(OPERATOR, issued.id)
        await until(url, issued.key, is_in=False)
        assert not await is_let_in(url, None)
    with running(settings) as url:
        assert not await is_let_in(url, None)


async def test_on_another_address_a_server_without_keys_refuses_all_and_says_how_to_create_one(
    settings: Settings, keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with running(settings.model_copy(update={"host": "0.0.0.0"})) as url:
        async with client(url) as api:
            refused = problem(await api.get("/v1/refinements"), 401, "unauthenticated")
            assert "hone keys create" in refused["detail"]
            assert (await api.get("/healthz")).status_code == 200
        assert await is_let_in(url, (await keyring.create(OPERATOR, KeyRequest())).key)
    assert "hone keys create" in caplog.text


async def test_authentication_can_be_left_to_a_proxy(settings: Settings, keyring: Keyring) -> None:
    await keyring.create(OPERATOR, KeyRequest())
    off = settings.model_copy(update={"auth": "off", "host": "0.0.0.0"})
    with running(off) as url:
        async with client(url) as api:
            response = await api.get("/v1/refinements", headers={"X-Forwarded-For": "10.0.0.1"})
            assert response.status_code == 200
            problem(await api.post("/v1/keys"), 403, "forbidden")


async def test_a_token_in_the_url_reads_for_its_time_and_is_not_logged(
    guarded: str, keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    issued = await keyring.create(OPERATOR, EVERYTHING)
    async with client(guarded, issued.key) as api:
        path = (await api.post("/v1/refinements", json=REQUEST)).headers["location"]
        made = (await api.post(f"{path}/tokens", json={"expires_in_s": 300})).json()
        brief = (await api.post(f"{path}/tokens", json={"expires_in_s": 1})).json()["token"]
        problem(await api.post(f"{path}/tokens", json={"expires_in_s": 0}), 422, "invalid_request")
    token = made["token"]
    for name in ("httpx", "httpcore"):  # the client of this test logs the URL
        caplog.set_level(logging.WARNING, name)
    async with client(guarded) as api:
        page = await api.get(f"{path}/events?token={token}&limit=1", headers=JSON)
        assert page.json()["data"][0]["event"] == 1
        for part in ("request", "webhooks"):
            problem(await api.get(f"{path}/{part}?token={token}"), 403, "forbidden")
        refused = await api.get(f"{path}/events", params={"token": token, "after": "x"})
        assert token not in problem(refused, 422, "invalid_request")["instance"]
        forged = token[:-5] + ("A" if token[-5] != "A" else "B") + token[-4:]
        problem(await api.get(f"{path}?token={forged}"), 401, "unauthenticated")
        async with asyncio.timeout(TIMEOUT_S):
            while (await api.get(f"{path}?token={brief}")).status_code == 200:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await keyring.revoke(OPERATOR, issued.id)
        async with asyncio.timeout(TIMEOUT_S):
            while (await api.get(f"{path}?token={token}")).status_code == 200:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    assert token not in caplog.text


@pytest.mark.parametrize("token", ["", "%", "%C3%A4", "%FF%00", "honet_.", "honet_e30."])
async def test_what_is_no_token_is_refused_in_a_url_whatever_its_bytes(
    guarded: str, keyring: Keyring, token: str
) -> None:
    await keyring.create(OPERATOR, EVERYTHING)
    async with client(guarded) as api:
        problem(
            await api.get(f"/v1/statistics?of=insights&token={token}&by=%C3%A4"),
            401,
            "unauthenticated",
        )


async def test_a_key_in_a_url_lets_nobody_in(guarded: str, keyring: Keyring) -> None:
    issued = await keyring.create(OPERATOR, EVERYTHING)
    async with client(guarded) as api:
        for method in ("GET", "POST"):
            refused = await api.request(method, "/v1/refinements", params={"token": issued.key})
            problem(refused, 401, "unauthenticated")


async def test_a_token_leaves_the_rest_of_the_query_as_it_is(
    guarded: str, keyring: Keyring
) -> None:
    issued = await keyring.create(OPERATOR, EVERYTHING)
    async with client(guarded, issued.key) as api:
        path = (await api.post("/v1/refinements", json=REQUEST)).headers["location"]
        token = (await api.post(f"{path}/tokens")).json()["token"]
    async with client(guarded) as api:
        query = {"token": token, "path": "\N{SNOWMAN} a+b%41", "from": "0", "to": "1"}
        refused = problem(await api.get(f"{path}/diff", params=query), 404, "not_found")
    assert query["path"] in refused["detail"]


async def test_when_a_key_was_used_is_noted(
    settings: Settings, store: Store, keyring: Keyring
) -> None:
    issued = await keyring.create(OPERATOR, KeyRequest())
    assert issued.last_used_at is None
    async with Directory(store.access, settings) as directory:
        await directory.caller(issued.key.encode())
    assert (await keyring.get(OPERATOR, issued.id)).last_used_at


async def test_administrators_manage_keys_over_http(guarded: str, keyring: Keyring) -> None:
    admin = (await keyring.create(OPERATOR, EVERYTHING)).key
    async with client(guarded, admin) as api:
        made = await api.post("/v1/keys", json={"tenant": "acme", "scopes": ["admin", "read"]})
        assert made.status_code == 201, made.text
        acme: dict[str, Any] = made.json()
        assert acme["tenant"] == "acme"
        listed = (await api.get("/v1/keys")).json()["data"]
        assert len(listed) == 2
        assert "key" not in listed[0]
        bad = await api.post("/v1/keys", json={"scopes": ["read", "read"], "tenant": "a:b"})
        pointers = {it["pointer"] for it in problem(bad, 422, "invalid_request")["errors"]}
        assert pointers == {"/scopes", "/tenant"}
    async with client(guarded, acme["key"]) as api:
        assert [it["id"] for it in (await api.get("/v1/keys")).json()["data"]] == [acme["id"]]
        refused = await api.post("/v1/keys", json={"tenant": "default"})
        problem(refused, 403, "forbidden")
        own = (await api.post("/v1/keys")).json()
        assert own["tenant"] == "acme"
        rotated = await api.post(f"/v1/keys/{own['id']}/rotate", json={"overlap_s": 0})
        assert rotated.status_code == 201
        assert (await api.delete(f"/v1/keys/{rotated.json()['id']}")).status_code == 204
        foreign, unknown = listed[1]["id"], "key_000000000000"
        for path in ("", "/rotate"):
            answers = [
                await api.request("POST" if path else "GET", f"/v1/keys/{it}{path}")
                for it in (foreign, unknown)
            ]
            bodies = [
                problem(answer, 404, "not_found")["detail"].replace(it, "")
                for answer, it in zip(answers, (foreign, unknown), strict=True)
            ]
            assert bodies[0] == bodies[1]


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-14:00"])
async def test_a_key_may_expire_at_the_end_of_the_calendar(
    at: str, guarded: str, keyring: Keyring
) -> None:
    admin = (await keyring.create(OPERATOR, EVERYTHING)).key
    async with client(guarded, admin) as api:
        made = await api.post("/v1/keys", json={"expires_at": at})
        assert (made.status_code, made.json()["expires_at"][:4]) == (201, "9999")
        assert len((await api.get("/v1/keys")).json()["data"]) == 2
        seconds = await api.post("/v1/keys", json={"expires_at": "4102444800"})
        problem(seconds, 422, "invalid_request")


async def test_only_the_operator_is_told_why_the_archive_fails(
    guarded: str, keyring: Keyring, redis_url: str
) -> None:
    why = "no right to PUT http://store:9000/bucket/hone/other/ref_1"
    with Redis.from_url(redis_url) as redis:
        redis.hset(ARCHIVE, mapping={"failing_since": "1", "error": why})
    warnings = {}
    for tenant in (OPERATOR, "acme"):
        issued = await keyring.create(OPERATOR, KeyRequest(tenant=tenant))
        async with client(guarded, issued.key) as api:
            warnings[tenant] = " ".join((await api.get("/readyz")).json()["warnings"])
    assert why in warnings[OPERATOR]
    assert "the archive fails" in warnings["acme"]
    assert "store" not in warnings["acme"]


async def test_what_a_later_release_stored_with_a_key_is_kept(
    keyring: Keyring, redis_url: str
) -> None:
    issued = await keyring.create(OPERATOR, KeyRequest(scopes=(Scope.READ,)))
    with Redis.from_url(redis_url) as redis:
        stored = json.loads(redis.hget(API_KEYS, issued.id) or b"")
        later = json.dumps({**stored, "mood": "good", "scopes": ["read", "fly"]})
        redis.hset(API_KEYS, issued.id, later)
        await keyring.revoke(OPERATOR, issued.id)
        assert json.loads(redis.hget(API_KEYS, issued.id) or b"")["mood"] == "good"
    assert (await keyring.get(OPERATOR, issued.id)).scopes == (Scope.READ,)


async def test_a_page_acts_as_the_key_that_it_was_loaded_with_or_not_at_all(
    guarded: str, keyring: Keyring
) -> None:
    first, second = [await keyring.create(OPERATOR, EVERYTHING) for _ in range(2)]
    async with client(guarded) as page:
        page.headers["Sec-Fetch-Site"] = "same-origin"
        await page.post("/console/session", json={"key": second.key})
        for path in ("/v1/refinements", "/v1/refinements/ref_1/events"):
            refused = await page.get(path, headers={"Hone-Session": first.id})
            problem(refused, 401, "unauthenticated")
        for headers, status in (
            ({"Hone-Session": first.id}, 401),
            ({"Hone-Session": "none"}, 401),
            ({"Hone-Session": second.id}, 202),
            ({}, 403),
        ):
            response = await page.post("/v1/refinements", json=REQUEST, headers=headers)
            assert response.status_code == status
        await page.delete("/console/session")
        refused = await page.get("/v1/refinements", headers={"Hone-Session": second.id})
        problem(refused, 401, "unauthenticated")


async def test_a_copied_cookie_works_in_no_process_after_the_sign_out(
    guarded: str, settings: Settings, keyring: Keyring
) -> None:
    issued = await keyring.create(OPERATOR, EVERYTHING)
    with running(settings.model_copy(update={"auth": "required"})) as other:
        async with client(guarded) as page, client(other) as thief:
            for it in (page, thief):
                it.headers["Sec-Fetch-Site"] = "same-origin"
            await page.post("/console/session", json={"key": issued.key})
            copied = {"Cookie": f"hone_session={page.cookies['hone_session']}"}
            assert (await thief.get("/v1/refinements", headers=copied)).status_code == 200
            await page.delete("/console/session")
            for url in (guarded, other):
                async with asyncio.timeout(TIMEOUT_S):
                    path = f"{url}/v1/refinements"
                    while (answer := await thief.get(path, headers=copied)).status_code == 200:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                problem(answer, 401, "unauthenticated")
        async with client(guarded, issued.key) as admin:
            done = [entry for entry in await audited(admin) if entry[1] != "refused"]
    assert [entry[:2] for entry in done] == [(issued.id, "signOut"), (issued.id, "signIn")]


async def test_signing_out_ends_the_session_that_acts_beside_that_of_a_server_above(
    guarded: str, keyring: Keyring
) -> None:
    issued = await keyring.create(OPERATOR, EVERYTHING)
    async with client(guarded) as page:
        page.headers["Sec-Fetch-Site"] = "same-origin"
        begun = await page.post("/console/session", json={"key": issued.key})
        session = begun.cookies["hone_session"]
    both = {"Cookie": f"hone_session={session}; hone_session=hones_of.another"}
    async with client(guarded) as browser:
        browser.headers["Sec-Fetch-Site"] = "same-origin"
        assert (await browser.get("/console/session", headers=both)).status_code == 200
        assert (await browser.delete("/console/session", headers=both)).status_code == 204
        assert (await browser.get("/console/session", headers=both)).status_code == 401


async def test_what_the_operator_does_with_a_tenant_is_in_the_logs_of_both(
    guarded: str, keyring: Keyring
) -> None:
    operator = await keyring.create(OPERATOR, EVERYTHING)
    async with client(guarded, operator.key) as api:
        made = (await api.post("/v1/keys", json={"tenant": "acme", "scopes": ["admin"]})).json()
        await api.put("/v1/tenants/acme/quotas", json={"queued": 5})
        await api.get("/v1/audit?tenant=acme")
        await api.delete(f"/v1/keys/{made['id']}")
        logs = [
            (await api.get(f"/v1/audit?tenant={it}")).json()["data"] for it in ("acme", OPERATOR)
        ]
    for log in logs:
        done = [it for it in log if it["by"] == operator.id][-4:]
        assert [(it["action"], it["about"]) for it in done] == [
            ("revokeKey", made["id"]),
            ("listActions", "acme"),
            ("setQuotas", "acme"),
            ("createKey", made["id"]),
        ]


async def test_a_tenant_has_a_thousand_keys_and_those_that_ended_make_room(
    guarded: str, store: Store, keyring: Keyring
) -> None:
    admin = await keyring.create(OPERATOR, EVERYTHING)
    (record,) = await store.access.get([admin.id])
    assert record
    await store.access.put(*((None, replace(record, id=f"key_{it:012}")) for it in range(999)))
    async with client(guarded, admin.key) as api:
        refused = problem(await api.post("/v1/keys"), 409, "conflict")
        assert "revoke one" in refused["detail"]
        problem(await api.post(f"/v1/keys/{admin.id}/rotate"), 409, "conflict")
        await api.delete("/v1/keys/key_000000000007")
        assert (await api.post("/v1/keys")).status_code == 201
        problem(await api.get("/v1/keys/key_000000000007"), 404, "not_found")
        first = await api.get("/v1/keys", params={"limit": 600})
        rest = await api.get(first.links["next"]["url"])
    listed = [it["id"] for page in (first, rest) for it in page.json()["data"]]
    assert len(listed) == len({*listed}) == 1_000
    assert (first.json()["has_more"], rest.json()["has_more"]) == (True, False)


async def audited(api: httpx.AsyncClient) -> list[tuple[str, str, str]]:
    """Return who did what about what, by the audit log."""
    log = (await api.get("/v1/audit", params={"limit": 1_000})).json()["data"]
    return [(entry["by"], entry["action"], entry["about"]) for entry in log]


async def test_signing_in_with_a_revoked_key_is_counted_as_refused(
    guarded: str, keyring: Keyring
) -> None:
    admin, ended = [await keyring.create(OPERATOR, EVERYTHING) for _ in range(2)]
    await keyring.revoke(OPERATOR, ended.id)
    async with client(guarded, admin.key) as api:
        async with asyncio.timeout(TIMEOUT_S):
            while True:  # every process refuses a revoked key within a second
                refused = await api.post("/console/session", json={"key": ended.key})
                if refused.status_code != 204:
                    break
            problem(refused, 401, "unauthenticated")
            while (ended.id, "refused", "401") not in await audited(api):  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def test_refused_requests_are_one_entry_a_minute_and_push_no_action_out(
    guarded: str, settings: Settings, keyring: Keyring
) -> None:
    admin, ended = [await keyring.create(OPERATOR, EVERYTHING) for _ in range(2)]
    limited = await keyring.create(OPERATOR, KeyRequest(scopes=(Scope.READ,)))
    async with client(guarded, admin.key) as api:
        for _ in range(100):
            await api.post(f"/v1/keys/{admin.id}/rotate", json={"overlap_s": 3600})
        await api.delete(f"/v1/keys/{ended.id}")
        with running(settings.model_copy(update={"auth": "required"})) as other:
            for url in (guarded, other):
                async with client(url, ended.key) as refused, client(url, limited.key) as reader:
                    for _ in range(50):
                        problem(await refused.get("/v1/models"), 401, "unauthenticated")
                        problem(await reader.post("/v1/refinements"), 403, "forbidden")
        async with asyncio.timeout(TIMEOUT_S):
            while True:  # refusals are counted within seconds
                log = (await api.get("/v1/audit", params={"limit": 1000})).json()["data"]
                own = [it for it in log if it["by"] in {ended.id, limited.id}]
                if sum(it["count"] for it in own) >= 200:
                    break
                await asyncio.sleep(0.1)
        lines = (await api.get("/v1/audit", headers={"Accept": "application/jsonl"})).text
    assert [json.loads(it) for it in lines.splitlines()] == log
    assert len([it for it in log if it["action"] == "rotateKey"]) == 100
    counted = [it for it in log if it["action"] == "refused"]
    for key, status in ((ended, "401"), (limited, "403")):
        own = [it for it in counted if it["by"] == key.id]
        assert sum(it["count"] for it in own) == 100
        assert {it["about"] for it in own} == {status}
        assert len({it["at"][:16] for it in own}) == len(own) <= 2  # a new minute may begin


async def test_a_key_that_reads_nothing_begins_no_session(guarded: str, keyring: Keyring) -> None:
    key = await keyring.create(OPERATOR, KeyRequest(scopes=(Scope.SUBMIT,)))
    async with client(guarded) as page:
        refused = await page.post("/console/session", json={"key": key.key})
        assert "the console needs (`read`)" in problem(refused, 403, "forbidden")["detail"]
        assert "set-cookie" not in refused.headers


async def test_without_fetch_metadata_a_session_acts_for_the_origin_of_the_server_alone(
    guarded: str, keyring: Keyring
) -> None:
    """Browsers send no `Sec-Fetch-Site` over plain HTTP, unless it is to loopback."""
    key = await keyring.create(OPERATOR, EVERYTHING)
    async with client(guarded) as page:
        signed_in = await page.post("/console/session", json={"key": key.key})
        assert "secure" not in signed_in.headers["set-cookie"].lower()
        secure = guarded.replace("http:", "https:")
        proxied = {"X-Forwarded-Proto": "https"}
        for headers, status in (
            ({"Origin": guarded}, 202),
            ({"Origin": secure}, 403),
            ({"Origin": secure, **proxied}, 202),
            ({"Origin": guarded, **proxied}, 403),
            ({"Origin": guarded, "Sec-Fetch-Site": "same-site"}, 403),
            ({"Origin": "http://127.0.0.1"}, 403),
            ({"Origin": guarded, "Hone-Session": ""}, 401),
            ({}, 403),
        ):
            said = {"Hone-Session": key.id, **headers}
            response = await page.post("/v1/refinements", json=REQUEST, headers=said)
            assert response.status_code == status, headers
        signed_in = await page.post("/console/session", json={"key": key.key}, headers=proxied)
        assert "secure" in signed_in.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
    ],
)
async def test_pages_of_other_origins_read_nothing_with_a_session(
    guarded: str, keyring: Keyring, headers: dict[str, str], status: int
) -> None:
    key = await keyring.create(OPERATOR, EVERYTHING)
    async with client(guarded) as page:
        await page.post("/console/session", json={"key": key.key})
        for path in ("/v1/refinements", "/console/session"):
            response = await page.get(path, headers=headers)
            assert response.status_code == status
        missing = await page.get("/v1/refinements/ref_1", headers=headers)
        assert missing.status_code == (404 if status == 200 else 403)
        assert (await page.get("/console/new", headers=headers)).status_code == 200
