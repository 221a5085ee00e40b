"""What is kept of a refinement with `store: false`, and for how long a client has asked for."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis

from app.contract.events import Draw
from app.queue import RefinementQueue
from app.settings import Settings
from app.store import Store, WorkerStore, open_store
from app.store.redis import keys
from app.store.redis.scripts import UNSTORED_MS
from app.store.state import CACHED_FROM
from app.store.statistics import drawn_in
from tests.api.api_client import ManualWorker, ended, problem, server_sent, submitted
from tests.api.test_erasure import traces
from tests.api.test_webhooks import HOOK, ScriptedReceiver, sent
from tests.store.store_harness import be_up, new
from tests.waiting import TIMEOUT_S

MARK = "xyzzy"
UNSTORED: dict[str, Any] = {
    "store": False,
    "draft": f"A draft of {MARK}.",
    "task": f"About {MARK}.",
    "context": [{"name": f"{MARK}.md", "text": f"What {MARK} is."}],
    "criteria": [{"name": "clarity"}, {"name": f"of-{MARK}", "description": MARK}],
    "metadata": {MARK: MARK},
}
KEY = {"Idempotency-Key": "once", "X-Request-Id": MARK}
GONE = (
    "request",
    "iterations",
    "iterations/1",
    "diff?from=0&to=1",
    "report",
    "steps",
    "events",
    "webhooks",
)


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url, protocol=2) as client:
        yield client


@pytest.fixture
async def store(keyed: Settings, redis_url: str) -> AsyncIterator[Store]:
    async with open_store(keyed, RefinementQueue(keyed.queue)) as store:
        yield store


async def marked(redis_url: str) -> list[str]:
    """Return the names of the keys that have, or hold, the mark."""
    with BlockingRedis.from_url(redis_url) as client:
        return [name for name, held in traces(client).items() if MARK in name + held]


async def all_erased(redis_url: str) -> None:
    """Wait until nothing has the mark: text is erased right after the response was sent."""
    async with asyncio.timeout(TIMEOUT_S):
        while await marked(redis_url):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def judged(
    api: httpx.AsyncClient, worker: WorkerStore, **fields: Any
) -> tuple[str, ManualWorker]:
    made = await api.post("/v1/refinements", json={**UNSTORED, **fields}, headers=KEY)
    assert made.status_code == 202, made.text
    refinement_id = made.json()["id"]
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, UNSTORED["draft"], 0.4)
    await manual.judge(1, f"Better {MARK}.", 0.9)
    return refinement_id, manual


async def unstored(api: httpx.AsyncClient, worker: WorkerStore, **fields: Any) -> str:
    """Submit what is not to be stored, and let it end; return the id."""
    refinement_id, manual = await judged(api, worker, **fields)
    await manual.complete()
    return refinement_id


async def test_reading_the_final_snapshot_erases_all_text(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id, manual = await judged(api, worker)
    path = f"/v1/refinements/{refinement_id}"
    before = (await api.get(path)).json()
    assert (before["status"], before["excerpt"]) == ("running", UNSTORED["draft"])
    await manual.complete()
    assert await marked(redis_url)
    read = await api.get(path)
    assert (read.status_code, read.headers["etag"]) == (200, '"8"')
    assert read.json()["result"]["draft"] == f"Better {MARK}."
    await all_erased(redis_url)
    again = await api.get(path, headers={"If-None-Match": read.headers["etag"]})
    assert again.status_code == 200  # it is another text under the same number
    after = again.json()
    assert (after["result"], after["metadata"], after["best"]["sha256"]) == (None, {}, "")
    assert (after["excerpt"], bool(after["erased_at"])) == (None, True)
    kept = ("id", "status", "stop_reason", "outcome", "scores", "usage", "created_at", "ended_at")
    assert [after[it] for it in kept] == [read.json()[it] for it in kept]
    assert [it["score"] for it in after["scores"]] == [0.4, 0.9]


async def test_names_of_parts_are_erased_wherever_they_stand(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis, redis_url: str
) -> None:
    refinement_id = await unstored(api, worker)
    origin = {"path": f"stages/{MARK}/iterations/1", "iteration": 1, "id": refinement_id}
    seats = {f"generator/stages/{MARK}": [0.5, None]}
    for name, stored in (("continued_from", origin), ("achieved", seats)):
        await redis.hset(keys.SUMMARY + refinement_id, name, json.dumps(stored))
    read = await api.get(f"/v1/refinements/{refinement_id}")
    assert read.json()["continued_from"] == origin
    await all_erased(redis_url)
    after = await api.get(f"/v1/refinements/{refinement_id}")
    assert after.json()["continued_from"] == origin | {"path": ""}


async def test_no_hash_of_long_texts_is_left(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis, redis_url: str
) -> None:
    refinement_id = await unstored(api, worker, task=f"{MARK} " * CACHED_FROM)
    await api.get(f"/v1/refinements/{refinement_id}")
    await all_erased(redis_url)
    assert await redis.keys(keys.PROMPT_NONCE + "*") == []


def test_no_sum_gets_the_names_of_parts_that_are_not_to_be_stored() -> None:
    draw = Draw(candidates=(), picked="openai:gpt-5-mini", kind="mail")
    made = new()
    draws = {"generator": draw, f"generator/stages/{MARK}": draw}
    drawn = replace(made, queued=made.queued.model_copy(update={"draws": draws}))
    unstored = replace(drawn, request=made.request.model_copy(update={"store": False}))
    assert MARK.encode() in (drawn_in(drawn) or b"")
    assert json.loads(drawn_in(unstored) or b"")["models"] == {"generator": draw.picked}


async def test_what_needs_the_text_is_a_conflict_afterwards(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await unstored(api, worker)
    path = f"/v1/refinements/{refinement_id}"
    await api.get(path)
    await all_erased(redis_url)
    for part in GONE:
        problem(await api.get(f"{path}/{part}"), 409, "not_stored")
    rating = {"path": "iterations/1", "score": 0.5}
    for part, body in (("continue", {}), ("ratings", rating)):
        problem(await api.post(f"{path}/{part}", json=body), 409, "not_stored")
    assert (await api.delete(path)).status_code == 204


async def test_a_failed_one_can_be_retried_until_its_text_is_erased(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id, manual = await judged(api, worker)
    await manual.fail("iterations/2/critique")
    path = f"/v1/refinements/{refinement_id}"
    retried = await api.post(f"{path}/retry")
    assert (retried.status_code, retried.json()["status"]) == (202, "queued")
    again = await worker.claim(refinement_id, f"{refinement_id}-2", "worker-2")
    assert again
    await ManualWorker(worker.journal(again), again.state).fail("iterations/2/critique")
    assert (await api.get(path)).json()["error"]["detail"]
    await all_erased(redis_url)
    problem(await api.post(f"{path}/retry"), 409, "not_stored")
    assert (await api.get(path)).json()["error"]["code"] == "unreadable_critique"


async def test_a_stream_that_has_sent_the_end_erases_all_text(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await unstored(api, worker)
    url = f"/v1/refinements/{refinement_id}/events"
    async with api.stream("GET", url) as response:
        last = [it async for it in server_sent(response)][-1]
    assert last.event["data"]["result"]["draft"] == f"Better {MARK}."
    await all_erased(redis_url)


async def test_a_page_of_events_erases_once_it_has_the_end(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await unstored(api, worker)
    url, as_json = f"/v1/refinements/{refinement_id}/events", {"Accept": "application/json"}
    first = await api.get(url, headers=as_json, params={"limit": 3})
    assert first.json()["has_more"]
    assert await marked(redis_url)
    assert (await api.get(url, headers=as_json)).json()["data"][-1]["data"]["result"]
    await all_erased(redis_url)


async def test_what_shows_no_final_snapshot_erases_nothing(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await unstored(api, worker)
    path = f"/v1/refinements/{refinement_id}"
    await api.head(path)
    await api.get("/v1/refinements")
    for part in GONE[:-2]:
        assert (await api.get(f"{path}/{part}")).status_code == 200
    assert await marked(redis_url)


async def test_without_a_reader_it_is_erased_ten_minutes_after_the_end_whoever_dies(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis, redis_url: str
) -> None:
    refinement_id = await unstored(api, worker)
    ended_at = int(await redis.hget(keys.SUMMARY + refinement_id, "ended_at") or 0)
    assert await redis.zscore(keys.DUE, refinement_id) == ended_at + UNSTORED_MS
    await redis.zadd(keys.DUE, {refinement_id: 1})
    await be_up(redis)
    await worker.recover(include_queued=False)
    await all_erased(redis_url)
    assert (await api.get(f"/v1/refinements/{refinement_id}")).json()["erased_at"]
    expires_at = int(await redis.hget(keys.SUMMARY + refinement_id, "expires_at") or 0)
    assert await redis.zscore(keys.DUE, refinement_id) == expires_at


async def test_a_webhook_that_is_still_to_be_sent_keeps_the_text_until_it_arrives(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, store: Store, redis_url: str
) -> None:
    refinement_id = await unstored(keyed_api, keyed_worker, webhook=HOOK)
    path = f"/v1/refinements/{refinement_id}"
    assert (await keyed_api.get(path)).json()["result"]
    receiver = ScriptedReceiver()
    assert await marked(redis_url)
    assert await sent(store, receiver) == 1
    assert receiver.got[0][1]["data"]["result"]["draft"] == f"Better {MARK}."
    await all_erased(redis_url)
    assert (await keyed_api.get(path)).json()["result"] is None


async def test_a_submission_repeated_after_the_erasure_is_answered_with_the_same_refinement(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    refinement_id = await unstored(api, worker)
    await api.get(f"/v1/refinements/{refinement_id}")
    await all_erased(redis_url)
    again = await api.post("/v1/refinements", json=UNSTORED, headers=KEY)
    assert (again.json()["id"], again.headers["idempotency-replayed"]) == (refinement_id, "true")


async def test_a_stored_refinement_is_kept_when_it_is_read(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await ended(api, worker)
    await api.get(f"/v1/refinements/{refinement_id}")
    shown = (await api.get(f"/v1/refinements/{refinement_id}")).json()
    assert (shown["store"], shown["erased_at"], bool(shown["result"])) == (True, None, True)


async def test_a_request_says_for_how_long_it_is_kept(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis
) -> None:
    refinement_id = await ended(api, worker, retention_s=60)
    summary = await redis.hgetall(keys.SUMMARY + refinement_id)
    assert int(summary[b"expires_at"]) - int(summary[b"ended_at"]) == 60_000
    continued = await api.post(f"/v1/refinements/{refinement_id}/continue", json={"store": False})
    assert not continued.json()["store"]


@pytest.mark.parametrize("wrong", [0, -1, 30 * 86_400 + 1, 1.5])
async def test_a_retention_out_of_bounds_is_refused(api: httpx.AsyncClient, wrong: float) -> None:
    refused = await api.post("/v1/refinements", json={"draft": "A.", "retention_s": wrong})
    assert problem(refused, 422, "invalid_request")["errors"][0]["pointer"] == "/retention_s"


async def test_what_is_not_stored_adds_nothing_to_what_is_learnt(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await submitted(api, **UNSTORED)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, UNSTORED["draft"], 0.4)
    rating = {"path": "iterations/0", "score": 0.5}
    assert (await api.post(f"/v1/refinements/{refinement_id}/ratings", json=rating)).is_success
    assert json.loads((await api.get("/v1/statistics?of=calibration")).text)["data"] == []
