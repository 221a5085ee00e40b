"""The record of an ended refinement as one value: its journal, request and prompts, compressed.

The value stands in the journal, in place of the entries that it holds: an entry with the number,
the type and the time of the last of them, and the field `packed`. Entries that follow, ratings, are
stored as ever. A retry restores the record before it appends anything.
"""

import asyncio
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from struct import Struct
from typing import TypeVar

from app.contract.values import value
from app.store.prompts import compressed_fields, plain_fields
from app.store.redis import keys
from app.store.redis.codec import Summary, has_ended, number_of, paired
from app.store.redis.committer import Committer
from app.store.redis.keys import Word, script_words
from app.store.redis.scripts import PACK, REPACK
from app.store.searching import shown_texts, signature, stored_texts

LEVEL = 6
FOR_ZLIB = 262_144
"""Bytes above which drafts are so far apart that zlib does not find them again, and XZ does."""

XZ = b"\xfd7zXZ"
XZ_PRESET = 1  # as fast as zlib
ON_THE_LOOP = 65_536
"""Bytes up to which compressing takes less than two milliseconds, and no thread is asked."""

FIELDS_AT_ONCE = 1_000
COUNT = Struct("<I")

Entries = Sequence[tuple[bytes, Summary]]
NOTHING: Summary = {}
T = TypeVar("T")


@value(slots=True)
class EndedRecord:
    """What the record of an ended refinement holds beside its summary, as Redis stores it."""

    entries: Entries
    request: Summary
    prompts: Summary

    def packed(self) -> bytes:
        """Return the record as one value. Raises zlib.error for prompts it cannot read."""
        lists = (
            words_of(self.request),
            words_of(plain_fields(self.prompts)),
            *([entry_id, *words_of(entry)] for entry_id, entry in self.entries),
        )
        plain = encoded_lists(lists)
        if len(plain) > FOR_ZLIB:
            return lzma.compress(plain, preset=XZ_PRESET)
        return zlib.compress(plain, LEVEL)

    @classmethod
    def unpacked(cls, packed: bytes) -> "EndedRecord":
        """Return the record in such a value."""
        is_xz = packed.startswith(XZ)
        plain = lzma.decompress(packed) if is_xz else zlib.decompress(packed)
        request, prompts, *entries = decoded_lists(plain)
        return cls(
            [(entry_id, paired(words)) for entry_id, *words in entries],
            paired(request),
            compressed_fields(paired(prompts)),
        )

    def commands(self, refinement_id: str) -> Iterator[Sequence[Word]]:
        """Yield the commands that write it as it was."""
        for entry_id, entry in self.entries:
            yield ("XADD", keys.JOURNAL + refinement_id, entry_id, *words_of(entry))
        for key, fields in ((keys.REQUEST, self.request), (keys.PROMPTS, self.prompts)):
            words = words_of(fields)
            for start in range(0, len(words), FIELDS_AT_ONCE):
                some = words[start : start + FIELDS_AT_ONCE]
                yield ("HSET", key + refinement_id, *some)


def words_of(fields: Mapping[bytes, bytes]) -> list[bytes]:
    """Return names and values, one after the other."""
    return list(chain.from_iterable(fields.items()))


def encoded_lists(lists: Iterable[Sequence[bytes]]) -> bytes:
    """Return lists of words as one value."""
    return b"".join(chain.from_iterable(map(_encoded, lists)))


def _encoded(words: Sequence[bytes]) -> Iterator[bytes]:
    yield COUNT.pack(len(words))
    for word in words:
        yield COUNT.pack(len(word))
        yield word


def decoded_lists(data: bytes) -> Iterator[list[bytes]]:
    """Yield the lists in such a value."""
    at = 0
    while at < len(data):
        (count,), at, words = COUNT.unpack_from(data, at), at + COUNT.size, []
        for _ in range(count):
            (size,), start = COUNT.unpack_from(data, at), at + COUNT.size
            at = start + size
            words.append(data[start:at])
        yield words


async def apart_if_large(size: int, do: Callable[[], T]) -> T:
    """Return what is made of so many bytes: in a thread, if that takes long."""
    return do() if size <= ON_THE_LOOP else await asyncio.to_thread(do)


def record_of(entries: Entries, request: Summary = NOTHING) -> EndedRecord:
    """Return journal and request as they were before they were packed, if they were."""
    if not entries or (packed := entries[0][1].get(b"packed")) is None:
        return EndedRecord(entries, request, NOTHING)
    record = EndedRecord.unpacked(packed)
    return EndedRecord((*record.entries, *entries[1:]), record.request, record.prompts)


async def with_unpacked(entries: Entries) -> Entries:
    """Return entries of a journal; a packed one is replaced by those that it holds."""
    size = len(entries[0][1].get(b"packed", b"")) if entries else 0
    return (await apart_if_large(size, lambda: record_of(entries))).entries


async def unpacked(packed: bytes) -> EndedRecord:
    """Return the record in a packed value."""
    return await apart_if_large(len(packed), lambda: EndedRecord.unpacked(packed))


async def packed_record(committer: Committer, refinement_id: str) -> EndedRecord | None:
    """Return the record if it is packed. Raises redis errors."""
    found = await packed_entry(committer, refinement_id)
    return None if found is None else await unpacked(found[1][b"packed"])


async def packed_entry(committer: Committer, refinement_id: str) -> tuple[bytes, Summary] | None:
    """Return id and fields of the packed entry, if the record is packed. Raises redis errors."""
    key = keys.JOURNAL + refinement_id
    for entry_id, entry in await committer.execute("XRANGE", key, "-", "+", "COUNT", 1):
        return (entry_id, entry) if b"packed" in entry else None
    return None


async def repack(
    committer: Committer, refinement_id: str, packed: bytes, record: EndedRecord
) -> bool:
    """Write a record in place of its packed value, unless the value is another one by now.

    Returns whether it was written. Raises redis errors.
    """
    sha1 = hashlib.sha1(packed, usedforsecurity=False).hexdigest()
    words = script_words(record.commands(refinement_id))
    return bool(await committer.submit(REPACK, refinement_id, sha1, *words))


async def pack_record(
    committer: Committer,
    refinement_id: str,
    archive_after_ms: int | None = None,
    searchable: bool = False,
) -> bool:
    """Pack the record of a refinement that has ended; return whether it is packed now.

    It goes to the archive, if there is one, `archive_after_ms` after its end. A `searchable` one
    gets a signature, so that searches need not read it. It stays as it is if it has not ended, or
    changes meanwhile. Raises redis errors.
    """
    entries, request, prompts = await asyncio.gather(
        committer.execute("XRANGE", keys.JOURNAL + refinement_id, "-", "+"),
        committer.execute("HGETALL", keys.REQUEST + refinement_id),
        committer.execute("HGETALL", keys.PROMPTS + refinement_id),
    )
    number, kind, at, packed, signed = 0, b"", b"", b"", b""
    if entries and has_ended([entry for _, entry in entries]) and b"packed" not in entries[0][1]:
        entry_id, last = entries[-1]
        number, kind, at = number_of(entry_id), last[b"type"], last[b"at"]
        record = EndedRecord(entries, request, prompts)
        size = sum(len(content) for _, entry in entries for content in entry.values())
        packed = await apart_if_large(size, record.packed)
        if searchable:
            summary = await committer.execute("HGETALL", keys.SUMMARY + refinement_id)
            signed = await apart_if_large(size, lambda: _signed(refinement_id, summary, request))
    archive = () if archive_after_ms is None else (archive_after_ms,)
    entry = (number, kind, at, packed)
    return bool(await committer.submit(PACK, refinement_id, *entry, signed, *archive))


def _signed(refinement_id: str, summary: Summary, request: Summary) -> bytes:
    stored = stored_texts(request[b"request"], summary.get(b"result"))
    return signature((*shown_texts(refinement_id, summary), *stored))


async def unpack_record(committer: Committer, refinement_id: str) -> bool:
    """Restore the record of a refinement if it is packed; return whether it was.

    Raises redis errors.
    """
    found = await packed_entry(committer, refinement_id)
    if found is None:
        return False
    packed = found[1][b"packed"]
    return await repack(committer, refinement_id, packed, await unpacked(packed))
