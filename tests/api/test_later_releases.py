"""What a later release stored: this one shows it as it is, or asks the client to ask again."""

from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from app.settings import Settings
from app.store import LATER, WorkerStore
from app.store.redis import keys
from tests.api.api_client import DRAFT, ManualWorker, ended, problem, submitted, watching

NOTE = b'{"text":"of a later release"}'
DREAM = '{"draft":"A text.","strategy":{"kind":"dream"}}'
IMAGE = (
    b'{"key":"iterations/1/draft","kind":"ask","reply":{"kind":"image","url":"x"},"usage":{},'
    b'"seconds":1,"next":[]}'
)


async def store_fields(settings: Settings, key: str, **fields: str) -> None:
    async with Redis.from_url(settings.redis_url) as redis:
        mapping: Any = fields
        await redis.hset(key, mapping=mapping)


async def append(settings: Settings, refinement_id: str, kind: str, data: bytes) -> None:
    """Append an entry as a worker of a later release does."""
    async with Redis.from_url(settings.redis_url) as redis:
        last = int(await redis.hincrby(keys.SUMMARY + refinement_id, "last_event", 1))
        entry: Any = {"type": kind, "at": 1_795_000_000_000, "data": data}
        await redis.xadd(keys.JOURNAL + refinement_id, entry, id=f"{last}-0")


@pytest.mark.parametrize(
    ("field", "value"), [("status", "suspended"), ("stop_reason", "out_of_ideas")]
)
async def test_an_unknown_status_or_reason_is_shown_as_it_is(
    api: httpx.AsyncClient, settings: Settings, field: str, value: str
) -> None:
    refinement_id = await submitted(api)
    await store_fields(settings, keys.SUMMARY + refinement_id, **{field: value})
    shown = await api.get(f"/v1/refinements/{refinement_id}")
    assert (shown.status_code, shown.json()[field]) == (200, value)
    listed = await api.get("/v1/refinements")
    assert [it[field] for it in listed.json()["data"]] == [value]
    report = await api.get(f"/v1/refinements/{refinement_id}/report")
    assert report.status_code == 200


async def test_an_unknown_status_is_waited_for(api: httpx.AsyncClient, settings: Settings) -> None:
    refinement_id = await submitted(api)
    await store_fields(settings, keys.SUMMARY + refinement_id, status="suspended")
    waited = await api.get(
        f"/v1/refinements/{refinement_id}?wait=1", headers={"If-None-Match": '"1"'}
    )
    assert waited.status_code == 304


async def test_a_filter_still_names_only_known_statuses(api: httpx.AsyncClient) -> None:
    await submitted(api)
    assert (await api.get("/v1/refinements?status=suspended")).status_code == 422


async def test_an_unknown_kind_of_score_hides_the_result_and_nothing_else(
    api: httpx.AsyncClient, worker: WorkerStore, settings: Settings
) -> None:
    refinement_id = await ended(api, worker)
    path = f"/v1/refinements/{refinement_id}"
    known = (await api.get(path)).json()
    async with Redis.from_url(settings.redis_url) as redis:
        stored: Any = await redis.hget(keys.SUMMARY + refinement_id, "result")
    later = stored.replace(b'"score_from":"critique"', b'"score_from":"dice"')
    assert later != stored
    await store_fields(settings, keys.SUMMARY + refinement_id, result=later.decode())
    assert (await api.get(path)).json() == {**known, "result": None}


async def test_events_of_unknown_types_are_passed_on_in_pages_and_streams(
    api: httpx.AsyncClient, worker: WorkerStore, settings: Settings
) -> None:
    refinement_id = await submitted(api)
    await append(settings, refinement_id, "step.noted", NOTE)
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, DRAFT, 0.9)
    await manual.complete()
    path = f"/v1/refinements/{refinement_id}"
    paged = await api.get(f"{path}/events", headers={"Accept": "application/json"})
    assert paged.json()["data"][1]["type"] == "step.noted"
    assert paged.json()["data"][1]["data"] == {"text": "of a later release"}
    async with watching(api, refinement_id) as stream:
        streamed = [it async for it in stream]
    assert [it.event for it in streamed] == paged.json()["data"]
    assert (streamed[1].id, streamed[1].type) == (2, "step.noted")
    for derived in ("iterations", "report"):
        assert (await api.get(f"{path}/{derived}")).status_code == 200


async def test_a_journal_that_ends_with_an_unknown_type_is_still_watched(
    api: httpx.AsyncClient, settings: Settings
) -> None:
    refinement_id = await submitted(api)
    await append(settings, refinement_id, "step.noted", NOTE)
    paged = await api.get(
        f"/v1/refinements/{refinement_id}/events", headers={"Accept": "application/json"}
    )
    assert [it["event"] for it in paged.json()["data"]] == [1, 2]


async def test_what_only_a_later_release_can_read_is_to_be_asked_for_again(
    api: httpx.AsyncClient, settings: Settings
) -> None:
    refinement_id = await submitted(api)
    await append(settings, refinement_id, "step.completed", IMAGE)
    path = f"/v1/refinements/{refinement_id}"
    assert (await api.get(path)).status_code == 200
    events = await api.get(f"{path}/events", headers={"Accept": "application/json"})
    assert events.json()["data"][1]["data"]["reply"] == {"kind": "image", "url": "x"}
    refusal = problem(await api.get(f"{path}/iterations"), 503, "unavailable")
    assert "later release" in refusal["detail"]
    await store_fields(settings, keys.REQUEST + refinement_id, request='{"task": 1}')
    refused = await api.get(f"{path}/request")
    assert problem(refused, 503, "unavailable")
    assert refused.headers["Retry-After"]


async def test_readiness_names_versions_that_no_worker_plays(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    await worker.renew({})
    await worker.announce([1, 2])
    refinement_id = await submitted(api)
    for lacking in ("2", "3", "dream", LATER):
        await worker.put_back(refinement_id, lacking)
    ready = await api.get("/readyz")
    assert ready.status_code == 200
    release = "start a worker of the release that accepted them"
    package = f"install the package of theirs that is missing, or {release}"
    assert ready.json()["warnings"] == [
        f"refinements of engine version 3 wait: no running worker plays this version: {release}",
        f"refinements of the kind dream wait that no worker which was asked can read: {package}",
        f"refinements wait that no worker which was asked can read: {package}",
    ]


async def test_a_kind_that_no_installed_package_brings_is_named(
    api: httpx.AsyncClient, settings: Settings
) -> None:
    refinement_id = await submitted(api)
    await store_fields(settings, keys.REQUEST + refinement_id, request=DREAM)
    refused = await api.get(f"/v1/refinements/{refinement_id}/request")
    detail = problem(refused, 503, "unavailable")["detail"]
    assert "the request: strategy: the kind dream is not known here" in detail
    assert "package" in detail
    assert "later release" in detail
    assert refused.headers["Retry-After"] == "1"
