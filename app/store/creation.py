"""Creating a refinement: record and queue entry are written in one transaction, or not at all."""

import asyncio
import time
from concurrent.futures import Executor
from typing import cast

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import WatchError
from ulid import ULID

from app.contract.errors import IdempotencyMismatch, Overloaded
from app.store import keys
from app.store.codec import encode_limits, encode_metadata, encode_queued, encode_submitted
from app.store.enqueue import Queue
from app.store.scripts import CREATE
from app.store.state import Created, NewRefinement, Submitted

REMEMBERED_S = 24 * 3600  # how long an idempotency key is known
FULL = 0.8  # the share of maxmemory from which new work is refused
RETRY_AFTER_S = 5
MEASURED_FOR_S = 1.0  # how old a measurement of the memory may be

ScriptArguments = tuple[str | bytes | int, ...]


class Creation:
    """Creates refinements in threads, because RQ is synchronous."""

    def __init__(
        self,
        queue: Queue,
        client: Redis,
        executor: Executor,
        *,
        queue_max: int,
        lease_ms: int,
        retention_ms: int,
    ) -> None:
        self._queue = queue
        self._client = client
        self._executor = executor
        self._queue_max = queue_max
        self._lease_ms = lease_ms
        self._retention_ms = retention_ms
        self._memory = Memory(client)

    async def create(self, new: NewRefinement, idempotency_key: str | None) -> Created:
        """Return the new refinement, or the one that the same key and body made within 24 hours.

        Raises IdempotencyMismatch, and Overloaded when the queue or the memory is full. The bound
        of the queue may be passed by as many as are created at the same moment.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._create, new, idempotency_key)

    def _create(self, new: NewRefinement, idempotency_key: str | None) -> Created:
        refinement_id = f"ref_{ULID()}"
        record = None if idempotency_key is None else keys.idempotency(new.tenant, idempotency_key)
        args = self._args(refinement_id, new, record)
        while True:
            try:
                with self._client.pipeline(transaction=True) as pipeline:
                    return self._attempt(pipeline, refinement_id, new, record, args)
            except WatchError:  # somebody used the same key, or the connection broke
                continue

    def _attempt(
        self,
        pipeline: Pipeline,
        refinement_id: str,
        new: NewRefinement,
        record: str | None,
        args: ScriptArguments,
    ) -> Created:
        if record is not None:
            pipeline.watch(record)  # type: ignore[no-untyped-call]
            known = pipeline.get(record)
            if known is not None:
                return _replayed(refinement_id, new, cast("bytes", known))
        self._require_room()
        pipeline.multi()
        self._queue.enqueue(refinement_id, f"{refinement_id}-1", pipeline)
        # The text, not its hash: a script that Redis has lost must not fail in here.
        pipeline.eval(CREATE.text, 0, *args)
        pipeline.execute()
        return Created(refinement_id, replayed=False)

    def _require_room(self) -> None:
        if self._queue.length(self._client) >= self._queue_max:
            raise Overloaded(
                f"{self._queue_max} refinements are waiting; try again later",
                retry_after_s=RETRY_AFTER_S,
            )
        if self._memory.used_share() >= FULL:
            raise Overloaded(
                "the memory of Redis is nearly full; try again when refinements have expired",
                retry_after_s=RETRY_AFTER_S,
            )

    def _args(self, refinement_id: str, new: NewRefinement, record: str | None) -> ScriptArguments:
        request, models = encode_submitted(Submitted(new.request, new.models))
        remembered: ScriptArguments = ("", 0)
        if record is not None:
            remembered = (f"{new.body_sha256} {refinement_id}", REMEMBERED_S)
        fields: ScriptArguments = (
            "strategy",
            new.request.strategy.kind,
            "limits",
            encode_limits(new.limits),
            "retention_ms",
            self._retention_ms,
        )
        return (
            refinement_id,
            new.tenant,
            self._lease_ms,
            request,
            models,
            encode_queued(new.queued),
            *remembered,
            encode_metadata(new.request.metadata),
            *fields,
            *(() if new.parent is None else ("parent", new.parent)),
            *(() if new.queued.draw is None else ("drawn", new.queued.draw.picked)),
            *(() if record is None else ("idempotency", record)),
        )


def _replayed(refinement_id: str, new: NewRefinement, record: bytes) -> Created:
    body_sha256, _, first_id = record.decode().partition(" ")
    if body_sha256 != new.body_sha256:
        raise IdempotencyMismatch("this Idempotency-Key was used with another body within 24 hours")
    # Our own id: the transaction took place, and only its answer was lost.
    return Created(first_id, replayed=first_id != refinement_id)


class Memory:
    """How full Redis is, measured once a second at most."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._share = 0.0
        self._measured_at = float("-inf")

    def used_share(self) -> float:
        """Return the share of maxmemory in use, 0 when there is no bound."""
        now = time.monotonic()
        if now - self._measured_at > MEASURED_FOR_S:
            info = self._client.info("memory")
            bound = info["maxmemory"]
            self._share = info["used_memory"] / bound if bound else 0.0
            self._measured_at = now
        return self._share
