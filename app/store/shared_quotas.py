"""Quotas of tenants, shared out among several cells: together never more than the quota.

Cell 0 keeps what each cell may have at most (`held`): its share, or what is in it if that is more.
A share is raised only by what is left of the quota besides, and written with a number, so that a
process that is late changes nothing.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json
from redis.exceptions import RedisError

from app.contract.access import Quotas
from app.contract.errors import Unavailable
from app.contract.values import value
from app.store.cell_records import LOOKED_BACK_MS, PREPARED_MS, Roster, score
from app.store.redis import keys
from app.store.redis.committer import Committer
from app.store.redis.connection import RETRY_AFTER_S
from app.store.redis.scripts import REPLACE_FIELD, SHARE

QUOTA_OF_A_CELL = {"queued": 50, "in_flight": 50, "bytes_stored": 50 * 2**20}
"""A tenant has a further home cell for every so many; what is used of them, as share.lua says."""

OF_RECORD = ("share", "number", "held", "is_settled", "moves")
TRIES = 20
PASSES = 3
TURN_MS = 2_000

Amounts = Mapping[str, int]


def homes(tenant: str, most: int | None, cells: Iterable[int]) -> list[int]:
    """Return up to `most` home cells of a tenant among those that take submissions, else all.

    The first one is preferred.
    """
    return sorted(cells, key=lambda cell: score(cell, tenant), reverse=True)[:most]


def homes_for(quotas: Mapping[str, Any]) -> int | None:
    """Return how many home cells quotas allow; None without one that is counted in each cell."""
    counts = (
        limit // each
        for name, each in QUOTA_OF_A_CELL.items()
        if (limit := quotas.get(name)) is not None
    )
    most: int | None = min(counts, default=None)
    return None if most is None else max(1, most)


@value(slots=True)
class TenantRecord:
    """What cell 0 has of a tenant. `moves`: until when it had how many home cells."""

    quotas: Mapping[str, Any]
    moves: Sequence[tuple[int, int | None]] = ()
    number: int = 0
    held: Mapping[int, Amounts] = field(default_factory=dict)
    is_settled: bool = False

    @classmethod
    def of(cls, stored: bytes | None) -> "TenantRecord":
        """Return what is stored."""
        found = from_json(stored or b"{}")
        of_record = {name: found.pop(name, None) for name in OF_RECORD}
        return cls(
            found,
            [(at, most) for at, most in of_record["moves"] or ()],
            of_record["number"] or 0,
            {int(cell): amounts for cell, amounts in (of_record["held"] or {}).items()},
            bool(of_record["is_settled"]),
        )

    def homes_at(self, at_ms: float) -> int | None:
        """Return how many home cells the tenant has at a time, as `homes` takes it."""
        return next((most for until, most in self.moves if at_ms < until), homes_for(self.quotas))

    def moved_at(self, now_ms: int) -> list[int]:
        """Return when their number changed within the last 24 hours."""
        return [at for at, _ in self.moves if now_ms - LOOKED_BACK_MS < at <= now_ms]

    def with_quotas(self, quotas: Quotas, now_ms: int) -> "TenantRecord":
        """Return it with other quotas; homes move when every process knows."""
        new = quotas.model_dump(mode="json", exclude_none=True)
        moves = [move for move in self.moves if move[0] > now_ms - LOOKED_BACK_MS]
        if homes_for(new) != homes_for(self.quotas):
            moves.append((now_ms + PREPARED_MS, homes_for(self.quotas)))
        held = {
            cell: {kind: amount for kind, amount in amounts.items() if kind in new}
            for cell, amounts in self.held.items()
        }
        return TenantRecord(new, moves, max(self.number + 1, now_ms), held)

    def wanted(self, tenant: str, roster: Roster, cells: int) -> dict[int, Amounts]:
        """Return the share that each cell is to have."""
        its = homes(tenant, homes_for(self.quotas), roster.taking())

        def share(cell: int, limit: int) -> int:
            each, more = divmod(limit, len(its))
            return each + (its.index(cell) < more) if cell in its else 0

        shared = {kind: self.quotas[kind] for kind in QUOTA_OF_A_CELL if kind in self.quotas}
        return {
            cell: {kind: share(cell, limit) for kind, limit in shared.items()}
            for cell in range(cells)
        }

    def is_shared_out(self, wanted: Mapping[int, Amounts]) -> bool:
        """Return whether every cell has its share, and none has more in it."""
        return self.is_settled and self.held == wanted

    def stored_in(self, cell: int, wanted: Mapping[int, Amounts]) -> bytes:
        """Return what a cell has of it, with its share."""
        its = self.held.get(cell, {})
        share = {kind: min(most, its.get(kind, 0)) for kind, most in wanted[cell].items()}
        found = {**self.quotas, "share": {**self.quotas, **share}, "number": self.number}
        found |= {"moves": self.moves}
        if cell == 0:
            found |= {"held": self.held, "is_settled": self.is_settled}
        return to_json(found)

    def held_with(
        self, uses: Mapping[int, Amounts], wanted: Mapping[int, Amounts]
    ) -> dict[int, dict[str, int]]:
        """Return what each cell may have once what is left of the quotas is given out.

        A cell that does not answer keeps what it has, or is left its share.
        """
        found = {
            cell: {
                kind: max(min(most, self.held.get(cell, {}).get(kind, 0)), uses[cell][kind])
                if cell in uses
                else self.held.get(cell, {}).get(kind, most)
                for kind, most in amounts.items()
            }
            for cell, amounts in wanted.items()
        }
        for kind in wanted[0]:
            left = self.quotas[kind] - sum(amounts[kind] for amounts in found.values())
            for cell, amounts in found.items():
                more = max(0, min(wanted[cell][kind] - amounts[kind], left))
                amounts[kind] += more
                left -= more
        return found


class SharedQuotas:
    """Shares out the quotas of tenants. Every method raises redis errors of cell 0."""

    def __init__(self, committers: Sequence[Committer]) -> None:
        self._committers = committers
        self._cell0 = committers[0]

    async def records(self, cell: int = 0) -> dict[str, TenantRecord]:
        """Return what there is of every tenant, by the copy of a cell."""
        stored = await self._committers[cell].execute("HGETALL", keys.TENANTS)
        return {tenant.decode(): TenantRecord.of(text) for tenant, text in stored.items()}

    def unsettled(self, records: Mapping[str, TenantRecord], roster: Roster) -> set[str]:
        """Return the tenants whose quotas are not shared out as they are to be."""
        return {
            tenant
            for tenant, record in records.items()
            if not record.is_shared_out(record.wanted(tenant, roster, len(self._committers)))
        }

    async def replace(self, tenant: str, quotas: Quotas, now_ms: int, roster: Roster) -> None:
        """Replace the quotas of a tenant; no share is raised yet."""
        for _ in range(TRIES):
            before = await self._cell0.execute("HGET", keys.TENANTS, tenant)
            record = TenantRecord.of(before).with_quotas(quotas, now_ms)
            if await self._put(tenant, before, record, roster):
                return
        raise Unavailable("other quotas of this tenant are being set", retry_after_s=RETRY_AFTER_S)

    async def takes_turn(self) -> bool:
        """Return whether this process is the one that looks after shares now, of all processes."""
        return bool(await self._cell0.execute("SET", keys.SHARING, 1, "NX", "PX", TURN_MS))

    async def share(self, tenant: str, roster: Roster, cells: Iterable[int]) -> bool:
        """Bring the shares of a tenant nearer to what they are to be; return whether they are so.

        They are not while one of the cells is away, or has more in it than its share.
        """
        for _ in range(PASSES):
            before = await self._cell0.execute("HGET", keys.TENANTS, tenant)
            record = TenantRecord.of(before)
            wanted = record.wanted(tenant, roster, len(self._committers))
            if before is None or record.is_shared_out(wanted):
                return True
            after = await self._after_pass(tenant, before, record, wanted, roster, cells)
            if after is not None and after.held == record.held:
                return after.is_settled
        return False

    async def _after_pass(
        self,
        tenant: str,
        before: bytes,
        record: TenantRecord,
        wanted: Mapping[int, Amounts],
        roster: Roster,
        cells: Iterable[int],
    ) -> TenantRecord | None:
        """Lower shares, read what is used, and raise shares; None if another process does."""
        lowered = replace(record, number=record.number + 1, is_settled=False)
        if not await self._put(tenant, before, lowered, roster):
            return None
        uses = await self._write(tenant, lowered, wanted, cells)
        held = lowered.held_with(uses, wanted)
        is_settled = record.held == held == wanted and uses.keys() == wanted.keys()
        after = replace(lowered, number=lowered.number + 1, held=held, is_settled=is_settled)
        if not await self._put(tenant, lowered.stored_in(0, wanted), after, roster):
            return None
        await self._write(tenant, after, wanted, cells)
        return after

    async def _put(
        self, tenant: str, before: bytes | None, record: TenantRecord, roster: Roster
    ) -> bool:
        """Put a record in place of the one before, unless there is another one by now."""
        after = record.stored_in(0, record.wanted(tenant, roster, len(self._committers)))
        if before is None:
            return bool(await self._cell0.execute("HSETNX", keys.TENANTS, tenant, after))
        return bool(await self._cell0.submit(REPLACE_FIELD, keys.TENANTS, tenant, before, after))

    async def _write(
        self,
        tenant: str,
        record: TenantRecord,
        wanted: Mapping[int, Amounts],
        cells: Iterable[int],
    ) -> dict[int, Amounts]:
        """Write the shares that a record gives; return what each cell that answers may have."""

        async def written(cell: int) -> Amounts:
            words = (tenant, record.number, record.stored_in(cell, wanted))
            used = await self._committers[cell].submit(SHARE, *words)
            return dict(zip(QUOTA_OF_A_CELL, used, strict=True))

        asked = [*cells]
        answers = await asyncio.gather(*map(written, asked), return_exceptions=True)
        found = {}
        for cell, answer in zip(asked, answers, strict=True):
            if not isinstance(answer, BaseException):
                found[cell] = answer
            elif not isinstance(answer, RedisError | OSError | TimeoutError):
                raise answer
        return found

    async def copy(self, cell: int, roster: Roster) -> None:
        """Write what cell 0 has of all tenants into another cell, with its shares."""
        to = self._committers[cell]
        now, before = await self.records(), await to.execute("HGETALL", keys.TENANTS)
        writing = []
        for tenant, record in now.items():
            text = record.stored_in(cell, record.wanted(tenant, roster, len(self._committers)))
            if before.get(tenant.encode()) != text:
                writing.append(partial(to.submit, SHARE, tenant, record.number, text))
        await asyncio.gather(*(write() for write in writing))
        if gone := before.keys() - {tenant.encode() for tenant in now}:
            await to.execute("HDEL", keys.TENANTS, *gone)
