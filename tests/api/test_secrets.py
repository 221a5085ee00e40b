"""Secrets of endpoints are stored encrypted and shown nowhere; workers have them."""

from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from app.contract.endpoints import MASK
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import UnreadableRecord, WorkerStore, open_worker_store
from tests.api.api_client import REQUEST, ManualWorker, problem, submitted
from tests.local_endpoint import SECRET
from tests.store.store_harness import everything

TOKEN, OF_TOOL = "Bearer canary-4711", "canary-4712"
CANARIES = (TOKEN, OF_TOOL, SECRET)
CHECK: dict[str, Any] = {"kind": "http", "url": "https://checks.example.com"}
TOOL = {"name": "find", "description": "Finds.", "url": "https://e.com", "parameters": {}}
WITH_SECRETS: dict[str, Any] = {
    "draft": None,
    "strategy": {"kind": "plan_execute"},
    "validators": [
        {"kind": "length", "max_words": 9},
        {**CHECK, "headers": {"Authorization": TOKEN}, "secret": SECRET},
    ],
    "tools": [{**TOOL, "headers": {"x-key": OF_TOOL}}],
    "models": {"generator": "openai:gpt-5-mini", "critic": "openai:gpt-5-mini"},
}


async def secrets_seen(keyed_worker: WorkerStore, refinement_id: str) -> set[str]:
    return set((await keyed_worker.load(refinement_id)).submitted.request.secrets().values())


async def test_they_are_in_no_answer_and_no_redis_value_and_the_worker_has_them(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await submitted(keyed_api, **WITH_SECRETS)
    assert await secrets_seen(keyed_worker, refinement_id) == set(CANARIES)
    shown = await keyed_api.get(f"/v1/refinements/{refinement_id}/request")
    assert shown.json()["validators"][1]["headers"] == {"Authorization": MASK}
    assert shown.json()["tools"][0]["secret"] is None
    async with Redis.from_url(redis_url, protocol=2) as redis:
        stored = repr(await everything(redis))
    for text in (shown.text, stored):
        assert [canary for canary in CANARIES if canary in text] == []


async def test_a_continuation_has_them_too(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore
) -> None:
    parent = await submitted(keyed_api, **WITH_SECRETS)
    manual = await ManualWorker.claim(keyed_worker, parent)
    await manual.judge(1, "Better.", 0.5)
    await manual.complete()
    keeps = await keyed_api.post(f"/v1/refinements/{parent}/continue", json={"threshold": 0.7})
    assert keeps.status_code == 202, keeps.text
    assert await secrets_seen(keyed_worker, keeps.json()["id"]) == set(CANARIES)


async def test_what_another_key_has_encrypted_is_left_to_a_worker_with_that_key(
    keyed_api: httpx.AsyncClient, keyed: Settings
) -> None:
    refinement_id = await submitted(keyed_api, **WITH_SECRETS)
    other = keyed.model_copy(update={"secret_key": SecretStr("another key of the server")})
    async with open_worker_store(other, RefinementQueue(other.queue), "other") as store:
        with pytest.raises(UnreadableRecord, match="another HONE_SECRET_KEY"):
            await store.load(refinement_id)


async def test_the_secrets_of_one_refinement_open_for_no_other(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, redis_url: str
) -> None:
    first, second = [await submitted(keyed_api, **WITH_SECRETS) for _ in range(2)]
    async with Redis.from_url(redis_url) as redis:
        await redis.copy(f"hone:1:request:{first}", f"hone:1:request:{second}", replace=True)
    with pytest.raises(UnreadableRecord):
        await keyed_worker.load(second)


@pytest.mark.parametrize(
    ("wrong", "pointer", "said"),
    [
        ({"headers": {"Authorization": MASK}}, "/headers/Authorization", "mask of a secret"),
        ({"headers": {"X": "a\r\nHost: b"}}, "/headers/X", "printable ASCII"),
        ({"headers": {"X": ""}}, "/headers/X", "printable ASCII"),
        (
            {"headers": {"Host": "internal"}},
            "/headers",
            "the name Host is one that Hone sets itself",
        ),
        (
            {"headers": {"Webhook-Id": "1"}},
            "/headers",
            "the name Webhook-Id is one that Hone sets itself",
        ),
        ({"headers": {"X Y": "1"}}, "/headers", "1 to 64 ASCII letters"),
        ({"headers": {"X": "1", "x": "2"}}, "/headers", "the same name"),
        ({"headers": {f"X{n}": "1" for n in range(17)}}, "/headers", "at most 16 members"),
        ({"secret": "whsec_dG9vIHNob3J0"}, "/secret", "24 to 64 bytes"),
        ({"secret": "whsec_no base64"}, "/secret", "24 to 64 bytes"),
        ({"secret": "s" * 32}, "/secret", "whsec_"),
    ],
)
async def test_what_cannot_be_sent_is_refused_and_not_repeated(
    keyed_api: httpx.AsyncClient, wrong: dict[str, Any], pointer: str, said: str
) -> None:
    answer = await keyed_api.post(
        "/v1/refinements", json={**REQUEST, "validators": [{**CHECK, **wrong}]}
    )
    error = problem(answer, 422, "invalid_request")["errors"][0]
    assert error["pointer"].startswith(f"/validators/0{pointer}")
    assert said in error["detail"]
    assert "s" * 32 not in answer.text
