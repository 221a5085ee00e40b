"""Batches in Redis: received in parts, begun little by little, read, canceled, erased."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_core import from_json, to_json
from redis.exceptions import RedisError

from app.contract.batches import (
    BATCH_COMPLETED,
    Batch,
    BatchCounts,
    BatchOptions,
    BatchPage,
    BatchWaiting,
    BatchWebhook,
    RefusedLine,
    batch_links,
)
from app.contract.errors import (
    BatchNotFound,
    Conflict,
    IdempotencyMismatch,
    Overloaded,
    QuotaExceeded,
)
from app.contract.json_lines import json_lines
from app.store.archive import Archive
from app.store.archive_transfer import whole_summary
from app.store.creation import REMEMBERED_S, RETRY_AFTER_BYTES_S, BatchPlace, Creation
from app.store.redis import keys
from app.store.redis.codec import (
    ENDED_STATUSES,
    Summary,
    decode_batch_webhook,
    decode_cursor,
    encode_cursor,
    encode_metadata,
    moment,
    paired,
    snapshot_json,
)
from app.store.redis.committer import Committer
from app.store.redis.connection import RETRY_AFTER_S, refusals
from app.store.redis.keys import Word
from app.store.redis.scripts import BATCH, BATCH_COMMIT, BATCH_STAGE
from app.store.sealing import Sealer
from app.store.state import BATCH_PREFIX, NewRefinement
from app.store.worker import RENEWALS_PER_LEASE

PART_BYTES = 1024 * 1024
PART_LINES = 100
"""What is stored in one step while a batch is received."""

CANCELED_AT_ONCE = 200
ERASED_AT_ONCE = 100
SHOWN_AT_ONCE = 50

log = logging.getLogger(__name__)

_COUNTED = {name: name.encode() for name in BatchCounts.model_fields}


class BatchUpload:
    """A batch that is being received: nothing of it begins before `commit`.

    It holds at most one part in memory. What is stored is deleted once it was not `kept` for a
    lease.
    """

    def __init__(
        self, tenant: str, committer: Committer, creation: Creation, origin: str = ""
    ) -> None:
        self.id = f"{BATCH_PREFIX}{creation.new_ulid()}"
        self.total = 0
        self.errors: list[RefusedLine] = []
        self.tenant = tenant
        self._committer = committer
        self._creation = creation
        self._origin = origin
        self._words: list[Word] = []
        self._size = self._lines = 0
        self._is_first = True

    async def add(self, line: int, custom_id: str, new: NewRefinement) -> None:
        """Store a request.

        Raises InvalidRequest for its deadline, QuotaExceeded and Overloaded.
        """
        place = BatchPlace(self.id, self.total + 1, custom_id)
        refinement_id, words = self._creation.staged(new, place)
        item = {"line": line, "custom_id": custom_id, "id": refinement_id}
        await self._put(to_json(item), refinement_id, *words)

    async def refuse(self, refused: RefusedLine) -> None:
        """Store why a line was refused."""
        self.errors.append(refused)
        await self._put(refused.model_dump_json().encode(), "", "", "", "", "", "")

    async def _put(self, item: bytes, *words: Word) -> None:
        self.total += 1
        self._words += self.total, item, *words
        self._size += len(item) + sum(len(word) for word in words if isinstance(word, str | bytes))
        self._lines += 1
        if self._size >= PART_BYTES or self._lines >= PART_LINES:
            await self._store()

    async def _store(self) -> None:
        words, self._words, self._size, self._lines = self._words, [], 0, 0
        if not words:
            return
        with refusals():
            is_full = await self._creation.is_memory_full()
            answer = await self._stage(int(is_full), *words)
        self._is_first = False
        if answer == b"MEMORY":
            raise _no_memory()
        if answer == b"MISSING":
            raise Conflict("the batch was erased while it was received")
        if answer.startswith(b"QUOTA"):
            detail = f"the refinements of this tenant may take {answer.split()[2].decode()} bytes"
            raise QuotaExceeded(f"{detail}; erase some", retry_after_s=RETRY_AFTER_BYTES_S)

    def _stage(self, is_full: int, *words: Word) -> asyncio.Future[Any]:
        args = (int(self._is_first), is_full, self._creation.lease_ms, self.total)
        return self._committer.submit(BATCH_STAGE, self.id, self.tenant, *args, *words)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Keep what is stored for as long as the context lasts, however slowly the body arrives."""
        keeping = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._creation.lease_ms / 1000 / RENEWALS_PER_LEASE)
            if not self._is_first:
                try:
                    await self._stage(0)
                except RedisError as error:
                    log.warning("%s: cannot renew its lease: %s", self.id, error)

    async def commit(
        self, options: BatchOptions, body_sha256: str, idempotency_key: str | None
    ) -> str:
        """Accept the batch once all of it is durable; return its id.

        That is another one if the same key and body created it within 24 hours; then this one is
        deleted. Raises IdempotencyMismatch, and what `add` raises.
        """
        await self._store()
        # Another name space than that of keys of refinements, which have no line breaks.
        known_as = None if idempotency_key is None else f"batch\n{idempotency_key}"
        with refusals():
            answer = await self._committer.submit(
                BATCH_COMMIT,
                self.id,
                self.tenant,
                "" if known_as is None else keys.idempotency(self.tenant, known_as),
                REMEMBERED_S,
                body_sha256,
                self.total,
                len(self.errors),
                *self._fields(options),
            )
        if answer == b"MISSING":
            raise Conflict("the batch was erased while it was received")
        if answer != self.id.encode():
            self.abandon()
        if answer == b"MISMATCH":
            raise IdempotencyMismatch(
                "this Idempotency-Key was used with another body within 24 hours"
            )
        return str(answer.decode())

    def _fields(self, options: BatchOptions) -> tuple[Word, ...]:
        errors = [line.model_dump(mode="json") for line in self.errors]
        fields: tuple[Word, ...] = ("errors", to_json(errors))
        fields += "metadata", encode_metadata(options.metadata)
        fields += "retention_ms", self._creation.retention_ms
        if self._origin:
            fields += "origin", self._origin
        if (hook := options.webhook) is not None:
            fields += "webhook", f"{round(hook.timeout_s * 1000)} {BATCH_COMPLETED}"
            fields += "webhook_request", hook.model_dump_json()
            fields += "webhook_secrets", self._creation.sealer.seal(options.secrets(), self.id)
        return fields

    def abandon(self) -> None:
        """Have what was stored deleted, if anything was; it is not waited for."""
        if not self._is_first:
            erasing = self._committer.submit(BATCH, self.id, self.tenant, "erase", ERASED_AT_ONCE)
            erasing.add_done_callback(lambda task: task.exception())  # else a worker deletes it


class BatchStore:
    """The operations of the API on batches. Every method raises Unavailable.

    Another tenant's batch is BatchNotFound.
    """

    def __init__(
        self,
        committer: Committer,
        creation: Creation,
        sealer: Sealer,
        archive: Archive | None = None,
    ) -> None:
        self._committer = committer
        self._creation = creation
        self._archive = archive
        self._sealer = sealer

    async def upload(self, tenant: str, origin: str = "") -> BatchUpload:
        """Return a batch to be received; raise Overloaded if no more may be stored.

        `origin` is stored with it for its webhook.
        """
        with refusals():
            if await self._creation.is_memory_full():
                raise _no_memory()
        return BatchUpload(tenant, self._creation.committer, self._creation, origin)

    async def get(self, tenant: str, batch_id: str) -> Batch:
        """Return a batch as it is now."""
        with refusals():
            return decode_batch(batch_id, await self._look(tenant, batch_id))

    async def page(self, tenant: str, limit: int, cursor: str | None) -> BatchPage:
        """Return one page of batches, newest first; raise MalformedHeader for an invalid cursor.

        A page may be short and have a next one.
        """
        top = "+" if cursor is None else f"({decode_cursor(tenant, cursor)}"
        with refusals():
            key = keys.listed_batches(tenant)
            found = await self._committer.execute(
                "ZREVRANGEBYLEX", key, top, "-", "LIMIT", 0, limit + 1
            )
            ids = [batch_id.decode() for batch_id in found]
            looked = await asyncio.gather(
                *(
                    self._committer.submit(BATCH, batch_id, tenant, "look")
                    for batch_id in ids[:limit]
                )
            )
        has_more = len(ids) > limit
        return BatchPage(
            data=tuple(
                decode_batch(batch_id, paired(fields))
                for batch_id, fields in zip(ids[:limit], looked, strict=True)
                if fields is not None  # else it is being received or erased
            ),
            has_more=has_more,
            next_cursor=encode_cursor(tenant, ids[limit - 1]) if has_more else None,
        )

    async def cancel(self, tenant: str, batch_id: str) -> Batch:
        """Cancel what has not ended. Raises Conflict if the whole batch has."""
        if await self._all_of("cancel", tenant, batch_id, CANCELED_AT_ONCE) == b"ENDED":
            raise Conflict(f"{batch_id} has ended")
        return await self.get(tenant, batch_id)

    async def erase(self, tenant: str, batch_id: str) -> None:
        """Erase a batch with its refinements, but nothing derived from these: `Store` does."""
        await self._all_of("erase", tenant, batch_id, ERASED_AT_ONCE)

    async def _all_of(self, action: str, tenant: str, batch_id: str, at_once: int) -> bytes:
        """Cancel or erase a batch, so much of it at a time that others are not kept waiting."""
        answer: bytes | None = b"MORE"
        while answer == b"MORE":
            with refusals():
                answer = await self._committer.submit(BATCH, batch_id, tenant, action, at_once)
        if answer is None:
            raise BatchNotFound(batch_id)
        return answer

    async def ids(self, tenant: str) -> list[str]:
        """Return the ids of all batches of a tenant, those being received or erased included."""
        with refusals():
            found = await self._committer.execute("ZRANGE", keys.listed_batches(tenant), 0, -1)
        return [batch_id.decode() for batch_id in found]

    async def begun(self, tenant: str, batch_id: str) -> list[str]:
        """Return the ids of the refinements of a batch that have begun, none of an unknown one."""
        with refusals():
            key = keys.listed_by_batch(tenant, batch_id)
            return [found.decode() for found in await self._committer.execute("ZRANGE", key, 0, -1)]

    async def webhook(self, tenant: str, batch_id: str) -> BatchWebhook | None:
        """Return where the news of a batch goes, secrets included."""
        with refusals():
            fields = await self._look(tenant, batch_id)
            if b"webhook_request" not in fields:
                return None
            secrets = self._sealer.open(fields[b"webhook_secrets"], batch_id)
            return decode_batch_webhook(fields[b"webhook_request"], secrets)

    async def results(
        self, tenant: str, batch_id: str, received: Callable[[str], Awaitable[None]]
    ) -> AsyncIterator[bytes]:
        """Return the lines of what has ended so far, in the order of the body, in pages.

        `received` is called after a page with the ids of those whose text is not to be stored.
        Raises BatchNotFound at once; the iterator raises Unavailable.
        """
        with refusals():
            fields = await self._look(tenant, batch_id)
        is_canceled = fields[b"status"] in (b"canceling", b"canceled")
        return self._pages(batch_id, int(fields[b"positions"]), is_canceled, received)

    async def _pages(
        self,
        batch_id: str,
        last: int,
        is_canceled: bool,
        received: Callable[[str], Awaitable[None]],
    ) -> AsyncIterator[bytes]:
        for first in range(1, last + 1, SHOWN_AT_ONCE):
            positions = range(first, min(first + SHOWN_AT_ONCE, last + 1))
            with refusals():
                items = await self._items(batch_id, positions)
                summaries = await asyncio.gather(*(self._summary(entry) for entry in items))
            page = [
                line
                for item, summary in zip(items, summaries, strict=True)
                if (line := _result(item, summary, is_canceled))
            ]
            if page:
                yield json_lines(b"".join(page))
            for item, summary in zip(items, summaries, strict=True):
                if summary.get(b"store") == b"0" and summary[b"status"] in ENDED_STATUSES:
                    await received(item["id"])

    async def pending(self, tenant: str, batch_id: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the requests that have not begun, without secrets, each with its line."""
        with refusals():
            fields = await self._look(tenant, batch_id)
            for position in range(int(fields[b"next"]), int(fields[b"positions"]) + 1):
                for item in await self._items(batch_id, [position]):
                    key = keys.REQUEST + item.get("id", "")
                    if (request := await self._committer.execute("HGET", key, "request")) is None:
                        continue
                    names = {name: item[name] for name in ("line", "custom_id")}
                    yield {**names, "request": from_json(request)}

    async def _items(self, batch_id: str, positions: Sequence[int]) -> list[dict[str, Any]]:
        key = keys.BATCH_ITEMS + batch_id
        stored = await self._committer.execute("HMGET", key, *positions)
        return [from_json(item) for item in stored if item is not None]

    async def _summary(self, item: dict[str, Any]) -> Summary:
        if "id" not in item:
            return {}
        found = await self._committer.execute("HGETALL", keys.SUMMARY + item["id"])
        return await whole_summary(self._committer, self._archive, item["id"], found)

    async def _look(self, tenant: str, batch_id: str) -> Summary:
        reply = await self._committer.submit(BATCH, batch_id, tenant, "look")
        if reply is None:
            raise BatchNotFound(batch_id)
        return paired(reply)


def _no_memory() -> Overloaded:
    detail = "the memory of Redis is nearly full; try again when refinements have expired"
    return Overloaded(detail, retry_after_s=RETRY_AFTER_S)


def decode_batch(batch_id: str, fields: Summary) -> Batch:
    """Read a batch from its hash."""

    def when(name: bytes) -> Any:
        return moment(int(fields[name])) if name in fields else None

    waiting = fields.get(b"waiting")
    return Batch(
        id=batch_id,
        status=fields[b"status"].decode(),
        counts=BatchCounts(
            **{name: max(0, int(fields.get(key, 0))) for name, key in _COUNTED.items()}
        ),
        errors=tuple(RefusedLine.model_validate(line) for line in from_json(fields[b"errors"])),
        waiting=None if waiting is None else BatchWaiting.model_validate_json(waiting),
        metadata=from_json(fields[b"metadata"]),
        created_at=when(b"created_at"),
        ended_at=when(b"ended_at"),
        expires_at=when(b"expires_at"),
        links=batch_links(batch_id),
    )


def _result(item: dict[str, Any], summary: Summary, is_canceled: bool) -> bytes:
    """Return a line of the results; nothing for a request that has not ended."""
    if "error" in item:
        return _line(item, b"invalid", b"null", to_json(item["error"]))
    if summary:
        if (outcome := summary.get(b"outcome")) is None:
            return b""
        return _line(item, outcome, snapshot_json(item["id"], summary), b"null")
    return _line(item, b"canceled", b"null", b"null") if is_canceled else b""


def _line(item: dict[str, Any], outcome: bytes, refinement: bytes, error: bytes) -> bytes:
    return b'{"line":%d,"custom_id":%b,"outcome":"%b","refinement":%b,"error":%b}\n' % (
        item["line"],
        to_json(item["custom_id"]),
        outcome,
        refinement,
        error,
    )
