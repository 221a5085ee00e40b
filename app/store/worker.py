"""The store of a worker: claims, leases, recovery, and the journal of each claim."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, cast
from uuid import uuid4

from pydantic_core import from_json, to_json
from redis.asyncio import Redis

from app.contract.errors import RefinementNotFound
from app.contract.snapshot import Failure
from app.contract.status import Status
from app.store.archive_transfer import ArchiveTransfer
from app.store.enqueue import Enqueuer
from app.store.journal import EndedJournals, Journal
from app.store.live_texts import decode_watched, encode_piece
from app.store.packing import pack_record
from app.store.rate_limits import parked_by_model
from app.store.redis import keys
from app.store.redis.codec import (
    decode_models,
    decode_request,
    decode_state,
    decoded_event,
    ends,
    has_ended,
    moment,
    number_of,
)
from app.store.redis.committer import Committer, redis_time_ms, replies_in_order
from app.store.redis.connection import run_script, until_answered
from app.store.redis.scripts import (
    BLAME,
    CLAIM,
    DROP,
    HAND_BACK,
    LEAVE,
    PARK_QUEUED,
    PUT_BACK,
    RENEW,
    TAKE_BATCHES,
    TAKE_DUE,
    TAKE_ENDED,
    TAKE_PARKED,
)
from app.store.sealing import NO_SEALER, Sealer
from app.store.state import Claimed, Fenced, Job, Loaded, StaleLimits, Submitted, Suspected
from app.store.statistics import Kind, decode_learnt, read_learnt
from app.store.wakeups import messages

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
"""What a worker lacks that cannot read a refinement at all."""

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

        `lacking` is the version of the engine that this worker cannot play, or `LATER`; readiness
        names it for `NAMED_S` seconds.
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
