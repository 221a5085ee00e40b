"""The archive: each ended record is one object, under installation, tenant and id.

    INSTALLATION/installation       the mark of this service, written before any record
    INSTALLATION/TENANT/ID/NAME     a record: a line that says how it is stored, then its content

Nothing is ever written over a record but the same one under a newer key. A record that was brought
back and has changed gets another name, so that an older copy of Redis finds what it knows. The line
has a hash of the content and of what it belongs to: a copy in another place is damaged.

The object store is a directory, or a bucket of S3, Google Cloud or Azure. Its library and that
library's threads are loaded with the first object: a process that was forked since could not use
them.
"""

import asyncio
import atexit
import hashlib
import json
import os
import time
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from app.contract.values import value
from app.settings import Settings
from app.store.packing import (
    EndedRecord,
    Entries,
    apart_if_large,
    decoded_lists,
    encoded_lists,
    record_of,
    words_of,
)
from app.store.redis import keys
from app.store.redis.codec import Summary, paired
from app.store.redis.keys import Word
from app.store.sealing import Sealer
from app.store.state import ArchiveAway, DamagedObject, UnreadableSecrets

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Objects

ANSWER_S = 10.0
"""Seconds that the store has for one object; no command of Hone waits for longer."""
CONNECT_S = "3s"
ENDING_S = 0.1
"""Seconds in which the library's threads are done with Python, before it ends: they would abort the
process (PyO3/pyo3-async-runtimes#40)."""
TRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=ANSWER_S)}


@value(slots=True)
class StoredObject:
    """An object in a list."""

    path: str
    written_at: datetime


class ObjectStore:
    """Objects by path below a URL. Every method raises ArchiveAway if the store cannot be used."""

    def __init__(self, url: str) -> None:
        if find_spec("obstore") is None:
            raise ArchiveAway("the extra `archive` is missing: pip install 'obstore>=0.12,<0.13'")
        parts = urlsplit(url)
        self._url = url
        self._directory = Path(unquote(parts.path)) if parts.scheme == "file" else None

    async def put(self, path: str, content: bytes) -> None:
        """Write an object, in place of the one at this path: readers see one or the other."""
        with _reported():
            async with asyncio.timeout(ANSWER_S):
                await self._objects.put_async(path, content)
                if self._directory is not None:
                    await asyncio.to_thread(_reach_disk, self._directory / path)

    async def get(self, path: str) -> bytes | None:
        """Return an object; None if there is none."""
        with _reported():
            async with asyncio.timeout(ANSWER_S):
                try:
                    found = await self._objects.get_async(path)
                except FileNotFoundError:
                    return None
                return bytes(await found.bytes_async())

    async def delete(self, path: str) -> None:
        """Delete an object, if there is one."""
        with _reported():
            async with asyncio.timeout(ANSWER_S):
                try:
                    await self._objects.delete_async(path)
                except FileNotFoundError:
                    return

    async def listed(self, below: str) -> AsyncIterator[StoredObject]:
        """Yield the objects below a path, in any order."""
        with _reported():
            async for page in self._objects.list(below):
                for found in page:
                    yield StoredObject(found["path"], found["last_modified"])

    @cached_property
    def _objects(self) -> "Objects":
        from obstore.store import from_url  # noqa: PLC0415 - see above

        atexit.register(time.sleep, ENDING_S)
        if self._directory is not None:
            return from_url(self._url, mkdir=True, automatic_cleanup=True)
        times = {"timeout": f"{ANSWER_S:g}s", "connect_timeout": CONNECT_S}
        options: Any = {**times, "allow_http": True}  # if that is what the address says
        tries: Any = TRIES
        return from_url(self._url, client_options=options, retry_config=tries)


def _reach_disk(path: Path) -> None:
    """Return when the file is on the disk, and its name in the directory."""
    for name in (path, path.parent):
        descriptor = os.open(name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _reported() -> Iterator[None]:
    """Raise what the library raises as ArchiveAway, with its first line."""
    from obstore.exceptions import BaseError  # noqa: PLC0415 - see above

    try:
        yield
    except TimeoutError as error:
        raise ArchiveAway("the object store does not answer") from error
    except (BaseError, OSError, ValueError) as error:
        first_line = str(error).strip().partition("\n")[0]
        raise ArchiveAway(f"the object store refuses: {first_line}") from error


MAGIC = b"hone archive 1 "
MARK = "installation"
PURPOSE = "archived records"
CACHED_S = 20.0
MOST_CACHED = 32
NAME = 12
NOT_ARCHIVED = frozenset({b"archived", b"stub", b"bytes"})
"""Fields of a summary that say where it is, and are not archived with it."""


@value(slots=True)
class ArchivedAt:
    """The place of an archived record."""

    installation: str
    tenant: str
    id: str
    name: str

    @property
    def path(self) -> str:
        """The path of the object."""
        return f"{objects_below(self.installation, self.tenant, self.id)}/{self.name}"

    @property
    def about(self) -> str:
        """What it belongs to: a copy under another installation does as well."""
        return f"archived {self.tenant} {self.id}"


def objects_below(installation: str, tenant: str, refinement_id: str) -> str:
    """Return the path below which the objects of a record stand."""
    return f"{installation}/{tenant}/{refinement_id}"


@value(slots=True)
class ArchivedRecord:
    """Everything that Redis held of a record, as it was."""

    summary: Summary
    given: Summary
    deliveries: Summary
    entries: Entries
    """Those of the journal; the first one is packed."""

    @property
    def size(self) -> int:
        """Its bytes, about."""
        return sum(len(word) for _, entry in self.entries for word in entry.values())

    async def unpacked(self) -> EndedRecord:
        """Return the journal, the request and the prompts."""
        return await apart_if_large(self.size, lambda: record_of(self.entries))

    def commands(self, refinement_id: str) -> Iterator[Sequence[Word]]:
        """Yield the commands that write it into Redis, apart from lists."""
        for key, fields in (
            (keys.SUMMARY, self.summary),
            (keys.GIVEN, self.given),
            (keys.DELIVERIES, self.deliveries),
        ):
            if fields:
                yield ("HSET", key + refinement_id, *words_of(fields))
        for entry_id, entry in self.entries:
            yield ("XADD", keys.JOURNAL + refinement_id, entry_id, *words_of(entry))

    def encoded(self) -> bytes:
        """Return it as the content of an object."""
        hashes = map(words_of, (self.summary, self.given, self.deliveries))
        entries = ([entry_id, *words_of(entry)] for entry_id, entry in self.entries)
        return zlib.compress(encoded_lists([*hashes, *entries]))

    @classmethod
    def decoded(cls, content: bytes) -> "ArchivedRecord":
        """Return the record in such a content."""
        summary, given, deliveries, *entries = decoded_lists(zlib.decompress(content))
        journal = [(entry_id, paired(words)) for entry_id, *words in entries]
        return cls(paired(summary), paired(given), paired(deliveries), journal)


class Archive:
    """The records of all installations below a URL. Every method raises ArchiveAway."""

    def __init__(self, objects: ObjectStore, sealer: Sealer) -> None:
        self._objects = objects
        self._sealer = sealer
        self._recent: dict[ArchivedAt, asyncio.Task[ArchivedRecord]] = {}

    async def mark(self, installation: str) -> None:
        """Write the mark of an installation."""
        await self._objects.put(f"{installation}/{MARK}", installation.encode())

    async def unmark(self, installation: str) -> None:
        """Delete the mark of an installation that nothing was written for."""
        await self._objects.delete(f"{installation}/{MARK}")

    async def require(self, installation: str) -> None:
        """Raise ArchiveAway unless the mark of this installation is there."""
        if await self._objects.get(f"{installation}/{MARK}") != installation.encode():
            raise ArchiveAway(
                f"the object store has no mark of this service ({installation}/{MARK}): is"
                " HONE_ARCHIVE_URL the one that the archive began with?"
            )

    async def write(
        self, installation: str, tenant: str, refinement_id: str, record: ArchivedRecord
    ) -> ArchivedAt:
        """Write a record, read it back and compare it. The same record has the same name."""
        content = await apart_if_large(record.size, record.encoded)
        name = hashlib.sha256(content).hexdigest()[:NAME]
        at = ArchivedAt(installation, tenant, refinement_id, name)
        await self._put(at, content)
        return at

    async def replace(self, at: ArchivedAt, record: ArchivedRecord) -> None:
        """Write the same record in another form, under the newest key."""
        await self._put(at, await apart_if_large(record.size, record.encoded))

    async def _put(self, at: ArchivedAt, content: bytes) -> None:
        stored = self._stored(at, content)
        await self._objects.put(at.path, stored)
        if await self._objects.get(at.path) != stored:
            raise ArchiveAway(f"what was read back of {at.path} is not what was written")

    async def read(self, at: ArchivedAt) -> ArchivedRecord:
        """Return a record; those read a moment ago are kept. Raises UnreadableSecrets."""
        reading = self._recent.get(at)
        if reading is None:
            reading = self._recent[at] = asyncio.create_task(self.fetch(at))
            asyncio.get_running_loop().call_later(CACHED_S, self._recent.pop, at, None)
            if len(self._recent) > MOST_CACHED:
                del self._recent[next(iter(self._recent))]
            reading.add_done_callback(lambda done: self._forget_failure(at, done))
        return await asyncio.shield(reading)

    async def fetch(self, at: ArchivedAt) -> ArchivedRecord:
        """Return a record from its object."""
        if (content := await self._objects.get(at.path)) is None:
            raise DamagedObject(f"its object is missing: {at.path}")
        return await apart_if_large(len(content), lambda: self._record(at, content))

    async def sealed_before(self, at: ArchivedAt) -> ArchivedRecord | None:
        """Return a record that an older key has sealed, or none; None for all others."""
        content = await self._objects.get(at.path)
        if content is None or _head(at, content)["key"] == self._sealer.key_id:
            return None
        return await apart_if_large(len(content), lambda: self._record(at, content))

    async def erase(self, below: str) -> None:
        """Delete all objects of a record, by `objects_below`."""
        async for found in self._objects.listed(below):
            await self._objects.delete(found.path)

    async def delete(self, at: ArchivedAt) -> None:
        """Delete one object."""
        await self._objects.delete(at.path)

    async def records(self, installation: str) -> "list[tuple[ArchivedAt, StoredObject]]":
        """Return the objects of an installation."""
        found = []
        async for stored in self._objects.listed(installation):
            parts = stored.path.split("/")
            if len(parts) == 4:
                found.append((ArchivedAt(*parts), stored))
        return found

    def _stored(self, at: ArchivedAt, content: bytes) -> bytes:
        if self._sealer.key_id:
            content = self._sealer.encrypt(content, at.about)
        head = {"key": self._sealer.key_id, "sha256": _sha256(at, content)}
        return MAGIC + json.dumps(head).encode() + b"\n" + content

    def _record(self, at: ArchivedAt, stored: bytes) -> ArchivedRecord:
        head, (_, _, content) = _head(at, stored), stored.partition(b"\n")
        if _sha256(at, content) != head["sha256"]:
            raise _damaged(at)
        if head["key"]:
            try:
                content = self._sealer.decrypt(content, at.about)
            except UnreadableSecrets:
                raise UnreadableSecrets(
                    f"{at.path}, which another HONE_SECRET_KEY has encrypted"
                ) from None
        return ArchivedRecord.decoded(content)

    def _forget_failure(self, at: ArchivedAt, done: asyncio.Task[ArchivedRecord]) -> None:
        if done.cancelled() or done.exception():
            self._recent.pop(at, None)


def _head(at: ArchivedAt, stored: bytes) -> Mapping[str, str]:
    line, _, _ = stored.partition(b"\n")
    try:
        if line.startswith(MAGIC):
            found = json.loads(line.removeprefix(MAGIC))
            return {"key": found["key"], "sha256": found["sha256"]}
    except (ValueError, KeyError, TypeError):
        pass
    raise _damaged(at)


def _sha256(at: ArchivedAt, content: bytes) -> str:
    return hashlib.sha256(at.about.encode() + b"\n" + content).hexdigest()


def _damaged(at: ArchivedAt) -> DamagedObject:
    return DamagedObject(f"its object is damaged: {at.path}")


def open_archive(settings: Settings) -> Archive | None:
    """Return the archive of these settings; None without one. Connects with the first object."""
    if not settings.archive_url:
        return None
    sealer = Sealer(settings.derived_keys(PURPOSE))
    return Archive(ObjectStore(settings.archive_url), sealer)
