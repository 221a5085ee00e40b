"""The store of a worker: jobs, claims, leases, recovery, and the journal of each claim.

Workers also report what tenants spend in a day, and learn what is left of the quotas.
"""

import asyncio
import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, cast
from uuid import uuid4

from pydantic_core import from_json, to_json
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.contract.access import Quotas
from app.contract.errors import RefinementNotFound
from app.contract.snapshot import Failure, Result
from app.contract.status import Status
from app.contract.values import value
from app.store.access import decode_quotas
from app.store.archive_transfer import ArchiveTransfer
from app.store.creation import Enqueuer
from app.store.live_texts import decode_watched, encode_piece
from app.store.packing import pack_record
from app.store.rate_limits import parked_by_model
from app.store.redis import keys
from app.store.redis.codec import (
    NO_PROMPTS,
    decode_models,
    decode_request,
    decode_result,
    decode_state,
    decoded_event,
    encode_append,
    ends,
    has_ended,
    moment,
    number_of,
)
from app.store.redis.committer import Commands, Committer, redis_time_ms, replies_in_order
from app.store.redis.connection import layout_in, run_script, until_answered
from app.store.redis.scripts import (
    APPEND,
    BLAME,
    CLAIM,
    DROP,
    HAND_BACK,
    LEAVE,
    LOOK,
    PARK_QUEUED,
    PUT_BACK,
    RENEW,
    SPEND,
    TAKE_BATCHES,
    TAKE_DUE,
    TAKE_ENDED,
    TAKE_JOBS,
    TAKE_PARKED,
)
from app.store.sealing import NO_SEALER, Sealer
from app.store.state import (
    Addition,
    Claimed,
    Entry,
    Fenced,
    Fields,
    Job,
    Loaded,
    Parking,
    StaleLimits,
    State,
    Submitted,
    Suspected,
    UnreadableRecord,
)
from app.store.statistics import Kind, decode_learnt, read_learnt
from app.store.wakeups import messages

EQUAL_WEIGHTS: Mapping[str, float] = {}


@value(slots=True)
class Taken:
    """The ids of jobs and their fields in RQ, and how many more are in the queue."""

    jobs: Sequence[tuple[bytes, Sequence[Any]]]
    left: int


class JobSource:
    """Takes jobs for one worker, and admits refinements in line to the queue for that.

    Tenants take turns, those with a weight of 2 twice as often; a tenant that is not listed has the
    weight 1. Within a tenant, `batch` comes after the rest, then the older one first. `queues` are
    the keys of the RQ queue and of its intermediate list.
    """

    def __init__(
        self,
        worker: str,
        queues: tuple[str, str],
        job_prefix: str,
        lease_ms: int,
        weights: Mapping[str, float] = EQUAL_WEIGHTS,
    ) -> None:
        self._worker = worker
        self._keys = (*queues, job_prefix)
        self._shares = (lease_ms, json.dumps(dict(weights)))

    async def dequeue(
        self, client: Redis, template: str, free: int, most: int, moved: Sequence[bytes]
    ) -> Taken:
        """Move up to `most` jobs into the intermediate list, at most one per free slot.

        Those that were `moved` before count, and are returned with the others. `template` has the
        commands that enqueue a job. Raises redis errors; the jobs may have been moved then.
        """
        layout = layout_in(client)
        places: list[str | int] = [*map(layout.name, self._keys), *self._shares]
        args = (self._worker, free, most, *places, layout.json_of_rq(template), *moved)
        left, *found = await run_script(client, TAKE_JOBS, *args)
        return Taken(tuple(zip(found[::2], found[1::2], strict=True)), left)


KEPT_S = 60.0  # longer than a failover; the appends of a minute are few
MOST_KEPT_BYTES = 32 * 1024 * 1024  # bytes of claims that have ended

NOTHING = Fields()
UNANSWERED = (RedisConnectionError, RedisTimeoutError)

_Payload = tuple[str | bytes, ...]


class Journal:
    """The journal of one claimed refinement, to which its worker appends.

    Create one per claim, or numbers clash. An append takes effect once. Every append has the nonce
    of the claim and a number. Redis stores the last number and answers a repeated one with the
    current state. The number grows only with a definite answer, and one append is in progress at a
    time: one whose answer was lost is sent again, unchanged, before any other.

    A failover can lose the last appends, since Redis replicates asynchronously. Those of the last
    `KEPT_S` seconds are kept and written again, so that no reply in them is paid for twice. An
    append that ends the claim puts the journal among those that have `ended`.
    """

    def __init__(
        self, claimed: Claimed, committer: Committer, ended: "EndedJournals | None" = None
    ) -> None:
        self.id = claimed.id
        self.token = claimed.token
        self._nonce = claimed.nonce
        self._committer = committer
        self._state = claimed.state
        self._done = 0
        self._unanswered: _Payload | None = None
        self._kept: dict[int, tuple[float, _Payload]] = {}
        self._turn = asyncio.Lock()
        self._ended = ended

    async def append(
        self,
        entries: Sequence[Entry],
        fields: Fields = NOTHING,
        *,
        to: Status | None = None,
        limits_seq: int | None = None,
        parking: Parking | None = None,
        waited_s: float = 0.0,
        prompts: Mapping[str, bytes] = NO_PROMPTS,
        additions: Sequence[Addition] = (),
    ) -> State:
        """Append all of `entries` with the summary fields and the prompts' parts, or nothing.

        A second `refinement.stopping` is left out. While it is `canceling`, `to` succeeded or
        failed becomes canceled. `to` paused requires one `refinement.paused` among the entries: it
        gives up the claim and starts the timeout of the review. If the refinement is `canceling`,
        `stopping` or was asked to finish, that entry is left out and it continues: check the status
        of the returned state.

        With `parking` it gives up the claim, and the attempt does not count; if the refinement is
        `canceling` or `stopping`, or a pause was requested, it keeps the claim: see `is_parked` of
        the returned state. `waited_s` is the time in total that it has waited for models.
        `additions` are added to sums by the first append that lets it succeed or fail, once for a
        refinement.

        Raises Fenced, StaleLimits and redis errors. After a redis error or a cancellation the same
        call may be repeated, and takes effect once; if another call is made instead, the first one
        takes effect before it.
        """
        what = encode_append(entries, fields, to, parking, waited_s, prompts, additions)
        payload = ("" if limits_seq is None else f"{limits_seq}", *what)
        async with self._turn:
            if self._unanswered is not None and self._unanswered != payload:
                await self._settle_unanswered()
            state = await self._send(payload)
        if self._ended is not None and (to is not None or parking is not None):
            self._ended.add(self)
        return state

    async def restore(self) -> None:
        """Write again what Redis has lost, although the claim has ended.

        Raises Fenced if that cannot be done, and redis errors.
        """
        async with self._turn:
            _, payload = self._kept[self._done]
            known = self._state
            reply = await self._sent(self._done, payload)
            if reply.startswith(b"SHORT"):
                await self._restore(reply)
            else:
                self._learn(reply, known)

    @property
    def bytes_kept(self) -> int:
        """About how much memory the appends take that are kept."""
        payloads = [payload for _, payload in self._kept.values()]
        return sum(map(len, chain.from_iterable(payloads)))

    async def look(self) -> State:
        """Return the current state, else raise Fenced."""
        known = self._state
        reply = await self._committer.submit(
            LOOK, self.id, self._nonce, known.last_event, known.limits_seq
        )
        assert isinstance(reply, bytes)
        return self._learn(reply, known)

    async def result(self) -> Result | None:
        """Return the result as it stands: that of the best draft so far, None before one."""

        async def read() -> bytes | None:
            stored: bytes | None = await self._committer.execute(
                "HGET", keys.SUMMARY + self.id, "result"
            )
            return stored

        return decode_result(await until_answered(read, self.id))

    async def _settle_unanswered(self) -> None:
        assert self._unanswered is not None
        with suppress(StaleLimits):  # then it is certain that nothing was written
            await self._send(self._unanswered)

    async def _send(self, payload: _Payload) -> State:
        self._unanswered = payload
        number = self._done + 1
        try:
            known = self._state
            reply = await self._sent(number, payload)
            if reply.startswith(b"SHORT"):
                await self._restore(reply)
                known = self._state
                reply = await self._sent(number, payload)
        except UNANSWERED:
            raise
        except RedisError:
            self._unanswered = None  # Redis rejected it: nothing was written
            raise
        self._unanswered = None
        state = self._learn(reply, known)
        self._done = number
        self._keep(number, payload)
        return state

    def _sent(self, number: int, payload: _Payload) -> asyncio.Future[bytes]:
        """Send one append, which refers to the state known now; return a future of its answer."""
        known, (relied, *what) = self._state, payload
        words = (self._nonce, number, known.last_event, relied, known.limits_seq, *what)
        return self._committer.submit(APPEND, self.id, *words)

    async def _restore(self, reply: bytes) -> None:
        """Write again what Redis has lost, or raise Fenced if that is not kept any more."""
        _, done, last_event = reply.split()
        lost = range(int(done) + 1, self._done + 1)
        if any(number not in self._kept for number in lost):
            raise Fenced(f"{self.id}: Redis has lost the end of the journal")
        self._state = replace(self._state, last_event=int(last_event))
        for number in lost:
            known = self._state
            answer = await self._sent(number, self._kept[number][1])
            if not answer.startswith((b"OK", b"PARKED")):
                raise Fenced(f"{self.id}: what Redis has lost cannot be written again")
            self._learn(answer, known)

    def _keep(self, number: int, payload: _Payload) -> None:
        now = asyncio.get_running_loop().time()
        self._kept[number] = now, payload
        while self._kept and now - self._kept[(oldest := next(iter(self._kept)))][0] > KEPT_S:
            del self._kept[oldest]

    def _learn(self, reply: bytes, known: State) -> State:
        code, _, rest = reply.partition(b" ")
        if code == b"FENCED":
            raise Fenced(f"{self.id}: token {self.token} is no longer in force")
        try:
            state = decode_state(rest, known)
        except UnreadableRecord as error:
            raise Fenced(f"{self.id}: a later release has taken over: {error}") from None
        if code == b"PARKED":
            return replace(state, is_parked=True)
        # Callers of looks and appends may run in another order than that of the answers.
        if state.last_event >= self._state.last_event:
            self._state = state
        if code == b"STALE":
            raise StaleLimits(state)
        return state


class EndedJournals:
    """The journals of claims that have ended, in case a failover loses their end.

    They are kept for `KEPT_S` seconds, and in up to `MOST_KEPT_BYTES`: the oldest go first.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, int, Journal]] = {}
        self._bytes = 0

    def add(self, journal: Journal) -> None:
        """Keep a journal, in place of that of an earlier claim of the same refinement."""
        now = asyncio.get_running_loop().time()
        self._remove(journal.id)
        self._kept[journal.id] = now, journal.bytes_kept, journal
        self._bytes += self._kept[journal.id][1]
        while self._kept:
            oldest = next(iter(self._kept))
            if self._bytes <= MOST_KEPT_BYTES and now - self._kept[oldest][0] <= KEPT_S:
                break
            self._remove(oldest)

    def of(self, ids: Iterable[str]) -> list[Journal]:
        """Return the journals that are kept of these refinements."""
        return [
            self._kept[refinement_id][2] for refinement_id in ids if refinement_id in self._kept
        ]

    def _remove(self, refinement_id: str) -> None:
        if refinement_id in self._kept:
            self._bytes -= self._kept.pop(refinement_id)[1]


RENEWALS_PER_LEASE = 4
ATTEMPTS = 3  # claims without a journaled step, before a refinement can be `poisoned`
TAKEN = 100  # maximum refinements that one run of the script checks
BATCHES_TAKEN = 10
FED_EVERY_MS = 200
COUNTED_AT_ONCE = 50
COUNT_AFTER_MS = 1_000
PACKED_AT_ONCE = 10
PACK_AGAIN_MS = 60_000
USAGE_DAYS = 400  # for which there are sums of usage, today included
MOST_QUEUED = 200  # refinements of a tenant with which none of its batches begin
MOST_LIVE = 2_000  # refinements of one batch that have begun and not ended

LATER = "later"
"""What a worker lacks that cannot read a refinement, and knows no kind that it lacks."""

PUT_BACK_S = 5
NAMED_S = 30

NOTHING_READ: Mapping[str, int] = {}


async def renew(client: Redis, name: str, lease_ms: int, read: Mapping[str, int]) -> dict[str, int]:
    """Renew the lease of a worker, which covers everything that it holds.

    Returns the ids for which there was a command, or whose claim was lost, each with a number.
    Read their state (`Journal.look`), then pass them as `read` to the next renewal.
    """
    pairs = [word for pair in read.items() for word in pair]
    news = await run_script(client, RENEW, name, lease_ms, *pairs)
    return {one.decode(): int(number) for one, number in zip(news[::2], news[1::2], strict=True)}


class WorkerStore:
    """The operations of a worker. Redis errors reach the caller as redis-py raises them."""

    def __init__(
        self,
        client: Redis,
        committer: Committer,
        listener: Redis,
        enqueuer: Enqueuer,
        *,
        name: str,
        lease_ms: int,
        usage_days: int = USAGE_DAYS,
        pack_after_ms: int,
        searchable: bool = True,
        sealer: Sealer = NO_SEALER,
        transfer: ArchiveTransfer | None = None,
    ) -> None:
        self.transfer = transfer
        self._archive_after_ms = None if transfer is None else transfer.after_ms
        self._pack_after_ms = pack_after_ms
        self._searchable = searchable
        self._sealer = sealer
        self._usage_days = usage_days
        self._client = client
        self._listener = listener
        self.enqueuer = enqueuer
        self._name = name
        self._lease_ms = lease_ms
        self._committer = committer
        self._ended = EndedJournals()
        self.orphaned = 0
        """Refinements that `recover` has taken over from workers that were gone."""

    async def claim(
        self,
        refinement_id: str,
        job_id: str,
        worker: str,
        *,
        takes_suspects: bool = True,
        kind: Kind | None = None,
    ) -> Claimed | None:
        """Claim it and journal `started` or `resumed`; return None if there is nothing to do.

        `worker` is the name of the worker, whose lease begins if it has none. A job that is
        delivered twice is claimed once, even by the same worker. Without `takes_suspects` it raises
        Suspected if nothing was journaled since the last claim; the refinement is then due again
        after a quarter of a lease. While Redis is away the claim is sent again. With `kind`, the
        first claim copies what was learnt of that kind into the record; no later claim changes it.
        """
        # New for every call: only a command that is sent again gets the same token again. Two
        # journals with one token would use the same numbers.
        once = uuid4().hex
        args = (refinement_id, job_id, worker, once, self._lease_ms, int(takes_suspects))

        async def send() -> Any:
            learnt = b"" if kind is None else await self._learnt(refinement_id, kind)
            return await self._committer.submit(CLAIM, *args, learnt)

        reply = await until_answered(send, refinement_id)
        if reply is None:
            return None
        if reply == b"SUSPECT":
            raise Suspected(refinement_id)
        assert isinstance(reply, list)
        token, attempt, resumed, elapsed_ms, tenant, state, at, waited_ms, *rest = reply
        left_ms, permit, learnt = rest
        return Claimed(
            id=refinement_id,
            tenant=tenant.decode(),
            token=int(token),
            nonce=once,
            resumed=bool(int(resumed)),
            attempt=int(attempt),
            state=decode_state(state.partition(b" ")[2], None),
            elapsed_s=int(elapsed_ms) / 1000,
            at=moment(int(at)),
            waited_s=int(waited_ms) / 1000,
            left_s=int(left_ms) / 1000 if left_ms != b"" else None,
            permit=permit.decode() or None,
            learnt=decode_learnt(learnt),
        )

    async def _learnt(self, refinement_id: str, kind: Kind) -> bytes:
        """Return what was learnt of a kind if the refinement has not begun."""
        key = keys.SUMMARY + refinement_id
        tenant, started = await self._committer.execute("HMGET", key, "tenant", "started_at")
        if tenant is None or started is not None:
            return b""
        return await read_learnt(self._committer, tenant.decode(), kind)

    def journal(self, claimed: Claimed) -> Journal:
        """Return the journal of a claim; call it once per claim."""
        return Journal(claimed, self._committer, self._ended)

    async def load(self, refinement_id: str) -> Loaded:
        """Return the request and the journal so far, else raise RefinementNotFound.

        Events of unknown types and the endings before a retry are left out. Raises Fenced if it has
        ended, and UnreadableRecord if a later release wrote what this one cannot read. It shares a
        pipeline with other requests, so that a worker that starts hundreds of refinements at once
        needs no further connection.
        """
        execute = self._committer.execute
        fields = ("request", "models", "prompt_nonce", "secrets")
        summary, submission, entries = await replies_in_order(
            execute("HMGET", keys.SUMMARY + refinement_id, "engine_version", "origin"),
            execute("HMGET", keys.REQUEST + refinement_id, *fields),
            execute("XRANGE", keys.JOURNAL + refinement_id, "-", "+"),
        )
        (version, origin), (request, models, prompt_nonce, secrets) = summary, submission
        if version is None or request is None or not entries:
            raise RefinementNotFound(refinement_id)
        if has_ended([entry for _, entry in entries]):
            raise Fenced(f"{refinement_id} has ended")
        submitted = Submitted(
            decode_request(request, self._sealer.open(secrets, refinement_id)),
            decode_models(models),
            prompt_nonce.decode(),
            int(version),
        )
        events = (decoded_event(number, entry, b"") for number, entry in entries if not ends(entry))
        return Loaded(
            submitted,
            tuple(event for event in events if event is not None),
            number_of(entries[-1][0]),
            (origin or b"").decode(),
        )

    async def put_back(self, refinement_id: str, lacking: str) -> None:
        """Let another worker take it in `PUT_BACK_S` seconds, unless one holds it already.

        `lacking` is the version of the engine or the kind that this worker cannot play, or `LATER`;
        readiness names it for `NAMED_S` seconds.
        """
        await self._committer.submit(
            PUT_BACK, refinement_id, PUT_BACK_S * 1000, lacking, NAMED_S * 1000
        )

    async def park_queued(self, refinement_id: str, models: Collection[str], most: int) -> bool:
        """Park a queued refinement if it needs one of these models, and no other would do.

        It stays queued, and is claimed with a permit like any parked one. Returns whether there is
        nothing to do for its job now. No more than `most` queued ones are parked at a time. While
        Redis is away it is sent again.
        """

        async def send() -> Any:
            key = keys.REQUEST + refinement_id
            stored = await self._committer.execute("HGET", key, "models")
            seats = from_json(stored or b"{}").values()
            named = ([seat["model"], *(seat.get("fallbacks") or ())] for seat in seats)
            full = next((names for names in named if {*names} <= {*models}), None)
            words = to_json(full) if full else b""
            return await self._committer.submit(PARK_QUEUED, refinement_id, most, words)

        return bool(await until_answered(send, refinement_id) == 1)

    async def announce(self, versions: Iterable[int]) -> None:
        """Announce the versions of the engine that this worker plays, for one lease."""
        expires = await redis_time_ms(self._committer) + self._lease_ms
        scored = chain.from_iterable((expires, version) for version in versions)
        await self._committer.execute("ZADD", keys.PLAYABLE, "GT", *scored)

    async def hand_back(self, refinement_id: str, nonce: str, *, failed: bool = False) -> None:
        """Give up the claim with a nonce so that another worker can take the refinement.

        Nothing happens if the claim was lost, even if the next one has the same token. The claim
        counts as an attempt only if this worker `failed` to go on; then recovery enqueues the
        refinement. While Redis is away the command is sent again.
        """
        number = await until_answered(
            lambda: self._committer.submit(HAND_BACK, refinement_id, nonce, int(failed)),
            refinement_id,
        )
        if isinstance(number, int) and not failed:
            await self.enqueuer.enqueue([Job.numbered(refinement_id, number)])

    async def held(self) -> set[str]:
        """Return the ids that this worker holds according to Redis."""
        ids = await self._client.smembers(keys.HELD + self._name)
        return {refinement_id.decode() for refinement_id in cast("set[bytes]", ids)}

    async def restore(self, ids: Iterable[str]) -> None:
        """Write again what a failover has lost of claims that have ended in this process.

        Raises redis errors.
        """
        for journal in self._ended.of(ids):
            with suppress(Fenced, StaleLimits):  # then it is another's, or goes on
                await journal.restore()

    async def drop(self, ids: Collection[str]) -> None:
        """Give up what this worker holds and does not play; it counts as an attempt."""
        await run_script(self._client, DROP, self._name, *ids)

    async def blame(self, refinement_id: str, name: str, detail: str | None) -> bool:
        """Give up a claim of the worker `name`, which died; return whether the refinement ended.

        Without `detail` other refinements may have caused the death. With it, the refinement ends
        as `failed` with the code `poisoned` if this was the third claim in a row without a
        journaled step. It stays as it is if another worker holds it. While Redis is away it is sent
        again.
        """
        failure = (
            "" if detail is None else Failure(code="poisoned", detail=detail).model_dump_json()
        )
        status = await until_answered(
            lambda: self._committer.submit(
                BLAME, refinement_id, name, self._lease_ms, ATTEMPTS, failure
            ),
            refinement_id,
        )
        assert status is None or isinstance(status, bytes)  # None: it was erased
        return status is None or Status(status.decode()).is_terminal

    async def renew(
        self, read: Mapping[str, int] = NOTHING_READ, *, name: str | None = None
    ) -> dict[str, int]:
        """Renew the lease of this worker, or of the one of that name: see `renew`."""
        return await renew(self._client, name or self._name, self._lease_ms, read)

    async def leave(self) -> None:
        """End the lease of this worker; what it still holds is due at once."""
        await run_script(self._client, LEAVE, self._name)

    async def check_due(
        self, limit: int, include_queued: bool, gone: Sequence[str] = ()
    ) -> tuple[int, tuple[Job, ...]]:
        """Check up to `limit` refinements that are due: end, delete or take them.

        The leases of workers that are `gone` end first. Usage past its retention is deleted too.

        Returns the number of checked ones, and the jobs to enqueue; those not enqueued are due
        again after a quarter of a lease. With `include_queued`, every waiting refinement counts as
        lost from the queue: set it only with free slots and an empty RQ queue. Otherwise a job
        counts as lost only if a later job was claimed before it.
        """
        looked_at, orphaned, *taken = await run_script(
            self._client,
            TAKE_DUE,
            limit,
            int(include_queued),
            self._lease_ms,
            self._usage_days,
            *gone,
        )
        self.orphaned += orphaned
        return looked_at, _jobs(taken)

    async def count_and_pack(self, count_after_ms: int = COUNT_AFTER_MS) -> bool:
        """Count what has ended in the sums, and pack records; return whether there may be more.

        Endings are counted once the oldest is `count_after_ms` old: together, since most of them
        add to the same sums. What is not packed because of an error is tried again after a minute.
        Raises redis errors.
        """
        packing = (PACKED_AT_ONCE, self._pack_after_ms, PACK_AGAIN_MS)
        counted, *ids = await run_script(
            self._client, TAKE_ENDED, COUNTED_AT_ONCE, count_after_ms, *packing
        )
        how = (self._archive_after_ms, self._searchable)
        await asyncio.gather(
            *(pack_record(self._committer, packed_id.decode(), *how) for packed_id in ids)
        )
        return counted == COUNTED_AT_ONCE or len(ids) == PACKED_AT_ONCE

    async def parked(self, most: int) -> dict[str, int]:
        """Return for how many refinements, up to `most`, each model is waited for without a worker.

        Raises redis errors.
        """
        found = await parked_by_model(self._committer, most)
        return {model: min(count, most) for model, count in found.items()}

    async def resume_parked(self, model: str, permits: int) -> int:
        """Enqueue a parked refinement for each permit, before all others; return how many.

        Tenants take turns; within a tenant those with more recorded steps go first, then the older
        ones. Those not enqueued because of an error are due again after a quarter of a lease,
        without a permit.
        """
        jobs = _jobs(await run_script(self._client, TAKE_PARKED, model, permits, self._lease_ms))
        # Each job goes in front of those before it.
        await self.enqueuer.enqueue(jobs[::-1])
        return len(jobs)

    async def recover(
        self, include_queued: bool, is_gone: Callable[[str], bool] = lambda _name: False
    ) -> int:
        """End, delete or enqueue everything that is due; return the number of enqueued ones.

        Nothing is due until workers have reached Redis for half a lease without a break of that
        length, so that after an outage they renew their leases first; but what a worker held that
        has left, or `is_gone`, is due at once.
        """
        workers = cast("list[bytes]", await self._client.zrange(keys.WORKERS, 0, -1))
        gone = [name for worker in workers if is_gone(name := worker.decode())]
        enqueued, looked_at = 0, TAKEN
        while looked_at == TAKEN:
            looked_at, jobs = await self.check_due(TAKEN, include_queued, gone)
            await self.enqueuer.enqueue(jobs)
            enqueued += len(jobs)
        return enqueued

    async def feed_batches(self) -> float | None:
        """Begin requests of the batches that are due; end, cancel or delete due batches.

        Returns in how many seconds the next batch is due; None without batches. Those whose job is
        not enqueued because of an error are found again after a lease, like lost ones.
        """
        args = (BATCHES_TAKEN, self._lease_ms, FED_EVERY_MS, MOST_QUEUED, MOST_LIVE)
        due_ms, *begun = await run_script(self._client, TAKE_BATCHES, *args)
        await self.enqueuer.enqueue(_jobs(begun))
        return None if due_ms < 0 else due_ms / 1000

    async def commands(self) -> AsyncIterator[str]:
        """Yield the id of every refinement that receives a command; reconnect without a limit."""
        async for message in messages(self._listener, keys.COMMANDS):
            if message is not None:
                yield message[1].decode()

    async def watched(self) -> AsyncIterator[dict[str, bool]]:
        """Yield the ids whose texts are watched, as often as the API says so; see `LiveTexts`.

        The value says whether whole texts are needed. Reconnects without a limit.
        """
        async for message in messages(self._listener, keys.WATCHED):
            if message is not None:
                yield decode_watched(message[1].decode())

    def publish_text(
        self, refinement_id: str, key: str, offset: int, text: str | None
    ) -> asyncio.Future[Any]:
        """Send a piece of a text to the API processes, before any later append of this worker.

        Without a text, the step is no longer written.
        """
        piece = encode_piece(refinement_id, key, offset, text)
        return self._committer.execute("PUBLISH", keys.TEXTS, piece)


def _jobs(taken: Sequence[Any]) -> tuple[Job, ...]:
    pairs = zip(taken[::2], taken[1::2], strict=True)
    return tuple(Job.numbered(refinement_id.decode(), number) for refinement_id, number in pairs)


@value(slots=True)
class Spent:
    """Tokens, and dollars as far as costs are known."""

    tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.tokens + other.tokens, self.cost_usd + other.cost_usd)

    def at_most(self, other: "Spent") -> "Spent":
        """Return the lower number of tokens and of dollars."""
        return Spent(min(self.tokens, other.tokens), min(self.cost_usd, other.cost_usd))


NOTHING_SPENT = Spent()


@value(slots=True)
class DaySpending:
    """What a tenant has spent today, and when the day of UTC ends.

    `reserved`: what a worker of another cell may spend of the quotas without further answers; what
    others have reserved counts as spent.
    """

    spent: Spent
    quotas: Quotas
    ends_in_s: float
    reserved: Spent = NOTHING_SPENT

    def allows_alone(self, since: Spent) -> bool:
        """Return whether something reserved is left after what was spent since."""
        tokens, cost_usd = self.quotas.tokens_per_day, self.quotas.cost_usd_per_day
        return (tokens is None or since.tokens < self.reserved.tokens) and (
            cost_usd is None or since.cost_usd < self.reserved.cost_usd
        )

    @property
    def is_limited(self) -> bool:
        """Whether there is a quota of the day."""
        return (self.quotas.tokens_per_day, self.quotas.cost_usd_per_day) != (None, None)

    @property
    def is_over(self) -> bool:
        """Whether a quota of the day is reached."""
        tokens, cost_usd = self.quotas.tokens_per_day, self.quotas.cost_usd_per_day
        return (tokens is not None and self.spent.tokens >= tokens) or (
            cost_usd is not None and self.spent.cost_usd >= cost_usd
        )


Spending = Mapping[str, Spent]
ReportSpending = Callable[[int, Spending, Spending | None], Awaitable[dict[str, DaySpending]]]
"""Takes the number of a report, what was spent since the last one, and of a worker of another cell
what is to be reserved for it; raises redis errors."""


async def report_spending(
    committer: Commands, worker: str, number: int, spent: Spending, wanted: Spending | None
) -> dict[str, DaySpending]:
    """Add what a worker has spent; return the sums of these tenants over all workers.

    A report that is sent again with its number adds nothing.
    """
    words = spending_words(worker, number, spent, wanted)
    return spending_in(spent, await committer.submit(SPEND, *words))


def spending_words(
    worker: str, number: int, spent: Spending, wanted: Spending | None
) -> tuple[str | int, ...]:
    """Return the arguments of the script."""
    words = (
        (name, *_in_words(spending), *_in_words(wanted[name] if wanted else None))
        for name, spending in spent.items()
    )
    return (worker, number, *chain.from_iterable(words))


def spending_in(tenants: Iterable[str], answer: Sequence[Any]) -> dict[str, DaySpending]:
    """Return the answer of the script about these tenants."""
    left_ms, *found = answer
    sums = zip(tenants, *(found[n::5] for n in range(5)), strict=True)
    return {
        name: DaySpending(
            _spent_in(tokens, cost_usd),
            decode_quotas(quotas or None),
            int(left_ms) / 1000,
            _spent_in(*reserved),
        )
        for name, tokens, cost_usd, quotas, *reserved in sums
    }


def _in_words(spending: Spent | None) -> tuple[int | str, str]:
    return ("", "") if spending is None else (spending.tokens, f"{spending.cost_usd:.9f}")


def _spent_in(tokens: bytes, cost_usd: bytes) -> Spent:
    return Spent(int(float(tokens)), float(cost_usd))
