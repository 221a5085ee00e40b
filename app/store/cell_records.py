"""What a cell knows of all cells, and its copy of what cell 0 has of the installation.

Copied are API keys, tenants with their share of the quotas, ended sessions, which cells there are,
and of each tenant presets, endpoints and keys of providers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from hashlib import blake2b
from uuid import uuid4

from pydantic_core import from_json, to_json
from ulid import ULID

from app.contract.errors import Conflict
from app.contract.status import TERMINAL, Status
from app.contract.values import value
from app.store.redis import keys
from app.store.redis.committer import Committer, key_names, replies_in_order
from app.store.state import cell_coded_in

CODED_SINCE = b"coded_since"
TIME_CHARACTERS = 10  # of a ULID, those that have its time
ULID_CHARACTERS = 26
PREPARED_MS = 5_000
"""Every process knows of a change by the time that it takes effect."""

LOOKED_BACK_MS = 24 * 3_600_000
"""How long a key of idempotency is looked up where it was before a change of cells."""

OF_ENDPOINT = ("url", "secret", "previous_until")


missing: ContextVar[set[int] | None] = ContextVar("missing", default=None)
"""The cells that were away when something was asked of all, in the context of a request."""


def note_missing(numbers: Iterable[int]) -> None:
    """Note cells that were away, if anybody wants to know."""
    if (noted := missing.get()) is not None:
        noted.update(numbers)


@value(slots=True)
class Opened:
    """When submissions go to a cell, in milliseconds since 1970."""

    since: int = 0
    until: int | None = None

    def at(self, at_ms: float) -> bool:
        """Return whether they did, do or will at a time."""
        return self.since <= at_ms and (self.until is None or at_ms < self.until)


def _time_in_ulids(at_ms: int) -> str:
    return str(ULID.from_bytes(at_ms.to_bytes(6, "big") + bytes(10)))[:TIME_CHARACTERS]


def score(cell: int, *named: str) -> bytes:
    """Return how much a cell is preferred (rendezvous hashing, Thaler and Ravishankar, 1998)."""
    return blake2b("\n".join((str(cell), *named)).encode(), digest_size=8).digest()


@value(slots=True)
class Roster:
    """Which cells there are: cell 0, and those that were added."""

    opened: Mapping[int, Opened]
    coded_from: str = ""
    """The characters of ULIDs from which on they have the number of a cell; empty if none has."""

    @classmethod
    def of(cls, stored: Mapping[bytes, bytes]) -> "Roster":
        """Return what is stored."""
        since = stored.get(CODED_SINCE)
        times = {int(name): from_json(text) for name, text in stored.items() if name.isdigit()}
        opened = {number: Opened(**at) for number, at in times.items()}
        return cls({0: Opened(), **opened}, "" if since is None else _time_in_ulids(int(since)))

    def taking(self, at_ms: float = float("inf")) -> list[int]:
        """Return the cells to which submissions go at a time, by default after all changes."""
        return [number for number, opened in sorted(self.opened.items()) if opened.at(at_ms)]

    def changed_at(self, now_ms: int) -> set[int]:
        """Return when that changed within the last 24 hours."""
        return {
            at
            for opened in self.opened.values()
            for at in (opened.since, opened.until)
            if at and now_ms - LOOKED_BACK_MS < at <= now_ms
        }

    def cell_of(self, record_id: str) -> int:
        """Return the cell of a refinement or batch: 0 of those from before cells were added."""
        if not self.coded_from or record_id[-ULID_CHARACTERS:] < self.coded_from:
            return 0
        return cell_coded_in(record_id)


@value(slots=True)
class CellLook:
    """What was found when a cell was looked at."""

    at_ms: int
    waiting: int
    roster: Roster
    version: bytes


class CellRecords:
    """What one cell knows of all. Every method raises redis errors."""

    def __init__(self, committer: Committer) -> None:
        self.committer = committer

    async def look(self) -> CellLook:
        """Look at the cell."""
        time, waiting, stored, version = await replies_in_order(
            self.committer.execute("TIME"),
            self.committer.execute("ZCARD", keys.WAITING),
            self.committer.execute("HGETALL", keys.CELLS),
            self.committer.execute("HGET", keys.ACCESS, "version"),
        )
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        return CellLook(now_ms, waiting, Roster.of(stored), version or b"")

    async def note_change(self, tenants: Sequence[str]) -> None:
        """Have every cell copy what there is of tenants; of cell 0."""
        for tenant in tenants:
            await self.committer.execute("HINCRBY", keys.CHANGES, tenant, 1)
        await self.committer.execute("HSET", keys.ACCESS, "version", uuid4().hex)

    async def add(self, cell: int) -> Opened:
        """Let submissions go to a cell from soon on; of cell 0.

        All processes must know where it is. Raises Conflict if they do already.
        """
        look = await self.look()
        if (before := look.roster.opened.get(cell)) and before.until is None:
            raise Conflict(f"cell {cell} takes submissions already")
        opened = Opened(look.at_ms + PREPARED_MS)
        # Ids that are made meanwhile have the number of cell 0 already.
        await self.committer.execute("HSETNX", keys.CELLS, CODED_SINCE, look.at_ms)
        await self._store(cell, opened)
        await self.note_change(await self._tenants())
        return opened

    async def drain(self, cell: int) -> Opened:
        """Let no submissions go to a cell from soon on; of cell 0. Raises Conflict."""
        look = await self.look()
        taking = look.roster.taking()
        if cell not in taking:
            raise Conflict(f"cell {cell} takes no submissions")
        if len(taking) == 1:
            raise Conflict(f"cell {cell} is the only one that takes submissions")
        opened = Opened(look.roster.opened[cell].since, look.at_ms + PREPARED_MS)
        await self._store(cell, opened)
        await self.note_change(())
        return opened

    async def _store(self, cell: int, opened: Opened) -> None:
        text = to_json({"since": opened.since, "until": opened.until})
        await self.committer.execute("HSET", keys.CELLS, cell, text)

    async def _tenants(self) -> list[str]:
        """Return the tenants that have something which is copied."""
        found = set[str]()
        for prefix in (keys.PRESETS, keys.PROVIDER_KEYS, keys.ENDPOINTS):
            async for name in key_names(self.committer, prefix + "*"):
                found.add(keys.following(name, prefix).partition(":")[0])
        return sorted(found)

    async def counts(self) -> tuple[int, int, int]:
        """Return how many workers, unfinished refinements and refinements there are."""
        look = await self.look()
        workers = await self.committer.execute("ZCOUNT", keys.WORKERS, look.at_ms, "+inf")
        unfinished = listed = 0
        for name in await self.committer.execute("HKEYS", keys.STORED):
            tenant = name.decode()
            listed += await self.committer.execute("ZCARD", keys.refinement_list(tenant))
            for status in {*Status} - TERMINAL:
                its = keys.listed_by_status(tenant, status)
                unfinished += await self.committer.execute("ZCARD", its)
        return workers, unfinished, listed

    async def copy_from(self, source: "CellRecords", quotas: Callable[[], Awaitable[None]]) -> None:
        """Copy what cell 0 has; `quotas` copies those. The version comes last."""
        for name in (keys.API_KEYS, keys.CELLS):
            await self._write_hash(name, await source.committer.execute("HGETALL", name))
        await quotas()
        await self._copy_tenants(source)
        words = ("ZRANGE", keys.ENDED_SESSIONS, 0, -1, "WITHSCORES")
        ended = await source.committer.execute(*words)
        for session, ends_at in zip(ended[::2], ended[1::2], strict=True):
            await self.committer.execute("ZADD", keys.ENDED_SESSIONS, ends_at, session)
        access = await source.committer.execute("HGETALL", keys.ACCESS)
        await self._write_hash(keys.ACCESS, access)

    async def _copy_tenants(self, source: "CellRecords") -> None:
        changes, known = await asyncio.gather(
            source.committer.execute("HGETALL", keys.CHANGES),
            self.committer.execute("HGETALL", keys.CHANGES),
        )
        for name in (name for name, number in changes.items() if known.get(name) != number):
            tenant = name.decode()
            for prefix in (keys.PRESETS, keys.PROVIDER_KEYS):
                stored = await source.committer.execute("HGETALL", prefix + tenant)
                await self._write_hash(prefix + tenant, stored)
            await self._copy_endpoints(source, tenant)
        await self._write_hash(keys.CHANGES, changes)

    async def _copy_endpoints(self, source: "CellRecords", tenant: str) -> None:
        """Copy which endpoints there are and which secrets sign; failures are those of a cell."""
        listed = keys.ENDPOINTS + tenant
        now, before = await asyncio.gather(
            source.committer.execute("SMEMBERS", listed),
            self.committer.execute("SMEMBERS", listed),
        )
        for known_as in {*now, *before}:
            key = keys.endpoint(tenant, known_as.decode())
            fields = await source.committer.execute("HMGET", key, *OF_ENDPOINT)
            for name, text in zip(OF_ENDPOINT, fields, strict=True):
                if text is None:
                    await self.committer.execute("HDEL", key, name)
                else:
                    await self.committer.execute("HSET", key, name, text)
        for known_as in now:
            await self.committer.execute("SADD", listed, known_as)
        for known_as in {*before} - {*now}:
            await self.committer.execute("SREM", listed, known_as)

    async def _write_hash(self, name: keys.Key, now: Mapping[bytes, bytes]) -> None:
        """Make a hash what it is elsewhere; no field is missing meanwhile."""
        before = await self.committer.execute("HGETALL", name)
        changed = [
            word
            for field, text in now.items()
            if before.get(field) != text
            for word in (field, text)
        ]
        if changed:
            await self.committer.execute("HSET", name, *changed)
        if gone := before.keys() - now.keys():
            await self.committer.execute("HDEL", name, *gone)
