"""A tenant is exported and erased whole."""

import json
import re
from collections.abc import AsyncIterator, Callable
from fnmatch import fnmatchcase
from typing import Any

import httpx
import pytest
from redis import Redis

from app.access.keyring import Keyring
from app.access.tenants import Tenants, erase_tenant, exported_tenant
from app.contract.access import OPERATOR, KeyRequest, Quotas
from app.settings import Settings
from app.store import Store, WorkerStore
from app.store.cells import Cells
from app.store.redis import keys
from tests.api.api_client import DRAFT, REQUEST, ended, problem, submitted
from tests.api.conftest import requiring_keys
from tests.waiting import TIMEOUT_S

ACME = "acme-of-the-tests"
METADATA = {"of": "nobody-else"}


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    return requiring_keys(settings)


@pytest.fixture
async def api(guarded: str, settings: Settings, store: Store) -> AsyncIterator[httpx.AsyncClient]:
    issued = await Keyring(store.access, settings).create(OPERATOR, KeyRequest(tenant=ACME))
    headers = {"Authorization": f"Bearer {issued.key}"}
    async with httpx.AsyncClient(base_url=guarded, headers=headers, timeout=TIMEOUT_S) as client:
        yield client


def named_in_the_list_of_keys() -> list[str]:
    """Return a key of the tenant for each line of the list that names one."""
    listed = re.findall(r"(?m)^(hone:1:\S*TENANT\S*)", keys.__doc__ or "")
    return [it.replace("TENANT", ACME) for it in listed]


def traces(redis: Any) -> dict[str, str]:
    """Return all keys with what they hold, as text."""
    readers: dict[str, Callable[[str], object]] = {
        "string": redis.get,
        "hash": redis.hgetall,
        "zset": lambda name: redis.zrange(name, 0, -1),
        "set": redis.smembers,
        "list": lambda name: redis.lrange(name, 0, -1),
        "stream": redis.xrange,
        "none": lambda _name: "",  # it expired since it was found
    }
    found = [name.decode() for name in redis.scan_iter()]
    return {name: str(readers[redis.type(name).decode()](name)) for name in found}


async def test_a_tenant_is_exported_whole(
    api: httpx.AsyncClient, store: Store, worker: WorkerStore
) -> None:
    first = await ended(api, worker, metadata=METADATA)
    second = await submitted(api)
    lines = [json.loads(json.dumps(it)) async for it in exported_tenant(Cells([store]), ACME)]
    refinements = [it for it in lines if it["kind"] == "refinement"]
    assert [it["snapshot"]["id"] for it in refinements] == [second, first]
    (newest, oldest) = refinements
    assert oldest["request"]["draft"] == DRAFT
    assert [it["event"] for it in oldest["events"]] == [
        *range(1, oldest["snapshot"]["last_event"] + 1)
    ]
    assert newest["snapshot"]["status"] == "queued"
    assert [it["action"] for it in lines if it["kind"] == "action"] == ["submitRefinement"] * 2
    assert len([it for it in lines if it["kind"] == "key"]) == 1
    assert "hash" not in json.dumps([it for it in lines if it["kind"] == "key"])


async def test_what_an_erased_tenant_had_beside_refinements_leaves_the_file_of_redis_as_well(
    api: httpx.AsyncClient, store: Store, redis_url: str
) -> None:
    await api.put("/v1/presets/mail", json={"instructions": {"generator": "Sign as Ann."}})
    await erase_tenant(Cells([store]), ACME)
    with Redis.from_url(redis_url) as redis:
        assert redis.hexists(keys.ERASURES, "since")


async def test_nothing_of_an_erased_tenant_is_left_but_what_was_done(
    api: httpx.AsyncClient, store: Store, worker: WorkerStore, redis_url: str
) -> None:
    with Redis.from_url(redis_url) as redis:
        redis.hset(keys.SLOTS, "worker", "0")  # so that what is submitted stands in line
    erased = [await ended(api, worker, metadata=METADATA), await submitted(api)]
    batch = json.dumps({"custom_id": "acme", "request": REQUEST})
    await api.post("/v1/batches", content=batch, headers={"Content-Type": "application/jsonl"})
    await Tenants(store.access).set_quotas(OPERATOR, ACME, Quotas(queued=5))
    with Redis.from_url(redis_url) as redis:
        before = traces(redis)
        for name in named_in_the_list_of_keys():
            if name.startswith(keys.SIGNATURES):
                redis.hset(name, "ref_gone", "what was learnt")  # scripts delete fields of it
            elif name == keys.PROPOSALS + ACME:
                redis.sadd(name, "prop_gone")  # an erasure looks for those made from the text
            elif name not in before:
                redis.set(name, "what was learnt")
        redis.zadd(keys.TURNS, {"another": 0, ACME: 9})  # it has submitted of late, as has another
        redis.zadd(keys.LINE + "another", {"ref_gone": 1})
        redis.hset(keys.CHANGES, ACME, "1")
        own = [key.id for key in await store.access.all() if key.tenant == ACME]
        other = await Keyring(store.access, Settings()).create(OPERATOR, KeyRequest())
        assert await erase_tenant(Cells([store]), ACME) == len(erased)
        await store.access.used(dict.fromkeys(own, 1))  # an API process notes it later
        left = traces(redis)
    log = left.pop(keys.AUDIT + ACME)
    left.pop(keys.COUNTED + ACME)
    assert all(it in log for it in erased)
    assert other.id in left[keys.API_KEYS]
    assert not any(key_id in left.get(keys.KEY_USES, "") for key_id in own)
    for name, content in left.items():
        assert not fnmatchcase(name, "*acme*"), name
        assert ACME not in content, name
        assert "Second line." not in content, name
    problem(await api.get("/v1/refinements"), 401, "unauthenticated")
