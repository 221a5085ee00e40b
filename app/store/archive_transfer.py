"""Moves ended records between Redis and the archive.

A record leaves Redis only after its object was read back and compared, by a script that does
nothing if the record has changed meanwhile. A worker that dies before that leaves an object which
the next attempt writes again. Whatever deletes a record notes in `to_erase` that its objects go.
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any, TypeVar

from app.store.archive import NOT_ARCHIVED, Archive, ArchivedAt, ArchivedRecord, objects_below
from app.store.packing import pack_record, words_of
from app.store.redis import keys
from app.store.redis.codec import ENDED_STATUSES, Summary
from app.store.redis.committer import Committer, redis_time_ms, scanned
from app.store.redis.keys import script_words
from app.store.redis.scripts import ARCHIVE, BRING_BACK, DAY_MS, TAKE_ARCHIVE
from app.store.searching import shown_texts, signature
from app.store.state import ArchiveAway
from app.store.stub import encode_stub

ARCHIVED_AT_ONCE = 16
AGAIN_MS = 60_000
"""After which a record is taken again that was not archived: longer than an attempt takes."""
TRUSTED_S = 60.0
ERASED_WITHIN_S = 1.0
"""Seconds for which an erasure waits for the store."""
INSTALLATION_BYTES = 8

log = logging.getLogger(__name__)


async def archived_at(committer: Committer, tenant: str, refinement_id: str) -> ArchivedAt | None:
    """Return where a record is if it is archived. Raises redis errors, and ArchiveAway."""
    key = keys.SUMMARY + refinement_id
    owner, stub, name = await committer.execute("HMGET", key, "tenant", "stub", "archived")
    if stub is None or owner != tenant.encode():
        return None
    installation = await committer.execute("HGET", keys.ARCHIVE, "installation")
    if installation is None:
        raise ArchiveAway("Redis has lost which installation it belongs to")
    return ArchivedAt(installation.decode(), tenant, refinement_id, name.decode())


async def read_archived(
    committer: Committer, archive: Archive | None, tenant: str, refinement_id: str
) -> ArchivedRecord | None:
    """Return an archived record; None if Redis has it. Raises what `archived_at` raises."""
    at = await archived_at(committer, tenant, refinement_id)
    if at is None:
        return None
    return await required(archive).read(at)


async def whole_summary(
    committer: Committer, archive: Archive | None, refinement_id: str, found: Summary
) -> Summary:
    """Return the summary of which Redis may have a stub; nothing of what was erased meanwhile."""
    while b"stub" in found:
        tenant = found[b"tenant"].decode()
        if record := await read_archived(committer, archive, tenant, refinement_id):
            return {**record.summary, b"archived": found[b"archived"]}
        found = await committer.execute("HGETALL", keys.SUMMARY + refinement_id)
    return found


T = TypeVar("T")


def required(archive: T | None) -> T:
    """Return what there is only with an archive; raise ArchiveAway if none is set."""
    if archive is None:
        raise ArchiveAway("HONE_ARCHIVE_URL is not set")
    return archive


class ArchiveTransfer:
    """Moves records to an archive `after_ms` after their end, and back.

    Every method raises redis errors, and ArchiveAway.
    """

    def __init__(self, committer: Committer, archive: Archive, after_ms: int) -> None:
        self._committer = committer
        self.archive = archive
        self.after_ms = after_ms
        self._usable_until = 0.0

    async def move_due(self) -> bool:
        """Archive some of the records that are due, and delete objects of erased ones.

        Returns whether there may be more. While the archive cannot be used, Redis says so for
        readiness, doctor and metrics, and each call begins with an attempt to read its mark; else
        that is done once a minute.
        """
        try:
            return await self._move_due()
        except ArchiveAway as error:
            await self._note_failure(str(error))
            raise

    async def _move_due(self) -> bool:
        installation = await self.installation()
        if time.monotonic() > self._usable_until:
            await self.archive.require(installation)
            await self._committer.execute("HDEL", keys.ARCHIVE, "failing_since", "error")
            self._usable_until = time.monotonic() + TRUSTED_S
            await self._look_through()
        count, *found = await self._committer.submit(TAKE_ARCHIVE, ARCHIVED_AT_ONCE, AGAIN_MS)
        due, erased = found[: 2 * count], found[2 * count :]
        pairs = zip(due[::2], due[1::2], strict=True)
        await together(
            *(self._move(installation, *map(bytes.decode, reversed(pair))) for pair in pairs),
            *(self._erase(installation, member) for member in erased),
        )
        return ARCHIVED_AT_ONCE in {count, len(erased)}

    async def installation(self) -> str:
        """Return the id of this service in the archive; draw it if there is none.

        It is in Redis only once its mark is in the archive.
        """
        found = await self._committer.execute("HGET", keys.ARCHIVE, "installation")
        if found is None:
            drawn = secrets.token_hex(INSTALLATION_BYTES)
            await self.archive.mark(drawn)
            await self._committer.execute("HSETNX", keys.ARCHIVE, "installation", drawn)
            found = await self._committer.execute("HGET", keys.ARCHIVE, "installation")
            if found != drawn.encode():  # another process was first
                await self.archive.unmark(drawn)
        return str(found.decode())

    async def bring_back(self, tenant: str, refinement_id: str) -> None:
        """Write a record into Redis again if it is archived; it is archived again later."""
        while (at := await archived_at(self._committer, tenant, refinement_id)) is not None:
            record = await self.archive.read(at)
            words = script_words(record.commands(refinement_id))
            args = (refinement_id, at.name, self.after_ms)
            if await self._committer.submit(BRING_BACK, *args, *words):
                return

    async def erase(self, tenant: str, refinement_id: str) -> None:
        """Delete the objects of an erased record; workers repeat it until they are gone."""
        member = f"{tenant} {refinement_id}".encode()
        try:
            async with asyncio.timeout(ERASED_WITHIN_S):
                await self._erase(await self.installation(), member)
        except (ArchiveAway, TimeoutError) as error:
            log.warning("%s: its objects are deleted later: %s", refinement_id, error)

    async def _erase(self, installation: str, member: bytes) -> None:
        tenant, refinement_id, *_ = member.decode().split(" ")
        await self.archive.require(installation)  # a directory that is not mounted is empty
        await self.archive.erase(objects_below(installation, tenant, refinement_id))
        await self._committer.execute("ZREM", keys.TO_ERASE, member)

    async def _move(self, installation: str, tenant: str, refinement_id: str) -> None:
        summary, given, deliveries, entries = await asyncio.gather(
            *(
                self._committer.execute("HGETALL", prefix + refinement_id)
                for prefix in (keys.SUMMARY, keys.GIVEN, keys.DELIVERIES)
            ),
            self._committer.execute("XRANGE", keys.JOURNAL + refinement_id, "-", "+"),
        )
        if not entries or b"packed" not in entries[0][1]:
            await pack_record(self._committer, refinement_id, self.after_ms)
            return
        kept = {name: word for name, word in summary.items() if name not in NOT_ARCHIVED}
        record = ArchivedRecord(kept, given, deliveries, entries)
        at = await self.archive.write(installation, tenant, refinement_id, record)
        sha1 = sha1_of(summary, given, deliveries, entries)
        signed = signature(shown_texts(refinement_id, kept))
        stub = words_of(encode_stub(kept))
        await self._committer.submit(ARCHIVE, refinement_id, sha1, at.name, signed, *stub)

    async def _look_through(self) -> None:
        """Line up what was packed without an archive, once a day."""
        if await self._committer.execute("SET", keys.ARCHIVE_SWEPT, 1, "NX", "PX", DAY_MS):
            async for names in scanned(self._committer, "SCAN", match=keys.JOURNAL + "*"):
                ids = [keys.following(name, keys.JOURNAL) for name in names]
                await asyncio.gather(*map(self._line_up, ids))

    async def _line_up(self, refinement_id: str) -> None:
        execute, key = self._committer.execute, keys.SUMMARY + refinement_id
        status, ended_at = await execute("HMGET", key, "status", "ended_at")
        if status in ENDED_STATUSES and ended_at is not None:
            due = int(ended_at) + self.after_ms
            await execute("ZADD", keys.TO_ARCHIVE, "NX", due, refinement_id)

    async def _note_failure(self, error: str) -> None:
        self._usable_until = 0.0
        since = await redis_time_ms(self._committer)
        await self._committer.execute("HSETNX", keys.ARCHIVE, "failing_since", since)
        await self._committer.execute("HSET", keys.ARCHIVE, "error", error)


async def together(*attempts: Any) -> None:
    """Wait for all of them; then raise the first error."""
    for ended in await asyncio.gather(*attempts, return_exceptions=True):
        if isinstance(ended, BaseException):
            raise ended


def sha1_of(*parts: Any) -> str:
    """Return the hash with which archive.lua finds that nothing has changed."""
    *hashes, entries = parts
    digest = hashlib.sha1(usedforsecurity=False)

    def note(fields: Mapping[bytes, bytes]) -> None:
        for pair in fields.items():
            digest.update(b"".join(pair))

    for fields in hashes:
        note(fields)
    for entry_id, entry in entries:
        digest.update(entry_id)
        note(entry)
    return digest.hexdigest()
