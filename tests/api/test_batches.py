"""Batches: what is received, refused, begun, ended, canceled, erased and read back."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import httpx
import pytest
from redis.asyncio import Redis
from standardwebhooks import Webhook as Verifier

from app.access.tenants import erase_tenant, exported_tenant
from app.api.batches import BatchBody
from app.contract.batches import BatchOptions, RefusedLine
from app.contract.errors import InvalidRequest, Overloaded
from app.contract.json_lines import LINE_ENDS
from app.queue import RefinementQueue
from app.service.batches import OF_ONE, BatchEnd, Batches, BatchLine, Received
from app.service.service import Service
from app.settings import Settings
from app.store import Store, WorkerStore, open_store
from app.store.cells import Cells
from app.store.redis import keys as redis_keys
from tests.api.api_client import DRAFT, ManualWorker, problem
from tests.api.conftest import running
from tests.api.test_webhooks import HOOK, ScriptedReceiver
from tests.local_endpoint import SECRET, answering_with, endpoint
from tests.store.store_harness import be_up, everything, expire_retention
from tests.waiting import TIMEOUT_S
from workers.webhooks import WebhookSender

JSONL = {"Content-Type": "application/jsonl"}
LEFT_OUT = tuple(
    key.encode()
    for key in (
        "rq:",
        redis_keys.ACCESS,
        redis_keys.FORMAT,
        redis_keys.ENDPOINTS,
        redis_keys.NEWS,
        redis_keys.OVERTAKEN,
        redis_keys.PROMPT_NONCE,
        redis_keys.STATISTICS,
        redis_keys.WORKERS,
    )
)


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url, protocol=2) as client:
        yield client


def line(custom_id: str, **request: Any) -> dict[str, Any]:
    return {"custom_id": custom_id, "request": {"draft": DRAFT, **request}}


def jsonl(*lines: Any) -> bytes:
    return b"\n".join(it if isinstance(it, bytes) else json.dumps(it).encode() for it in lines)


async def sent(api: httpx.AsyncClient, *lines: Any, **headers: str) -> httpx.Response:
    return await api.post("/v1/batches", content=jsonl(*lines), headers=JSONL | headers)


async def accepted(api: httpx.AsyncClient, *lines: Any, **headers: str) -> dict[str, Any]:
    answer = await sent(api, *lines, **headers)
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def now(api: httpx.AsyncClient, batch: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(batch["links"]["self"])).json()
    return found


async def counts(api: httpx.AsyncClient, batch: dict[str, Any]) -> dict[str, int]:
    """Return the counts that are not 0, without the total."""
    found = (await now(api, batch))["counts"]
    total = found.pop("total")
    assert sum(found.values()) == total
    return {status: count for status, count in found.items() if count}


async def begun(api: httpx.AsyncClient, worker: WorkerStore, batch: dict[str, Any]) -> list[str]:
    """Let a worker begin what there is room for; return the ids so far, oldest first."""
    await worker.feed_batches()
    found = (await api.get(f"{batch['links']['refinements']}&limit=100")).json()
    return [it["id"] for it in found["data"][::-1]]


async def succeed(worker: WorkerStore, *ids: str) -> None:
    for refinement_id in ids:
        manual = await ManualWorker.claim(worker, refinement_id)
        await manual.judge(0, DRAFT, 0.9)
        await manual.complete()


async def results(api: httpx.AsyncClient, batch: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await api.get(batch["links"]["results"])
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/jsonl")
    return [json.loads(it) for it in answer.text.splitlines()]


async def look_again(redis: Redis) -> None:
    """Let the time pass until every batch is due."""
    for batch_id in cast("list[bytes]", await redis.zrange(redis_keys.BATCHES, 0, -1)):
        await redis.zadd(redis_keys.BATCHES, {batch_id: 0})


async def kept(redis: Redis) -> str:
    """Return what is stored of batches and refinements."""
    stored = await everything(redis)
    return repr({key: stored[key] for key in sorted(stored) if not key.startswith(LEFT_OUT)})


async def test_batches_of_one_tenant_that_arrive_slowly_keep_out_none_of_others(
    store: Store,
) -> None:
    async def slow() -> AsyncIterator[Received]:
        arriving.release()
        await asyncio.Event().wait()
        yield BatchOptions()

    async def of_nothing() -> AsyncIterator[Received]:
        yield BatchEnd("0" * 64)

    arriving = asyncio.Semaphore(0)
    batches = Batches(cast("Service", None), store)
    begun = [asyncio.create_task(batches.submit("acme", slow(), None)) for _ in range(OF_ONE)]
    for _ in begun:
        await arriving.acquire()
    with pytest.raises(Overloaded):
        await batches.submit("acme", of_nothing(), None)
    with pytest.raises(InvalidRequest):
        await batches.submit("globex", of_nothing(), None)
    for task in begun:
        task.cancel()
    await asyncio.wait(begun)


async def test_a_text_with_other_line_ends_stays_on_its_line_of_the_results(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    text = "".join(f"a{end}b" for end in LINE_ENDS)
    batch = await accepted(api, line(text, draft=text), line("wrong", draft=text, criteria=3))
    (begun_id,) = await begun(api, worker, batch)
    manual = await ManualWorker.claim(worker, begun_id)
    await manual.judge(0, text, 0.9)
    await manual.complete()
    first, second = await results(api, batch)
    assert (first["custom_id"], second["outcome"]) == (text, "invalid")
    assert first["refinement"]["result"]["draft"] == text


async def test_a_refinement_is_found_by_a_custom_id_in_quotation_marks(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    (begun_id,) = await begun(api, worker, await accepted(api, line('the "second" \\ mail')))
    found = await api.get("/v1/refinements", params={"q": 'the "second" \\'})
    assert [it["id"] for it in found.json()["data"]] == [begun_id]


async def test_requests_are_begun_by_workers_and_results_are_in_the_order_of_the_body(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    answer = await sent(api, *(line(it, metadata={"of": it}) for it in ("x", "y", "z")))
    batch = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (202, batch["links"]["self"])
    assert batch["counts"] == dict.fromkeys(batch["counts"], 0) | {"total": 3, "pending": 3}
    assert await results(api, batch) == []
    ids = await begun(api, worker, batch)
    assert await counts(api, batch) == {"queued": 3}
    shown = (await api.get(f"/v1/refinements/{ids[1]}")).json()
    assert (shown["batch"], shown["custom_id"]) == (batch["id"], "y")
    await succeed(worker, *ids[:0:-1])
    manual = await ManualWorker.claim(worker, ids[0])
    assert await counts(api, batch) == {"running": 1, "passed": 2}
    assert [it["custom_id"] for it in await results(api, batch)] == ["y", "z"]
    await manual.fail("iterations/0/critique")
    ended = await now(api, batch)
    assert (ended["status"], await counts(api, batch)) == (
        "completed",
        {"passed": 2, "failed": 1},
    )
    assert ended["ended_at"] < ended["expires_at"]
    found = await results(api, batch)
    assert [(it["line"], it["custom_id"], it["outcome"]) for it in found] == [
        (1, "x", "failed"),
        (2, "y", "passed"),
        (3, "z", "passed"),
    ]
    assert found[1]["refinement"] == (await api.get(f"/v1/refinements/{ids[1]}")).json()


async def test_a_line_that_is_refused_says_what_a_single_submission_would_and_the_rest_runs(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    wrong = {"draft": DRAFT, "threshold": 2, "validators": [{"kind": "regex", "pattern": "("}]}
    unable, past = {"task": "Write."}, {"draft": DRAFT, "deadline": "2020-01-01T00:00:00Z"}
    batch = await accepted(
        api,
        line("good"),
        {"custom_id": "wrong", "request": wrong},
        {"custom_id": "unable", "request": unable},
        b"",
        b"{not json",
        line("good"),
        {"custom_id": "bare", "draft": DRAFT},
        {"custom_id": "past", "request": past},
        b"[" * 1000 + b"," * 100_000,
    )
    assert await counts(api, batch) == {"pending": 1, "invalid": 7}
    told = {it["line"]: it for it in batch["errors"]}
    assert [it["custom_id"] for it in told.values()] == [
        *("wrong", "unable", None, "good", "bare", "past", None)
    ]
    for number, request in ((2, wrong), (3, unable), (8, past)):
        single = problem(await api.post("/v1/refinements", json=request), 422, "invalid_request")
        error = told[number]["error"]
        assert (error["code"], error["detail"]) == ("invalid_request", single["detail"])
        assert [it["pointer"] for it in error["errors"]] == [
            f"/request{it['pointer']}" for it in single["errors"]
        ]
    assert "not JSON" in told[5]["error"]["detail"]
    assert "an earlier line" in told[6]["error"]["detail"]
    assert told[7]["error"]["errors"][0]["pointer"] == "/request"
    assert "values" in told[9]["error"]["detail"]
    await succeed(worker, *await begun(api, worker, batch))
    found = await results(api, batch)
    assert [it["outcome"] for it in found] == ["passed", *["invalid"] * 7]
    assert found[1]["error"] == told[2]["error"]
    assert (await now(api, batch))["status"] == "completed"


async def test_a_name_is_taken_also_if_its_first_line_was_refused(
    api: httpx.AsyncClient,
) -> None:
    batch = await accepted(api, line("a", threshold=2), line("b"), line("a"))
    assert [(it["line"], it["custom_id"]) for it in batch["errors"]] == [(1, "a"), (3, "a")]
    assert "an earlier line" in batch["errors"][1]["error"]["detail"]


async def test_a_batch_that_waits_for_its_time_lets_others_go_before_it(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis
) -> None:
    later = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    scheduled = await accepted(api, *(line(f"l{n}", start_after=later) for n in range(201)))
    batch = await accepted(api, *(line(f"l{n}") for n in range(201)))
    for _ in range(2):
        await worker.feed_batches()
        await look_again(redis)
    assert await counts(api, scheduled) == {"pending": 1, "queued": 200}
    assert await counts(api, batch) == {"pending": 1, "queued": 200}


async def test_defaults_hold_for_all_lines_unless_a_line_has_the_field_itself(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    options = {"defaults": {"threshold": 0.5, "metadata": {"a": "1"}}, "metadata": {"run": "7"}}
    own = line("own", threshold=0.6, metadata={"b": "2"})
    batch = await accepted(api, {"batch": options}, line("default"), own)
    assert batch["metadata"] == {"run": "7"}
    requests = [
        (await api.get(f"/v1/refinements/{it}/request")).json()
        for it in await begun(api, worker, batch)
    ]
    assert [(it["threshold"], it["metadata"]) for it in requests] == [
        (0.5, {"a": "1"}),
        (0.6, {"b": "2"}),
    ]


async def test_a_preset_gives_what_neither_the_line_nor_the_defaults_have(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    preset = {"threshold": 0.5, "max_iterations": 5, "metadata": {"from": "preset"}}
    await api.put("/v1/presets/short", json=preset)
    await api.put("/v1/presets/wrong", json={"locked": ["not in the draft"]})
    options = {"defaults": {"preset": "short", "max_iterations": 7}}
    batch = await accepted(
        api,
        {"batch": options},
        line("a"),
        line("own", threshold=0.6),
        line("unknown", preset="other"),
        line("wrong", preset="wrong"),
    )
    requests = [
        (await api.get(f"/v1/refinements/{it}/request")).json()
        for it in await begun(api, worker, batch)
    ]
    assert [(it["threshold"], it["max_iterations"]) for it in requests] == [(0.5, 7), (0.6, 7)]
    for told in batch["errors"]:
        request = {"draft": DRAFT, "preset": {"unknown": "other"}.get(told["custom_id"], "wrong")}
        single = problem(await api.post("/v1/refinements", json=request), 422, "invalid_request")
        assert told["error"]["detail"] == single["detail"]


@pytest.mark.parametrize(
    ("lines", "detail"),
    [
        ([{"batch": {"defaults": {"treshold": 1}}}, line("a")], "/treshold: is not a field"),
        ([{"batch": {"defauts": {}}}, line("a")], "line 1: /batch/defauts"),
        ([{"batch": {"webhook": HOOK}}, line("a")], "HONE_SECRET_KEY"),
        ([], "no requests"),
        ([{"batch": {}}], "no requests"),
        ([line("a", threshold=2)], "no line has a valid request; line 1: /threshold"),
        ([line("a"), *[b"x"] * 10_000], "at most 10000 requests"),
        ([line("a"), *[b"x"] * 101], "more than 100 lines are refused; line 2: the body is not"),
        ([line("a"), b"\n" * 30_000], "at most 20001 lines"),
    ],
)
async def test_of_a_batch_that_is_refused_as_a_whole_nothing_is_kept(
    api: httpx.AsyncClient, redis: Redis, worker: WorkerStore, lines: list[Any], detail: str
) -> None:
    assert detail in problem(await sent(api, *lines), 422, "invalid_request")["detail"]
    for _ in range(110):  # a hundred lines a time
        await worker.feed_batches()
        await look_again(redis)
    assert await kept(redis) == "{}"


async def test_only_json_lines_are_accepted(api: httpx.AsyncClient) -> None:
    for media_type in ("application/json", "text/plain"):
        answer = await sent(api, line("a"), **{"Content-Type": media_type})
        problem(answer, 415, "unsupported_media_type")
    assert (await sent(api, line("a"), **{"Content-Type": "application/x-ndjson"})).is_success


async def test_the_same_key_and_body_make_one_batch_and_another_body_is_refused(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis
) -> None:
    key = {"Idempotency-Key": "k"}
    first = await accepted(api, line("a"), **key)
    await worker.feed_batches()
    before = await kept(redis)
    again = await sent(api, line("a"), **key)
    assert (again.json()["id"], again.headers["idempotency-replayed"]) == (first["id"], "true")
    problem(await sent(api, line("b"), **key), 422, "idempotency_mismatch")
    assert await kept(redis) == before
    single = await api.post("/v1/refinements", json={"draft": DRAFT}, headers=key)
    assert single.status_code == 202  # keys of refinements are others


async def test_canceling_ends_what_is_under_way_and_drops_what_was_not_begun(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis
) -> None:
    batch = await accepted(api, *(line(f"{it}") for it in range(203)))
    ids = await begun(api, worker, batch)  # the newest 100 of 200
    manual = await ManualWorker.claim(worker, ids[0])
    await succeed(worker, ids[1])
    canceled = await api.post(batch["links"]["cancel"])
    assert (canceled.status_code, canceled.json()["status"]) == (202, "canceling")
    assert await counts(api, batch) == {"canceling": 1, "canceled": 201, "passed": 1}
    await manual.stop()
    assert (await now(api, batch))["status"] == "canceled"
    assert (await api.post(batch["links"]["cancel"])).status_code == 202
    found = await results(api, batch)
    assert [it["line"] for it in found] == [*range(1, 204)]
    assert [it["line"] for it in found if it["outcome"] != "canceled"] == [102]
    assert found[100]["refinement"]["id"] == ids[0]
    assert found[202] == {
        "line": 203,
        "custom_id": "202",
        "outcome": "canceled",
        "refinement": None,
        "error": None,
    }
    await worker.feed_batches()
    assert len(await redis.keys(redis_keys.REQUEST + "*")) == 200


async def test_a_large_batch_that_was_canceled_before_it_began_keeps_no_request(
    api: httpx.AsyncClient, redis: Redis
) -> None:
    batch = await accepted(api, *(line(f"{it}") for it in range(401)))
    assert (await api.post(batch["links"]["cancel"])).json()["status"] == "canceled"
    assert await counts(api, batch) == {"canceled": 401}
    assert await redis.keys(redis_keys.REQUEST + "*") == []


async def test_what_has_ended_cannot_be_canceled_and_is_erased_with_its_refinements(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis
) -> None:
    batch = await accepted(api, line("secret-name", metadata={"a": "1"}), b"{}")
    await succeed(worker, *await begun(api, worker, batch))
    problem(await api.post(batch["links"]["cancel"]), 409, "conflict")
    assert (await api.delete(batch["links"]["self"])).status_code == 204
    problem(await api.get(batch["links"]["self"]), 404, "not_found")
    problem(await api.delete(batch["links"]["self"]), 404, "not_found")
    assert await kept(redis) == "{}"


async def test_a_batch_is_erased_in_any_status(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis
) -> None:
    batch = await accepted(api, *(line(f"{it}") for it in range(205)))
    (first, *_) = await begun(api, worker, batch)
    manual = await ManualWorker.claim(worker, first)
    assert (await api.delete(batch["links"]["self"])).status_code == 204
    problem(await api.get(f"/v1/refinements/{first}"), 404, "not_found")
    with pytest.raises(Exception, match="no longer in force"):
        await manual.complete()
    stored = await kept(redis)
    assert [it for it in (batch["id"], first, DRAFT) if it in stored] == []


@pytest.mark.parametrize("is_erased", [True, False])
async def test_requests_that_go_before_they_began_leave_the_file_of_redis_as_well(
    api: httpx.AsyncClient, redis: Redis, is_erased: bool
) -> None:
    batch = await accepted(api, line("a"))
    if is_erased:
        await api.delete(batch["links"]["self"])
    else:
        await api.post(batch["links"]["cancel"])
    assert await redis.hexists(redis_keys.ERASURES, "since")


async def test_an_erased_refinement_leaves_the_batch_and_its_results(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    batch = await accepted(api, line("a"), line("b"), line("c"))
    first, second, third = await begun(api, worker, batch)
    await succeed(worker, first, third)
    assert await counts(api, batch) == {"queued": 1, "passed": 2}
    for it in (first, second):
        await api.delete(f"/v1/refinements/{it}")
    assert await counts(api, batch) == {"passed": 1, "erased": 2}
    assert (await now(api, batch))["status"] == "completed"
    assert [it["custom_id"] for it in await results(api, batch)] == ["c"]


async def test_a_retried_refinement_counts_anew_and_the_batch_ends_once(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    batch = await accepted(api, line("a"))
    (first,) = await begun(api, worker, batch)
    manual = await ManualWorker.claim(worker, first)
    await manual.fail("iterations/0/critique")
    ended = await now(api, batch)
    await api.post(f"/v1/refinements/{first}/retry")
    assert await counts(api, batch) == {"queued": 1}
    claimed = await worker.claim(first, f"{first}-2", "worker-1")
    assert claimed is not None
    again = ManualWorker(worker.journal(claimed), claimed.state)
    await again.judge(0, DRAFT, 0.9)
    await again.complete()
    assert await counts(api, batch) == {"passed": 1}
    assert (await now(api, batch))["ended_at"] == ended["ended_at"]


async def test_results_are_kept_until_the_retention_of_the_batch_is_over(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis
) -> None:
    batch = await accepted(api, line("a"), line("b"))
    first, second = await begun(api, worker, batch)
    await succeed(worker, first)
    await be_up(redis)
    await expire_retention(redis, first)
    await worker.check_due(10, include_queued=False)
    assert [it["custom_id"] for it in await results(api, batch)] == ["a"]
    await succeed(worker, second)
    await now(api, batch)
    await redis.hset(redis_keys.BATCH + batch["id"], "expires_at", 1)
    await look_again(redis)
    await worker.feed_batches()
    problem(await api.get(batch["links"]["self"]), 404, "not_found")
    for it in (first, second):
        await expire_retention(redis, it)
    await worker.check_due(10, include_queued=False)
    assert await kept(redis) == "{}"


async def test_a_request_whose_job_was_lost_with_its_worker_is_found_again(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis, settings: Settings
) -> None:
    batch = await accepted(api, line("a"))
    (first,) = await begun(api, worker, batch)
    await redis.delete(redis_keys.LINE + "default")  # it was not enqueued
    await be_up(redis)
    await redis.zadd(redis_keys.WAITING, {first: 0})
    _, jobs = await worker.check_due(10, include_queued=True)
    assert [it.refinement_id for it in jobs] == [first]


async def test_what_a_process_that_died_had_received_is_deleted_after_a_lease(
    store: Store, api: httpx.AsyncClient, worker: WorkerStore, redis: Redis, settings: Settings
) -> None:
    upload = await store.batches.upload("default")
    for number in range(150):
        error = {"line": number + 1, "custom_id": "a", "error": {"code": "c", "detail": "d"}}
        await upload.refuse(RefusedLine.model_validate(error))
    assert await redis.exists(redis_keys.BATCH + upload.id)
    assert (await api.get("/v1/batches")).json()["data"] == []
    problem(await api.get(f"/v1/batches/{upload.id}"), 404, "not_found")
    await worker.feed_batches()
    assert await redis.exists(redis_keys.BATCH + upload.id)
    due_ms = await redis.zscore(redis_keys.BATCHES, upload.id)
    assert due_ms is not None
    assert due_ms / 1000 <= (await redis.time())[0] + 1 + settings.lease_s
    await look_again(redis)
    await worker.feed_batches()  # Redis may have been away: those that receive it come first
    assert await redis.exists(redis_keys.BATCH + upload.id)
    await be_up(redis)
    await look_again(redis)
    await worker.feed_batches()
    assert await kept(redis) == "{}"


async def test_what_arrives_slowly_is_kept(
    settings: Settings, worker: WorkerStore, redis: Redis
) -> None:
    hasty = settings.model_copy(update={"lease_s": 0.4})
    async with open_store(hasty, RefinementQueue(settings.queue)) as store:
        upload = await store.batches.upload("default")
        for number in range(100):
            error = {"line": number + 1, "custom_id": "a", "error": {"code": "c", "detail": "d"}}
            await upload.refuse(RefusedLine.model_validate(error))
        before = await redis.zscore(redis_keys.BATCHES, upload.id)
        async with upload.kept(), asyncio.timeout(TIMEOUT_S):
            while await redis.zscore(redis_keys.BATCHES, upload.id) == before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def half_sent(server: str, *lines: Any) -> asyncio.StreamWriter:
    """Send a batch that announces more than it has."""
    _, writer = await asyncio.open_connection(*server.removeprefix("http://").split(":"))
    body = jsonl(*lines)
    head = f"POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body) + 9}\r\n"
    writer.write(f"{head}Content-Type: application/jsonl\r\n\r\n".encode() + body)
    return writer


async def test_a_server_receives_few_batches_at_the_same_time(
    server: str, api: httpx.AsyncClient
) -> None:
    writers = [await half_sent(server, line("a")) for _ in range(8)]
    async with asyncio.timeout(TIMEOUT_S):
        # One of them may have been refused while this one was received.
        while (refused := await sent(api, line("a"))).is_success:
            writers.append(await half_sent(server, line("a")))
        problem(refused, 503, "overloaded")
        assert int(refused.headers["retry-after"]) > 0
        for writer in writers:
            writer.close()
        while not (await sent(api, line("a"))).is_success:
            pass


async def test_a_client_that_goes_away_leaves_nothing(
    settings: Settings, redis: Redis, worker: WorkerStore
) -> None:
    with running(settings.model_copy(update={"max_body_bytes": 1_024})) as url:  # read ahead
        writer = await half_sent(url, *(line(f"{it}") for it in range(150)))
        async with asyncio.timeout(TIMEOUT_S):
            while not await redis.exists(redis_keys.BATCHES):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            writer.close()
            while await redis.zscore(redis_keys.BATCHES, "x") or "receiving" in await kept(redis):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    for _ in range(3):
        await look_again(redis)
        await worker.feed_batches()
    assert await kept(redis) == "{}"


async def test_text_that_is_not_to_be_stored_is_erased_once_the_results_were_read(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis
) -> None:
    batch = await accepted(api, line("a", store=False), line("b"))
    ids = await begun(api, worker, batch)
    await succeed(worker, ids[0])
    await api.head(batch["links"]["results"])
    assert (await results(api, batch))[0]["refinement"]["result"]["draft"] == DRAFT
    (again,) = await results(api, batch)
    assert (again["custom_id"], again["outcome"]) == ("a", "passed")
    assert again["refinement"]["result"] is None


async def test_text_that_is_not_to_be_stored_goes_although_the_batch_keeps_its_refinement(
    api: httpx.AsyncClient, worker: WorkerStore, redis: Redis
) -> None:
    batch = await accepted(api, line("a", store=False, retention_s=1), line("b"))
    first, _ = await begun(api, worker, batch)
    await succeed(worker, first)
    await redis.hset(redis_keys.SUMMARY + first, "expires_at", 1)
    await expire_retention(redis, first)
    await worker.check_due(10, include_queued=False)
    (kept,) = await results(api, batch)
    assert (kept["custom_id"], kept["outcome"]) == ("a", "passed")
    assert kept["refinement"]["result"] is None


async def test_batches_are_listed_in_pages_newest_first(api: httpx.AsyncClient) -> None:
    made = [(await accepted(api, line("a")))["id"] for _ in range(3)]
    page = await api.get("/v1/batches", params={"limit": 2})
    assert [it["id"] for it in page.json()["data"]] == made[:0:-1]
    last = await api.get(page.headers["link"].partition(">")[0].strip("<"))
    assert [it["id"] for it in last.json()["data"]] == made[:1]
    assert not last.json()["has_more"]


async def no_preset(_name: str) -> Mapping[str, Any]:
    return {}


async def chunks_of(lines: int, piece: int) -> AsyncIterator[bytes]:
    """Yield the body of a batch of lines of 200 kB in pieces, never whole."""
    rest = b""
    for number in range(lines):
        rest += jsonl(line(f"{number}", draft="a b c d e " * 20_000)) + b"\n"
        while len(rest) >= piece:
            yield rest[:piece]
            rest = rest[piece:]
    yield rest


async def test_a_large_body_is_read_in_pieces_and_never_held_whole() -> None:
    tracemalloc.start()
    read = 0
    async for it in BatchBody(chunks_of(200, 50_000), 300_000, no_preset).received():
        read += isinstance(it, BatchLine)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read == 200  # 40 MB
    assert peak < 8_000_000


async def test_others_have_a_turn_between_the_lines() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def whole() -> AsyncIterator[bytes]:
        yield jsonl(*(line(f"{it}") for it in range(100)))

    task = asyncio.create_task(other())
    read = [it async for it in BatchBody(whole(), 300_000, no_preset).received()]
    task.cancel()
    assert len(read) == 102
    assert turns >= 99


async def test_a_line_that_is_too_long_is_refused_wherever_it_is_cut() -> None:
    body = jsonl(line("a"), line("b", draft="x" * 1_000), line("c"), line("d", draft="x" * 1_000))

    async def cut(size: int) -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    for size in (1, 7, 100, 500, len(body)):
        _, *read, end = [it async for it in BatchBody(cut(size), 500, no_preset).received()]
        assert [(it.line, it.custom_id) for it in read if isinstance(it, BatchLine)] == [
            (1, "a"),
            (3, "c"),
        ]
        refused = [it for it in read if isinstance(it, RefusedLine)]
        assert [(it.line, it.error.code) for it in refused] == [(2, "too_large"), (4, "too_large")]
        assert isinstance(end, BatchEnd)


async def test_the_body_of_a_batch_may_be_larger_than_others_up_to_a_limit_of_its_own(
    settings: Settings, redis: Redis, worker: WorkerStore
) -> None:
    small = settings.model_copy(update={"max_body_bytes": 1_024})
    lines = [line(f"{it}", draft="x" * 700) for it in range(200)]
    with running(small) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            await accepted(client, *lines[:20])
            problem(await sent(client, *lines), 413, "too_large")

            async def pieces() -> AsyncIterator[bytes]:
                for it in lines:
                    yield jsonl(it) + b"\n"

            unannounced = await client.post("/v1/batches", content=pieces(), headers=JSONL)
            problem(unannounced, 413, "too_large")
            listed = (await client.get("/v1/batches")).json()["data"]
    assert [it["counts"]["total"] for it in listed] == [20]


async def test_a_webhook_is_sent_once_when_the_whole_batch_has_ended(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore, keyed: Settings, redis_url: str
) -> None:
    async with (
        endpoint(answering_with("", 204)) as (url, asked, client),
        open_store(keyed, RefinementQueue(keyed.queue)) as store,
    ):
        hook = {"url": url, "secret": SECRET, "headers": {"Authorization": "Bearer 1"}}
        batch = await accepted(keyed_api, {"batch": {"webhook": hook}}, line("a"), line("b"))
        first, second = await begun(keyed_api, keyed_worker, batch)
        await succeed(keyed_worker, first)
        await keyed_worker.feed_batches()
        assert await store.webhooks.lease_due(10, 60) == []
        await succeed(keyed_worker, second)
        ended = await now(keyed_api, batch)
        (taken,) = await store.webhooks.lease_due(10, 60)
        await WebhookSender(store, store.webhooks, client).send(taken)
        (request,) = asked
        told = Verifier(SECRET).verify(await request.text(), dict(request.headers))
        assert (told["type"], told["data"]) == ("batch.completed", ended)
        assert told["timestamp"] == ended["ended_at"]
        assert request.headers["Authorization"] == "Bearer 1"
        where = f"{batch['links']['self']}/webhooks"
        (delivery,) = (await keyed_api.get(where)).json()["data"]
        assert (delivery["status"], delivery["type"]) == ("delivered", "batch.completed")
        again = await keyed_api.post(f"{where}/{delivery['id']}/redeliver")
        assert again.status_code == 202
        receiver = ScriptedReceiver()
        for it in await store.webhooks.lease_due(10, 60):
            await WebhookSender(store, store.webhooks, receiver).send(it)
        assert receiver.ids == [delivery["id"]]
        other = "1" if where[-10] == "0" else "0"
        problem(await keyed_api.get(f"{where[:-10]}{other}/webhooks"), 404, "not_found")
        await keyed_api.delete(batch["links"]["self"])
        async with Redis.from_url(redis_url, protocol=2) as redis:
            assert await kept(redis) == "{}"


async def test_the_secrets_of_a_batchs_webhook_are_stored_encrypted(
    keyed_api: httpx.AsyncClient, redis: Redis
) -> None:
    await accepted(keyed_api, {"batch": {"webhook": HOOK}}, line("a", webhook=HOOK))
    assert SECRET not in await kept(redis)


async def test_a_tenant_is_exported_and_erased_with_its_batches(
    api: httpx.AsyncClient, worker: WorkerStore, store: Store, redis: Redis
) -> None:
    batch = await accepted(api, *(line(f"{it}") for it in range(201)))
    await begun(api, worker, batch)
    told = [it async for it in exported_tenant(Cells([store]), "default")]
    assert [it["id"] for it in told if it["kind"] == "batch"] == [batch["id"]]
    (found,) = [it for it in told if it["kind"] == "pending_request"]
    assert (found["batch"], found["line"], found["custom_id"]) == (batch["id"], 201, "200")
    assert found["request"]["draft"] == DRAFT
    await erase_tenant(Cells([store]), "default")
    await worker.feed_batches()
    stored = await kept(redis)
    assert [it for it in (batch["id"], DRAFT[:5]) if it in stored] == []
