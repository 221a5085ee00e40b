"""Compares the archive with Redis, deletes what nothing names, and rebuilds what Redis has lost."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from app.contract.values import value
from app.store.archive import Archive, ArchivedAt, ArchivedRecord
from app.store.packing import EndedRecord, words_of
from app.store.redis import keys
from app.store.redis.committer import Committer, scanned
from app.store.redis.scripts import RESTORE_STUB
from app.store.sealing import SECRETS, Sealer
from app.store.state import ArchiveAway, DamagedObject, UnreadableSecrets
from app.store.stub import encode_stub, with_stub

T = TypeVar("T")
KEPT = timedelta(days=7)
"""For which an object without a stub is kept: an older copy of Redis may still name it."""
MOST_DELETED = 0.01
COMPARED_AT_ONCE = 500
NOTHING_YET = "Redis does not know its installation: nothing was archived yet"
OF_BATCH = (b"batch", b"position", b"outcome")


class RefusedDeletion(Exception):
    """Too much would be deleted, or the archive may be another's; the message says why."""


@value(slots=True)
class ArchiveFindings:
    """What the archive and Redis have of one another."""

    installation: str
    objects: int
    unnamed: tuple[ArchivedAt, ...]
    """Objects that no stub names, of records that Redis does not have otherwise."""
    deletable: tuple[ArchivedAt, ...]
    """Those of them that are old enough, with every other object of their records."""
    missing: tuple[str, ...]
    """Ids of stubs without their object."""
    damaged: tuple[str, ...] = ()
    """What is wrong with objects that cannot be read, if they were read."""

    def require_few(self) -> None:
        """Raise RefusedDeletion if more than a hundredth of all would be deleted."""
        if len(self.deletable) > MOST_DELETED * self.objects:
            raise RefusedDeletion(
                f"{len(self.deletable)} of {self.objects} objects would be deleted, more than"
                f" {MOST_DELETED:.0%}: is this an older copy of Redis? `hone archive restore`"
                " rebuilds what Redis has lost"
            )


class ArchiveCheck:
    """What an operator does with an archive. Raises redis errors and ArchiveAway."""

    def __init__(
        self, committer: Committer, archive: Archive, sealer: Sealer, now: datetime
    ) -> None:
        self._committer = committer
        self._archive = archive
        self._sealer = sealer
        self._now = now
        self.unreadable: list[str] = []
        """What is wrong with the objects that could not be read so far."""

    async def compare(self, *, reads: bool = False) -> ArchiveFindings:
        """Return what does not fit; nothing is changed. `reads`: also what is in the objects."""
        installation = await self._installation()
        by_id: dict[tuple[str, str], list[tuple[ArchivedAt, datetime]]] = defaultdict(list)
        for at, stored in await self._archive.records(installation):
            by_id[at.tenant, at.id].append((at, stored.written_at))
            if reads:
                await self._noted(self._archive.fetch(at))
        named = dict([pair async for pair in self._named(list(by_id))])
        unnamed, deletable = list[ArchivedAt](), list[ArchivedAt]()
        for of, found in by_id.items():
            if (name := named[of]) is None:
                continue  # Redis has it, or deletes its objects
            others = [at for at, _ in found if at.name != name]
            unnamed += others
            if all(self._now - written_at > KEPT for _, written_at in found):
                deletable += others
        there = {(at.id, at.name) for found in by_id.values() for at, _ in found}
        missing = [stub for stub in await self._stubs() if stub not in there]
        return ArchiveFindings(
            installation,
            sum(map(len, by_id.values())),
            tuple(unnamed),
            tuple(deletable),
            tuple(refinement_id for refinement_id, _ in missing),
            tuple(self.unreadable),
        )

    async def _noted(self, reading: Awaitable[T]) -> T | None:
        """Return what is read of an object; None, and a note about it, if that is not possible."""
        try:
            return await reading
        except (DamagedObject, UnreadableSecrets) as error:
            self.unreadable.append(str(error))
            return None

    async def delete(self, found: ArchiveFindings) -> None:
        """Delete what is `deletable`; raise RefusedDeletion for more than a hundredth of all."""
        await self._archive.require(found.installation)
        found.require_few()
        for at in found.deletable:
            await self._archive.delete(at)

    async def records(self, installation: str) -> list[ArchivedAt]:
        """Return the objects of an installation, which must have its mark."""
        await self._archive.require(installation)
        return [at for at, _ in await self._archive.records(installation)]

    async def restore_from(self, source: str, records: Iterable[ArchivedAt]) -> int:
        """Rebuild the stubs that Redis has lost, or has older ones of; return how many.

        `records` are objects of the installation `source`. If that is another one, they are copied
        into this one, and stay. A Redis that has none yet becomes that installation. What cannot be
        read is passed over, and noted in `unreadable`.
        """
        await self._committer.execute("HSETNX", keys.ARCHIVE, "installation", source)
        own, restored = await self._installation(), 0
        objects: dict[tuple[str, str], list[ArchivedAt]] = defaultdict(list)
        for at in records:
            objects[at.tenant, at.id].append(at)
        async for of, name in self._named(list(objects)):
            if name is not None and [at.name for at in objects[of]] != [name]:
                restored += await self._restore(own, objects[of], replaced=name)
        return restored

    async def _restore(self, own: str, objects: Sequence[ArchivedAt], replaced: str) -> bool:
        """Write the stub of the newest of a record's objects, in place of one that is older."""
        found = [
            (record, at)
            for at in objects
            if (record := await self._noted(self._archive.fetch(at))) is not None
        ]
        if not found:
            return False
        record, at = max(found, key=lambda one: int(one[0].summary[b"last_event"]))
        expired = b""
        if replaced:
            known = with_stub(await self._committer.execute("HGETALL", keys.SUMMARY + at.id))
            expired = known.get(b"expires_at", b"")
            newer = int(record.summary[b"last_event"]) > int(known[b"last_event"])
            if not newer or at.installation != own:
                return False
        if at.installation != own:
            at = await self._archive.write(own, at.tenant, at.id, record)
        summary = record.summary
        batch = summary.get(b"batch", b"")
        names = (b"tenant", b"status", b"metadata", *(OF_BATCH if batch else ()))
        stub = {name: summary[name] for name in names}
        stub |= {b"archived": at.name.encode(), **encode_stub(summary)}
        listed = (summary[b"status"], summary[b"metadata"], summary[b"expires_at"], batch)
        about = (at.id, at.tenant, *listed, replaced, expired)
        return bool(await self._committer.submit(RESTORE_STUB, *about, *words_of(stub)))

    async def seal_all(self) -> int:
        """Seal each object under the newest key that an earlier one has sealed; return how many.

        One that is erased meanwhile is deleted once more (` again` in `to_erase`).
        """
        done = 0
        for at, _ in await self._archive.records(await self._installation()):
            if record := await self._noted(self._archive.sealed_before(at)):
                await self._archive.replace(at, await self._under_newest_key(at.id, record))
                done += 1
        return done

    async def _under_newest_key(self, refinement_id: str, record: ArchivedRecord) -> ArchivedRecord:
        (entry_id, first), *rest = record.entries
        packed = EndedRecord.unpacked(first[b"packed"])
        sealed = packed.request.get(SECRETS)
        anew = self._sealer.sealed_anew(sealed, refinement_id) if sealed else None
        if anew is None:
            return record
        packed = replace(packed, request={**packed.request, SECRETS: anew})
        return replace(record, entries=[(entry_id, {**first, b"packed": packed.packed()}), *rest])

    async def known_installation(self) -> str:
        """Return the installation of this Redis; empty if nothing was archived."""
        found = await self._committer.execute("HGET", keys.ARCHIVE, "installation")
        return "" if found is None else str(found.decode())

    async def known_of(self, records: Iterable[ArchivedAt]) -> set[tuple[str, str]]:
        """Return tenant and id of those of which this Redis has anything."""
        found = self._named([*{(at.tenant, at.id) for at in records}])
        return {of async for of, name in found if name != ""}

    async def _installation(self) -> str:
        found = await self.known_installation()
        if not found:
            raise ArchiveAway(NOTHING_YET)
        await self._archive.require(found)
        return found

    async def _named(
        self, records: Sequence[tuple[str, str]]
    ) -> AsyncIterator[tuple[tuple[str, str], str | None]]:
        """Yield tenant and id of each with the object that its stub names.

        It is empty without a stub, and None if Redis has the record, or its objects are deleted.
        """
        execute = self._committer.execute
        for start in range(0, len(records), COMPARED_AT_ONCE):
            some = records[start : start + COMPARED_AT_ONCE]
            members = [f"{tenant} {refinement_id}" for tenant, refinement_id in some]
            again = [f"{member} again" for member in members]
            fields, erased, late = await asyncio.gather(
                asyncio.gather(
                    *(
                        execute("HMGET", keys.SUMMARY + refinement_id, "tenant", "stub", "archived")
                        for _, refinement_id in some
                    )
                ),
                execute("ZMSCORE", keys.TO_ERASE, *members),
                execute("ZMSCORE", keys.TO_ERASE, *again),
            )
            for of, (tenant, stub, name), *goes in zip(some, fields, erased, late, strict=True):
                if goes != [None, None] or (tenant is not None and stub is None):
                    yield of, None
                else:
                    yield of, "" if name is None else name.decode()

    async def _stubs(self) -> list[tuple[str, str]]:
        """Return id and name of the object of every stub."""
        found = list[tuple[str, str]]()
        async for names in scanned(self._committer, "SCAN", match=keys.SUMMARY + "*"):
            fields: Sequence[Any] = await asyncio.gather(
                *(self._committer.execute("HMGET", name, "stub", "archived") for name in names)
            )
            for name, (stub, archived) in zip(names, fields, strict=True):
                if stub is not None:
                    found.append((keys.following(name, keys.SUMMARY), archived.decode()))
        return found


class CellsArchiveCheck:
    """What an operator does with the archives of all cells, none of which may be away.

    Raises redis errors and ArchiveAway. `cell_of` tells the cell of an id.
    """

    def __init__(self, checks: Sequence[ArchiveCheck], cell_of: Callable[[str], int]) -> None:
        self._checks = checks
        self._cell_of = cell_of

    @property
    def unreadable(self) -> list[str]:
        """What is wrong with the objects that could not be read so far."""
        return [*dict.fromkeys(what for check in self._checks for what in check.unreadable)]

    async def compare(self, *, reads: bool = False) -> list[ArchiveFindings]:
        """Return what does not fit in each cell that has archived anything; nothing is changed.

        An object is unnamed if no cell has anything of its refinement.
        """
        own = await self._installations()
        having = [check for check, found in zip(self._checks, own, strict=True) if found]
        if not having:
            raise ArchiveAway(NOTHING_YET)
        return [
            await self._seen_by_others(check, await check.compare(reads=reads)) for check in having
        ]

    async def delete(self, found: Sequence[ArchiveFindings]) -> None:
        """Delete what is `deletable` as `ArchiveCheck.delete` does, and nothing if one refuses."""
        for findings in found:
            findings.require_few()
        for findings in found:
            await self._checks[0].delete(findings)

    async def restore(self, installation: str = "") -> int:
        """Rebuild what Redis has lost as `restore_from` does, each in the cell of its id.

        A cell that has no installation yet becomes one that no other cell is.
        """
        own, restored = await self._installations(), 0
        sources = [installation] if installation else [*dict.fromkeys(filter(None, own))]
        if not sources:
            raise ArchiveAway(NOTHING_YET)
        for source in sources:
            by_cell: dict[int, list[ArchivedAt]] = defaultdict(list)
            for at in await self._checks[0].records(source):
                by_cell[self._cell_of(at.id)].append(at)
            for cell, records in sorted(by_cell.items()):
                if own[cell] or source not in own:
                    own[cell] = own[cell] or source
                    restored += await self._checks[cell].restore_from(source, records)
        return restored

    async def _installations(self) -> list[str]:
        return [await check.known_installation() for check in self._checks]

    async def _seen_by_others(
        self, own: ArchiveCheck, findings: ArchiveFindings
    ) -> ArchiveFindings:
        unnamed, deletable = findings.unnamed, findings.deletable
        for check in self._checks:
            if check is not own and unnamed:
                known = await check.known_of(unnamed)
                unnamed = tuple(at for at in unnamed if (at.tenant, at.id) not in known)
                deletable = tuple(at for at in deletable if (at.tenant, at.id) not in known)
        return replace(findings, unnamed=unnamed, deletable=deletable)
