"""What the store's tests share: submissions, claims, entries, and time that passes at once."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from struct import pack
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from app.contract.drafts import sha256_of
from app.contract.events import (
    Event,
    EventType,
    IterationCompleted,
    Queued,
    StepCompleted,
    StepFailed,
    StepStarted,
    Stopping,
    TextReply,
)
from app.contract.judgement import Usage
from app.contract.models import ModelChoice
from app.contract.requests import RefinementRequest
from app.contract.reviews import OnTimeout, Paused
from app.contract.snapshot import Best, Failure, IterationScore, Result
from app.contract.status import Status, StopReason
from app.contract.waiting import Waiting, WaitReason
from app.store import Claimed, Entry, Fields, Journal, Parking, State, Store, WorkerStore
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.connection import layout_in
from app.store.redis.keys import PLAIN, Word
from app.store.redis.scripts import JOB_NUMBER, JOB_OF, LuaScript
from app.store.state import NewRefinement
from app.store.worker import JobSource

TENANT = "default"
BODY = "a" * 64
DRAFT = "Ein „Entwurf“: läuft 🙂"


class ListQueue:
    """A queue that is a Redis list and nothing else."""

    key = keys.Key("rq:test")

    def commands(
        self, refinement_id: str, job_id: str, *, is_first: bool = False
    ) -> Sequence[Sequence[Word]]:
        return [("LPUSH" if is_first else "RPUSH", self.key, job_id)]


TEMPLATE = json.dumps(ListQueue().commands(JOB_OF, f"{JOB_OF}-{JOB_NUMBER}"))


def job_source(worker: str = "worker-1", **weights: float) -> JobSource:
    """Return what a worker takes the jobs of a ListQueue from."""
    queues = (ListQueue.key, ListQueue.key + ":intermediate")
    return JobSource(worker, queues, "rq:test-job:", 5_000, weights)


async def take(redis: Redis, free: int, source: JobSource | None = None) -> list[str]:
    """Return the ids of the jobs that a worker with free slots takes; it starts all of them."""
    taken = await (source or job_source()).dequeue(redis, TEMPLATE, free, 50, ())
    await redis.delete(ListQueue.key + ":intermediate")
    return [job_id.decode() for job_id, _ in taken.jobs]


class RefusedQueue(ListQueue):
    """A queue whose commands Redis refuses."""

    def commands(
        self, refinement_id: str, job_id: str, *, is_first: bool = False
    ) -> Sequence[Sequence[Word]]:
        return [("RPUSH", self.key)]


def new(tenant: str = TENANT, body: str = BODY, **metadata: str) -> NewRefinement:
    request = RefinementRequest(task="Say it plainly.", draft=DRAFT, metadata=metadata)
    limits = request.limits()
    models = {role: ModelChoice(model="offline:editor") for role in ("generator", "critic")}
    queued = Queued(
        strategy="iterative",
        models={role: choice.model for role, choice in models.items()},
        limits=limits,
        request_sha256=body,
    )
    return NewRefinement(tenant, request, body, models, limits, queued)


class FlakyCommitter(Committer):
    """Loses the answers to some requests, after or before Redis has seen them."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client)
        self.lose: list[str] = []

    def submit(self, script: LuaScript, *args: Word) -> asyncio.Future[Any]:
        fault = self.lose.pop(0) if self.lose else ""
        if fault == "request":
            raise RedisConnectionError("lost on the way there")
        answer = super().submit(script, *args)
        return asyncio.ensure_future(self._lost_answer(answer)) if fault == "answer" else answer

    async def _lost_answer(self, answer: asyncio.Future[Any]) -> None:
        await answer
        raise RedisConnectionError("lost on the way back")


@dataclass(frozen=True)
class HeldClaim:
    """A refinement that a worker has claimed."""

    id: str
    claimed: Claimed
    journal: Journal

    @property
    def token(self) -> int:
        return self.claimed.token


async def submit(store: Store, tenant: str = TENANT, **metadata: str) -> str:
    return (await store.create(new(tenant, **metadata), None)).id


async def claim(worker: WorkerStore, refinement_id: str, job: int = 1) -> HeldClaim:
    claimed = await worker.claim(refinement_id, f"{refinement_id}-{job}", "worker-1")
    assert claimed is not None
    return HeldClaim(refinement_id, claimed, worker.journal(claimed))


async def started(store: Store, worker: WorkerStore) -> HeldClaim:
    return await claim(worker, await submit(store))


def stored_sums(*numbers: float) -> bytes:
    """Return sums as `add` in sums.lua stores them."""
    return b"d" + pack(f"<{len(numbers)}d", *numbers)


def step(key: str = "iterations/1/critique", text: str = "reply") -> Entry:
    done = StepCompleted(
        about="0" * 16,
        key=key,
        kind="ask",
        reply=TextReply(text=text),
        usage=Usage(calls=1),
        seconds=1.5,
        next=(),
    )
    return Entry(EventType.STEP_COMPLETED, done)


def failed_step(key: str = "iterations/1/critique") -> Entry:
    failed = StepFailed(
        about="0" * 16, key=key, code="model_refused", detail="no", usage=Usage(), next=()
    )
    return Entry(EventType.STEP_FAILED, failed)


def under_way(*next_keys: str) -> Entry:
    return Entry(EventType.STEP_STARTED, StepStarted(next=next_keys))


def stopping(reason: StopReason = StopReason.DEADLINE) -> Entry:
    return Entry(EventType.STOPPING, Stopping.model_validate({"reason": reason}))


COMPLETED = Entry(EventType.COMPLETED)
FAILED = Entry(EventType.FAILED)
CANCELED = Entry(EventType.CANCELED)

BEST = Best(iteration=1, path="iterations/1", score=0.9, sha256=sha256_of(DRAFT))
RESULT = Result(draft=DRAFT, iteration=1, path="iterations/1", score=0.9, sha256=BEST.sha256)
JUDGED = Fields(
    iteration=1,
    best=BEST,
    best_passed=True,
    result=RESULT,
    scores=(IterationScore(iteration=1, path="iterations/1", score=0.9),),
    usage=Usage(calls=2, input_tokens=30, output_tokens=20, cost_usd=0.5, seconds=1.5),
)
SUCCEEDED = Fields(stop_reason=StopReason.THRESHOLD_MET)
BROKEN = Fields(
    stop_reason=StopReason.ERROR, error=Failure(code="model_unavailable", detail="it is away")
)


def iteration(held: HeldClaim) -> Entry:
    completed = IterationCompleted(
        iteration=1,
        path="iterations/1",
        sha256=BEST.sha256,
        parent=None,
        score=0.9,
        scores=(),
        passed=True,
        findings=(),
        strengths=(),
        weaknesses=(),
        suggestions=(),
        asked=(),
        best=BEST,
        limits=held.claimed.state.limits,
    )
    return Entry(EventType.ITERATION_COMPLETED, completed)


def asking(
    key: str = "iterations/1/review",
    timeout_s: float = 60,
    on_timeout: OnTimeout = "finish",
    reviewers: tuple[str, ...] = (),
    approvals: int = 1,
) -> Entry:
    asked = Paused(
        key=key,
        path="iterations/1",
        iteration=1,
        score=0.9,
        sha256=BEST.sha256,
        when="each_iteration",
        timeout_s=timeout_s,
        on_timeout=on_timeout,
        question="Is this draft good enough?",
        reviewers=reviewers,
        approvals_needed=approvals,
    )
    return Entry(EventType.PAUSED, asked)


async def pause(
    held: HeldClaim,
    *entries: Entry,
    key: str = "iterations/1/review",
    timeout_s: float = 60,
    on_timeout: OnTimeout = "finish",
    alone: bool = False,
    reviewers: tuple[str, ...] = (),
    approvals: int = 1,
) -> State:
    """Ask a reviewer, in one append with what was judged unless `alone`."""
    judged = () if alone else (step(f"{key}d"), iteration(held))
    asked = asking(key, timeout_s, on_timeout, reviewers, approvals)
    fields = replace(Fields() if alone else JUDGED, phase=(key,))
    return await held.journal.append([*judged, *entries, asked], fields, to=Status.PAUSED)


async def paused(
    store: Store,
    worker: WorkerStore,
    timeout_s: float = 60,
    on_timeout: OnTimeout = "finish",
    reviewers: tuple[str, ...] = (),
    approvals: int = 1,
) -> HeldClaim:
    held = await started(store, worker)
    await pause(
        held,
        timeout_s=timeout_s,
        on_timeout=on_timeout,
        reviewers=reviewers,
        approvals=approvals,
    )
    return held


MODEL = "openai:gpt-5-mini"


def waiting(
    key: str = "iterations/1/draft", model: str = MODEL, reason: WaitReason = "rate_limited"
) -> Waiting:
    until = datetime(2026, 1, 31, 9, tzinfo=UTC)
    return Waiting(key=key, reason=reason, model=model, until=until)


async def park(
    held: HeldClaim,
    *entries: Entry,
    models: tuple[str, ...] = (MODEL,),
    reason: WaitReason = "rate_limited",
) -> State:
    """Give up the claim until there is a permit for one of the models."""
    wait = waiting(reason=reason)
    waits = (*entries, Entry(EventType.STEP_WAITING, wait))
    fields = Fields(phase=(wait.key,), waiting=(wait,))
    return await held.journal.append(waits, fields, parking=Parking(models))


async def recorded(worker: WorkerStore, refinement_id: str) -> tuple[Event, ...]:
    """Return the journal as a worker that claims it reads it."""
    return (await worker.load(refinement_id)).events


async def be_up(redis: Redis) -> None:
    """Let workers have reached Redis for long enough that what is due may be taken."""
    seconds, microseconds = await redis.time()
    seen = seconds * 1000 + microseconds // 1000
    await redis.hset(keys.UP, mapping={"seen": seen, "since": 0})


async def expire_lease(redis: Redis, refinement_id: str) -> None:
    """Let the lease be over, as if this were the only refinement of a worker that has died."""
    await give_to(redis, refinement_id, f"holder of {refinement_id}", until_ms=1)
    await be_up(redis)


async def give_to(redis: Redis, refinement_id: str, worker: str, until_ms: int) -> None:
    """Let another worker hold a refinement, with a lease until then."""
    holder: Any = await redis.hget(keys.SUMMARY + refinement_id, "holder")
    await redis.hset(keys.SUMMARY + refinement_id, "holder", worker)
    await redis.smove(keys.HELD + holder.decode(), keys.HELD + worker, refinement_id)
    await redis.zadd(keys.WORKERS, {worker: until_ms})


async def expire_wait(redis: Redis, refinement_id: str) -> None:
    """Let a parked refinement have waited for as long as its limits allow."""
    # Without the time at which it was parked, a wait counts from the moment at which Redis looks.
    await redis.hset(keys.SUMMARY + refinement_id, "waited_ms", 86_400_000 + 1_000)
    await redis.zadd(keys.DUE, {refinement_id: 1})
    await be_up(redis)


async def expire_retention(redis: Redis, refinement_id: str) -> None:
    await redis.zadd(keys.DUE, {refinement_id: 1})
    await be_up(redis)


async def pack_now(redis: Redis, worker: WorkerStore, refinement_id: str) -> None:
    """Let a refinement have ended long enough ago for its record to be packed."""
    await redis.zadd(keys.TO_PACK, {refinement_id: 1})
    assert not await worker.count_and_pack()


async def count_ended(worker: WorkerStore) -> None:
    """Let what has ended be in the sums."""
    while await worker.count_and_pack(count_after_ms=0):
        pass


async def expire_review(redis: Redis, refinement_id: str) -> None:
    """Let the time for a review be over."""
    await redis.zadd(keys.DUE, {refinement_id: 1})
    await be_up(redis)


async def doubt(redis: Redis, refinement_id: str) -> None:
    """Let it have waited in the queue for longer than a lease."""
    await redis.zadd(keys.WAITING, {refinement_id: 1})
    await be_up(redis)


async def kinds(store: Store, refinement_id: str) -> list[EventType]:
    """Return the types of its events, whose numbers have no gap."""
    events = await store.events(TENANT, refinement_id)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    return [EventType(event.type.decode()) for event in events]


async def everything(redis: Redis) -> dict[bytes, Any]:
    """Return all that stands in Redis, but when somebody looks again, and what was erased."""
    found: dict[bytes, Any] = {}
    others = {keys.UP.encode(), keys.ERASURES.encode()}
    for key in cast("list[bytes]", await redis.keys("*")):
        if plain(key) in others or plain(key).startswith(keys.ERASED.encode()):
            continue
        match await redis.type(key):
            case b"hash":
                found[key] = await redis.hgetall(key)
            case b"zset":
                found[key] = await redis.zrange(key, 0, -1)
            case b"stream":
                found[key] = await redis.xrange(key)
            case b"list":
                found[key] = await redis.lrange(key, 0, -1)
            case b"string":
                found[key] = await redis.get(key)
    return {plain(key): value for key, value in found.items()}


def plain(name: bytes) -> bytes:
    """Return the name of a key as one Redis has it."""
    return name.replace(b"hone:{c00}:", b"hone:1:").replace(b"rq:{c00}:", b"rq:")


async def subscribers(redis: Redis, channel: keys.Key) -> int:
    """Return how many connections are subscribed to a channel."""
    how = "NUMSUB" if layout_in(redis) is PLAIN else "SHARDNUMSUB"
    _, count = await redis.execute_command("PUBSUB", how, channel)  # type: ignore[no-untyped-call]
    return int(count)


async def copied(redis: Redis) -> dict[bytes, bytes]:
    """Return all that stands in Redis, as a backup or a replica that lags behind has it."""
    names = cast("list[bytes]", await redis.keys("*"))
    return {name: cast("bytes", await redis.dump(name)) for name in names}


async def restore(redis: Redis, copy: dict[bytes, bytes]) -> None:
    """Put a copy in the place of all that stands in Redis now."""
    await redis.flushall()
    for name, value in copy.items():
        await redis.restore(name, 0, value)
