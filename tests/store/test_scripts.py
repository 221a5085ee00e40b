"""redis-py sends a command again when its answer is late: every script is harmless then."""

import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from app.contract.access import Quotas
from app.contract.batches import BatchOptions
from app.contract.limits import LimitsChange
from app.contract.requests import RefinementRequest
from app.contract.reviews import ApprovalGiven, PauseRequest, Reviewed
from app.contract.status import Status
from app.contract.webhooks import Webhook
from app.store import Addition, Store, WorkerStore
from app.store.archive_transfer import sha1_of
from app.store.rate_limits import PermitReport, permit_words
from app.store.redis import keys
from app.store.redis.codec import (
    Summary,
    encode_additions,
    encode_entries,
    encode_limits,
    encode_retry,
)
from app.store.redis.connection import run_script
from app.store.redis.scripts import CONSTANTS, DIRECTORY, SCRIPTS
from app.store.reviews import Decided
from tests.store.store_harness import (
    BROKEN,
    FAILED,
    JUDGED,
    MODEL,
    TEMPLATE,
    TENANT,
    ListQueue,
    asking,
    claim,
    doubt,
    everything,
    expire_lease,
    expire_retention,
    expire_review,
    iteration,
    new,
    pack_now,
    park,
    paused,
    started,
    submit,
)
from tests.waiting import LEASE_S

pytestmark = pytest.mark.oldest_too

ScriptArgs = tuple[str | bytes | int, ...]
ScriptCase = Callable[[Store, WorkerStore, Redis], Awaitable[ScriptArgs]]

LEASE_MS = round(LEASE_S * 1000)


def _command(refinement_id: str, name: str, *args: str | bytes | int) -> ScriptArgs:
    return (refinement_id, TENANT, name, "command", "digest", "", LEASE_MS, *args)


async def _append(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    await store.finish(TENANT, held.id)
    fields = ("phase", '["a"]')
    return (
        held.id,
        held.claimed.nonce,
        1,
        2,
        "",
        1,
        "",
        "",
        0,
        *(len(fields), 2, 0),
        *fields,
        "step.completed",
        "{}",
    )


async def _pause(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    asked = encode_entries([asking()])
    return (
        held.id,
        held.claimed.nonce,
        1,
        2,
        "",
        1,
        "paused",
        "",
        0,
        *(0, 2 + len(asked), 0),
        "iteration.completed",
        "{}",
        *asked,
    )


async def _end(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    adds = encode_additions(
        [Addition(keys.PREFIX + "sums", {"a": (1,)}, decay=0.5, listed_in=keys.PREFIX + "list")]
    )
    ends = (1, 2, "", 1, "failed", "", 0, *(0, 2, 0), "refinement.failed", "")
    return (held.id, held.claimed.nonce, *ends, adds)


async def _end_while_canceling(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    await store.cancel(TENANT, held.id)
    return (
        held.id,
        held.claimed.nonce,
        1,
        2,
        "",
        1,
        "succeeded",
        "",
        0,
        *(0, 2, 0),
        "refinement.completed",
        "",
    )


async def _look(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    await store.change(TENANT, held.id, LimitsChange(threshold=0.5))
    return (held.id, held.claimed.nonce, 2, 1)


async def _claim(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    refinement_id = await submit(store)
    return (refinement_id, f"{refinement_id}-1", "worker-1", "nonce", LEASE_MS, 1, "{}")


async def _claim_again(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    return (held.id, f"{held.id}-2", "worker-1", "nonce", LEASE_MS, 1, "{}")


async def _claim_a_suspect(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    return (held.id, f"{held.id}-2", "worker-1", "nonce", LEASE_MS, 0, "{}")


async def _blame(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    held = await started(store, worker)
    return (held.id, "worker-1", LEASE_MS, 1, '{"code":"poisoned","detail":"it died"}')


async def _blame_one_of_several(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    held = await started(store, worker)
    return (held.id, "worker-1", LEASE_MS, 1, "")


async def _hand_back(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    return (held.id, held.claimed.nonce, 0)


async def _drop(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    return ("worker-1", held.id, "ref_gone")


async def _leave(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    await started(store, worker)
    return ("worker-1",)


async def _put_back(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    return (held.id, 5_000, "2", 30_000)


async def _renew(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    read, unread = await started(store, worker), await started(store, worker)
    await store.cancel(TENANT, read.id)
    [number] = (await worker.renew()).values()
    await store.cancel(TENANT, unread.id)
    return ("worker-1", LEASE_MS, read.id, number)


async def _take_due(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    running, canceling, ended = [await started(store, worker) for _ in range(3)]
    await store.cancel(TENANT, canceling.id)
    await ended.journal.append([FAILED], BROKEN, to=Status.FAILED)
    for held in (running, canceling):
        await expire_lease(redis, held.id)
    for on_timeout in ("finish", "approve"):
        await expire_review(redis, (await paused(store, worker, on_timeout=on_timeout)).id)
    await expire_retention(redis, ended.id)
    await doubt(redis, await submit(store))
    return (100, 1, LEASE_MS, 400)


async def _enqueue(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    return (held.id, LEASE_MS, ListQueue.key, 0)


async def _line_up(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    refinement_id = await submit(store)
    await redis.hset(keys.SLOTS, "worker-1", "0")
    return (refinement_id, LEASE_MS, ListQueue.key, 0)


async def _take_jobs(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    """Return what a worker asks that has moved a job already, and has no slots for more."""
    queues: ScriptArgs = (ListQueue.key, ListQueue.key + ":intermediate", keys.Key("rq:test-job:"))
    await redis.hset(keys.Key("rq:test-job:ref_1-1"), "data", "")
    return ("worker-1", 1, 50, *queues, LEASE_MS, "{}", TEMPLATE, "ref_1-1")


async def _create(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    limits = encode_limits(new().limits)
    fields: ScriptArgs = ("limits", limits, "strategy", "iterative", "retention_ms", 1000)
    queue: ScriptArgs = (ListQueue.key, 10, "batch", 0, "", "")
    record: ScriptArgs = (keys.PREFIX + "record", 60, "hash")
    rest: ScriptArgs = (
        *record,
        "{}",
        "{}",
        "{}",
        '{"a":"b"}',
        "abcdefgh",
        "",
        "",
        len(fields),
        *fields,
    )
    return ("ref_1", TENANT, LEASE_MS, *queue, *rest, 3, "RPUSH", ListQueue.key, "ref_1-1")


async def _cancel_queued(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return _command(await submit(store), "cancel")


async def _cancel_running(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return _command((await started(store, worker)).id, "cancel")


async def _cancel_lost(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    held = await started(store, worker)
    await expire_lease(redis, held.id)
    return _command(held.id, "cancel")


async def _cancel_paused(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return _command((await paused(store, worker)).id, "cancel")


KEY = "iterations/1/review"


async def _review(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await paused(store, worker)
    said = Reviewed(key=KEY, action="revise", feedback="shorter", by="reviewer")
    return _command(
        held.id, "review", held.claimed.state.last_event + 3, *Decided(KEY, said).words()
    )


async def _approve(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await paused(store, worker, approvals=2)
    said = ApprovalGiven(key=KEY, reviewer="ann", given=1, needed=2)
    return _command(
        held.id, "review", held.claimed.state.last_event + 3, *Decided(KEY, said).words()
    )


async def _finish_paused(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return _command((await paused(store, worker)).id, "finish")


async def _finish(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return _command((await started(store, worker)).id, "finish")


async def _request_pause(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    return _command(held.id, "pause", PauseRequest().model_dump_json())


async def _finish_judged(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    await held.journal.append([iteration(held)], JUDGED)
    return _command(held.id, "finish")


async def _change(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    changed = LimitsChange(threshold=0.1).applied_to(held.claimed.state.limits)
    return _command(held.id, "change", 1, encode_limits(changed))


async def _retry(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    held = await started(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    summary = cast("Summary", await redis.hgetall(keys.SUMMARY + held.id))
    return _command(held.id, "retry", *encode_retry(held.id, summary, LimitsChange()))


async def _erase(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    await store.create(new(ticket="1"), "key")
    return (await submit(store, ticket="1"), TENANT, "all")


async def _erase_text(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    request = RefinementRequest(draft="A text.", store=False)
    made = await store.create(replace(new(), request=request), None)
    held = await claim(worker, made.id)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    return (held.id, TENANT, "text")


async def _rewritten(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    await redis.hset(keys.ERASURES, mapping={"count": 2, "since": 5})
    return (1, 7)


async def _rewritten_all(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    await redis.hset(keys.ERASURES, mapping={"count": 2, "since": 5})
    return (2, 7)


async def _park(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    return (
        held.id,
        held.claimed.nonce,
        1,
        2,
        "",
        1,
        "",
        f'["{MODEL}"]',
        0,
        *(0, 2, 0),
        "step.waiting",
        "{}",
    )


async def _park_queued(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return (await submit(store), 10, '["offline:editor"]')


async def _take_parked(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    for _number in range(2):
        await park(await started(store, worker))
    return (MODEL, 2, LEASE_MS)


async def _permits(_s: Store, _w: WorkerStore, _r: Redis) -> ScriptArgs:
    report = PermitReport(number=3, wanted=2, refused=1, recent=9, bad=1, detail="down", away_ms=9)
    return permit_words("p:m@f", "p@f", "worker-1", report)


async def _rate(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    adds = encode_additions([Addition(keys.PREFIX + "sums", {"a": (1,)})])
    return _command(held.id, "rate", 2, "", "{}", adds)


async def _rate_after_the_end(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    held = await started(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    return _command(held.id, "rate", 3, "{}", "{}", "[]")


async def _put_keys(_store: Store, _worker: WorkerStore, _: Redis) -> ScriptArgs:
    return (10, "key_1", "", "{}")


async def _open_watch(_store: Store, _worker: WorkerStore, _: Redis) -> ScriptArgs:
    return (TENANT, "stream", 1, 60_000)


async def _count_action(_store: Store, _worker: WorkerStore, _: Redis) -> ScriptArgs:
    return (TENANT, "key_1", "refused", "401", 1, "this call")


async def _spend(store: Store, _worker: WorkerStore, _: Redis) -> ScriptArgs:
    await store.access.set_quotas(TENANT, Quotas(tokens_per_day=100))
    return ("worker", 1, TENANT, 5, "0.5", 9, "0.5")


STATE = '{"type":"refinement.canceled"}'
EP = "ep_1"


async def _told(store: Store) -> str:
    """Return a refinement whose webhook is due."""
    refinement = new()
    hook = Webhook(url="https://example.com")
    request = refinement.request.model_copy(update={"webhook": hook})
    refinement_id = (await store.create(replace(refinement, request=request), None)).id
    await store.cancel(TENANT, refinement_id)
    return refinement_id


async def _take_webhooks(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    await _told(store)
    return (10, 60_000, "nonce")


async def _settle_webhook(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    refinement_id = await _told(store)
    (taken,) = await store.webhooks.lease_due(1, 60)
    return (refinement_id, 2, taken.nonce, 0, STATE, 1000)


async def _settle_accepted(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    settled = await _settle_webhook(store, worker, redis)
    return (*settled[:3], 1, STATE, "")


async def _redeliver(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    refinement_id = await _told(store)
    before = await redis.hget(keys.DELIVERIES + refinement_id, "2")
    return (refinement_id, TENANT, 2, '{"type":"again"}', before or b"")


async def _endpoint_failed(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return (keys.endpoint(TENANT, EP), "attempt", 0, 1, 0)


async def _endpoint_accepted(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return (keys.endpoint(TENANT, EP), "attempt", 1, 1, 0)


async def _register_endpoint(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return (EP, TENANT, "command", "register", "https://example.com")


async def _rotate_secret(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    registered = await _register_endpoint(store, worker, redis)
    await run_script(redis, SCRIPTS["endpoint_change"], *registered)
    return (EP, TENANT, "another", "rotate", 60_000)


async def _remove_endpoint(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    registered = await _register_endpoint(store, worker, redis)
    await run_script(redis, SCRIPTS["endpoint_change"], *registered)
    return (EP, TENANT, "another", "remove", "")


BATCH = "batch_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"


async def _batch_stage(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    item = (1, '{"line":1}', "ref_1", "{}", "{}", "000000", "", "{}")
    return (BATCH, TENANT, 1, 0, 60_000, 1, *item)


async def _batch_commit(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    staged = await _batch_stage(store, worker, redis)
    await run_script(redis, SCRIPTS["batch_stage"], *staged)
    known_as = keys.idempotency(TENANT, "key")
    return (BATCH, TENANT, known_as, 60, "body", 1, 0, "errors", "[]", "retention_ms", 1)


async def _batch(store: Store) -> str:
    """Submit a batch of two requests."""
    upload = await store.batches.upload(TENANT)
    for custom_id in ("a", "b"):
        await upload.add(1, custom_id, new())
    return await upload.commit(BatchOptions(), "body", None)


async def _batch_look(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return (await _batch(store), TENANT, "look")


async def _batch_look_at_the_end(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    batch_id = await _batch(store)
    await worker.feed_batches()
    for it in (await store.page(TENANT, batch=batch_id)).data:
        await store.cancel(TENANT, it.id)
    return (batch_id, TENANT, "look")


async def _take_batches(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    await _batch(store)
    return (10, LEASE_MS, 60_000, 200, 2_000)


async def _batch_cancel(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return (await _batch(store), TENANT, "cancel", 10)


async def _batch_cancel_begun(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    batch_id = await _batch(store)
    await worker.feed_batches()
    return (batch_id, TENANT, "cancel", 10)


async def _batch_erase(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    batch_id, *_others = await _batch_cancel_begun(store, worker, _)
    return (batch_id, TENANT, "erase", 10)


async def _ended(store: Store, worker: WorkerStore) -> str:
    held = await started(store, worker)
    await held.journal.append([FAILED], BROKEN, to=Status.FAILED)
    return held.id


async def _take_ended(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    await _ended(store, worker)
    return (10, 0, 10, 0, 60_000)


async def _pack(store: Store, worker: WorkerStore, _: Redis) -> ScriptArgs:
    return (await _ended(store, worker), 3, "refinement.failed", 1, b"packed", b"signature")


async def _repack(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    refinement_id = await _ended(store, worker)
    await pack_now(redis, worker, refinement_id)
    found = cast("list[tuple[bytes, Summary]]", await redis.xrange(keys.JOURNAL + refinement_id))
    sha1 = hashlib.sha1(found[0][1][b"packed"], usedforsecurity=False).hexdigest()
    command = ("XADD", keys.JOURNAL + refinement_id, "3-0", "type", "refinement.failed")
    return (refinement_id, sha1, len(command), *command)


async def _packed_now(store: Store, worker: WorkerStore, redis: Redis) -> str:
    refinement_id = await _ended(store, worker)
    await pack_now(redis, worker, refinement_id)
    await redis.zadd(keys.TO_ARCHIVE, {refinement_id: 1})
    return refinement_id


async def _take_archive(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    await _packed_now(store, worker, redis)
    return (10, 60_000)


async def _archive(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    refinement_id = await _packed_now(store, worker, redis)
    summary = await redis.hgetall(keys.SUMMARY + refinement_id)
    entries: Any = await redis.xrange(keys.JOURNAL + refinement_id)
    return (refinement_id, sha1_of(summary, {}, {}, entries), "name", "signature", "stub", b"stub")


async def _bring_back(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    args = await _archive(store, worker, redis)
    await run_script(redis, SCRIPTS["archive"], *args)
    command = ("HSET", keys.SUMMARY + str(args[0]), "tenant", TENANT, "expires_at", "1")
    return (args[0], "name", 1_000, len(command), *command)


async def _restore_stub(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    fields = ("tenant", TENANT, "status", "failed", "stub", "s", "archived", "name")
    return ("ref_1", TENANT, "failed", '{"a":"b"}', 10**15, "", "", "", *fields)


async def _search(store: Store, worker: WorkerStore, redis: Redis) -> ScriptArgs:
    await _packed_now(store, worker, redis)
    return (keys.refinement_list(TENANT), keys.SIGNATURES + TENANT, "+", "-", 10, 12345)


async def _replace_field(_: Store, __: WorkerStore, redis: Redis) -> ScriptArgs:
    await redis.hset(keys.PREFIX + "a hash", "field", "before")
    return (keys.PREFIX + "a hash", "field", "before", "after")


async def _share(_: Store, __: WorkerStore, ___: Redis) -> ScriptArgs:
    return (TENANT, 7, '{"in_flight":9,"share":{"in_flight":4},"number":7}')


CASES: list[tuple[str, ScriptCase]] = [
    ("append", _append),
    ("append", _pause),
    ("append", _end),
    ("append", _end_while_canceling),
    ("append", _park),
    ("take_parked", _take_parked),
    ("park_queued", _park_queued),
    ("take_ended", _take_ended),
    ("pack", _pack),
    ("repack", _repack),
    ("take_archive", _take_archive),
    ("archive", _archive),
    ("bring_back", _bring_back),
    ("restore_stub", _restore_stub),
    ("search", _search),
    ("replace_field", _replace_field),
    ("share", _share),
    ("look", _look),
    ("claim", _claim),
    ("claim", _claim_again),
    ("claim", _claim_a_suspect),
    ("blame", _blame),
    ("blame", _blame_one_of_several),
    ("hand_back", _hand_back),
    ("drop", _drop),
    ("leave", _leave),
    ("put_back", _put_back),
    ("renew", _renew),
    ("take_due", _take_due),
    ("enqueue", _enqueue),
    ("enqueue", _line_up),
    ("take_jobs", _take_jobs),
    ("create", _create),
    ("command", _cancel_queued),
    ("command", _cancel_running),
    ("command", _cancel_lost),
    ("command", _cancel_paused),
    ("command", _rate),
    ("command", _rate_after_the_end),
    ("command", _review),
    ("command", _approve),
    ("command", _finish_paused),
    ("command", _finish),
    ("command", _request_pause),
    ("command", _finish_judged),
    ("command", _change),
    ("command", _retry),
    ("erase", _erase),
    ("erase", _erase_text),
    ("rewritten", _rewritten),
    ("rewritten", _rewritten_all),
    ("permits", _permits),
    ("put_keys", _put_keys),
    ("open_watch", _open_watch),
    ("count_action", _count_action),
    ("spend", _spend),
    ("take_webhooks", _take_webhooks),
    ("settle_webhook", _settle_webhook),
    ("settle_webhook", _settle_accepted),
    ("redeliver", _redeliver),
    ("batch_stage", _batch_stage),
    ("batch_commit", _batch_commit),
    ("batch", _batch_look),
    ("batch", _batch_look_at_the_end),
    ("take_batches", _take_batches),
    ("batch", _batch_cancel),
    ("batch", _batch_cancel_begun),
    ("batch", _batch_erase),
    ("endpoint_outcome", _endpoint_failed),
    ("endpoint_outcome", _endpoint_accepted),
    ("endpoint_change", _register_endpoint),
    ("endpoint_change", _rotate_secret),
    ("endpoint_change", _remove_endpoint),
]

# These answer differently the second time, and their callers can bear it: what was taken once is
# due again after a lease, what is packed is not packed again, what was erased is not found, what
# was settled is held no more, a rating is known, and time has gone by.
ANSWERS_ONCE = {
    *("take_due", "take_parked", "erase", "claim", "command", "spend"),
    *("take_webhooks", "settle_webhook", "redeliver"),
    *("take_batches", "batch", "take_ended", "pack", "repack", "replace_field"),
    *("take_archive", "archive", "bring_back", "restore_stub"),
}


def unordered(reply: object) -> object:
    """A hash comes in any order, also inside the reply."""
    if not isinstance(reply, list):
        return reply
    if all(isinstance(it, bytes) for it in reply):
        return sorted(reply)
    return [unordered(it) for it in reply]


def test_every_script_is_sent_twice() -> None:
    assert {name for name, _ in CASES} == set(SCRIPTS)


def test_no_two_shared_functions_have_one_name() -> None:
    shared = "".join(it.read_text() for it in (DIRECTORY / "shared").glob("*.lua"))
    names = re.findall(r"^local function (\w+)", shared, re.MULTILINE)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "case"), CASES, ids=[case.__name__.strip("_") for _, case in CASES]
)
async def test_a_script_that_is_sent_twice_changes_nothing_the_second_time(
    store: Store, worker: WorkerStore, redis: Redis, name: str, case: ScriptCase
) -> None:
    args = await case(store, worker, redis)
    first = await run_script(redis, SCRIPTS[name], *args)
    before = await everything(redis)
    second = await run_script(redis, SCRIPTS[name], *args)
    assert await everything(redis) == before
    assert name in ANSWERS_ONCE or unordered(second) == unordered(first)


async def test_a_claim_that_is_sent_twice_gives_the_same_token(
    store: Store, worker: WorkerStore, redis: Redis
) -> None:
    args = await _claim_again(store, worker, redis)
    first = await run_script(redis, SCRIPTS["claim"], *args)
    second = await run_script(redis, SCRIPTS["claim"], *args)
    assert first[:3] == [2, 2, 1]
    assert [int(it) for it in second[:3]] == [2, 2, 1]


def test_a_script_has_the_shared_functions_that_it_uses_directly_or_not_and_no_others() -> None:
    look, command = SCRIPTS["look"].text, SCRIPTS["command"].text
    assert "local function state(" in look
    assert "local function publish(" not in look
    # command.lua calls `finish_paused`, that calls `stop`, and that calls `write` and `publish`.
    assert "local function write(" in command
    assert "local function publish(" in command
    assert "local function is_told(" in command
    assert "local function is_told(" not in look


def test_the_names_of_constants_are_replaced_by_their_values_but_not_in_strings() -> None:
    texts = {name: script.text for name, script in SCRIPTS.items()}
    assert f"redis.call('HGETALL', '{keys.SUMMARY!s}' .. created)" in texts["create"]
    assert "return 'FULL'" in texts["create"]  # an answer, and the name of a constant as well
    code = (re.sub("'[^']*'", "", text) for text in texts.values())
    assert not any({*re.findall(r"\w+", it)} & CONSTANTS.keys() for it in code)


def test_nothing_is_counted_down_by_a_sign_before_it() -> None:
    """The minus of a 0 is -0, which the HINCRBY of Redis 7.0 refuses: 0 less it is 0."""
    calls = re.compile(r"'(?:HINCRBY|INCRBY|DECRBY)'[^\n]*,\s*-\s*[a-zA-Z(]")
    assert [it.name for it in DIRECTORY.rglob("*.lua") if calls.search(it.read_text())] == []


def test_an_append_that_ends_nothing_defines_no_function_of_an_ending() -> None:
    before_its_body, _, _ = SCRIPTS["append"].text.partition("local id, nonce")
    assert "local function publish(" in before_its_body
    for name in ("end_refinement", "line_up", "begin_pause"):
        assert f"local function {name}(" not in before_its_body
        assert f"local function {name}(" in SCRIPTS["append"].text
