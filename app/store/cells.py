"""Several cells, each all of Hone in a Redis of its own: where something is, and what is in all.

Cell 0 also has what is of the installation; the other cells have copies, see cell_records.py. A
worker serves the cell that lacks workers most: `cell_to_serve`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random, sample
from typing import Any, Self, TypeVar

from redis.exceptions import RedisError

from app.contract.access import Quotas, TenantUse
from app.contract.batches import BatchPage
from app.contract.errors import HoneError, NotFound, Unavailable
from app.contract.snapshot import SnapshotPage
from app.contract.values import value
from app.settings import Settings
from app.store.access import AccessStore
from app.store.archive_check import CellsArchiveCheck
from app.store.cell_records import CellLook, Roster, note_missing, score
from app.store.creation import spent_up
from app.store.redis import keys
from app.store.redis.codec import decode_cursor, encode_cursor
from app.store.redis.committer import Commands, Committer
from app.store.redis.connection import (
    RETRY_AFTER_S,
    UnusableRedis,
    is_away,
    refusals,
    renewal_client,
)
from app.store.redis.keys import Word
from app.store.redis.scripts import OPEN_WATCH, LuaScript
from app.store.shared_quotas import SharedQuotas, TenantRecord, homes
from app.store.statistics import Statistics
from app.store.store import Store

LOOK_S = 1.0
LOOK_TIMEOUT_S = 3.0
LOAD_TIMEOUT_S = 2.0

ELSEWHERE = frozenset(
    (
        *("TIME", "GET", "HGET", "HMGET", "HGETALL", "HKEYS", "ZRANGE", "ZCOUNT", "ZCARD"),
        *("HEXISTS", "XREVRANGE", "INCR", "PEXPIRE", "ZREM"),
    )
)
"""Commands that another cell answers while one is away: reads of what is copied, and counters of a
minute."""

T = TypeVar("T")
Page = TypeVar("Page", SnapshotPage, BatchPage)
log = logging.getLogger(__name__)


def merged(tenant: str, pages: Sequence[Page], limit: int) -> Page:
    """Return one page of what several cells list, by id, the newest first.

    What is older than where a cell has stopped comes with the next page.
    """
    stops = [decode_cursor(tenant, page.next_cursor) for page in pages if page.next_cursor]
    below: str | None = max(stops, default=None)
    listed = (record for page in pages for record in page.data)
    found = [record for record in listed if below is None or record.id >= below]
    found.sort(key=lambda record: record.id, reverse=True)
    if len(found) > limit:
        below = found[limit - 1].id
    return pages[0].model_copy(
        update={
            "data": tuple(found[:limit]),
            "has_more": below is not None,
            "next_cursor": None if below is None else encode_cursor(tenant, below),
        }
    )


@value(slots=True)
class CellFacts:
    """Whether submissions go to a cell, why it is away, and what is in it."""

    number: int
    state: str
    away: str
    workers: int
    unfinished: int
    refinements: int


class Cells:
    """All cells of a service; with one of them it does nothing by itself.

    `check` raises UnusableRedis and redis errors for the Redis of a cell. A cell is away from when
    it does not answer until it has answered and its copies are those of cell 0.
    """

    def __init__(
        self, stores: Sequence[Store], check: Callable[[int], Awaitable[None]] | None = None
    ) -> None:
        self.stores = stores
        self.roster = Roster.of({})
        self._check = check
        self._records = [store.cell for store in stores]
        self._unchecked = set(range(len(stores))) if check else set[int]()
        self._away: dict[int, str] = dict.fromkeys(self._unchecked, "it was not reached yet")
        self._waiting = [0] * len(stores)
        self._ahead_ms = 0
        self._newest = b"nothing yet"
        self._versions: dict[int, bytes] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._tenants: dict[str, TenantRecord] | None = None
        self._unshared = set[str]()
        committers = [records.committer for records in self._records]
        self.quotas = SharedQuotas(committers)
        self.access = AccessOfCells(self, committers)
        for number, store in enumerate(stores if len(stores) > 1 else ()):
            store.read_copies_through(_Copied(self, committers, number))
        self.statistics = stores[0].statistics if self.is_one else Statistics(*committers)

    @property
    def is_one(self) -> bool:
        """Whether there is one cell only."""
        return len(self.stores) == 1

    @property
    def away(self) -> dict[int, str]:
        """Why each cell that is away is so."""
        return dict(self._away)

    async def __aenter__(self) -> Self:
        """Look at all cells, and go on doing so.

        Raises Unavailable if none answers, and UnusableRedis for the Redis of any.
        """
        if not self.is_one:
            await self._look_at_all()
            if len(self._away) == len(self.stores):
                raise Unavailable("no cell answers", retry_after_s=RETRY_AFTER_S)
            self._keeping = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop looking."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])

    def now_ms(self) -> int:
        """Return the time of cell 0, in milliseconds since 1970."""
        return round(time.time() * 1000) + self._ahead_ms

    def of(self, record_id: str) -> int:
        """Return the number of the cell of a refinement or batch; raise Unavailable."""
        number = self.roster.cell_of(record_id)
        number = number if number < len(self.stores) else 0
        self.require_checked(number)
        return number

    def require_checked(self, number: int) -> None:
        """Raise Unavailable for a cell whose Redis was never found to be the right one.

        This process does not know one that was added without its URL.
        """
        if number in self._unchecked or number >= len(self.stores):
            raise Unavailable(f"cell {number} is away", retry_after_s=RETRY_AFTER_S)

    @property
    def readable(self) -> int:
        """The cell that is asked for what is copied: 0, or while that is away another one.

        A cell that was away when a key was revoked is the last to be asked.
        """
        here = [number for number in range(len(self.stores)) if number not in self._away]
        here.sort(key=lambda number: self._versions.get(number) != self._newest)
        return 0 if 0 in here or not here else here[0]

    def homes_of(self, tenant: str, key: str | None) -> list[int]:
        """Return the cells for a submission in the order in which they are to be tried.

        One with a key of idempotency goes to one cell and nowhere else. The others go to the better
        of two by what waits, which are drawn anew each time: nothing waits while there is room.
        """
        found = self._homes_at(tenant, self.now_ms())
        if key is not None:
            return [_home_of_key(tenant, key, found)]
        known = [number for number in found if number < len(self.stores)] or [0]
        here = [number for number in known if number not in self._away] or known
        first, *others = sample(here, len(here))
        if others and self._waiting[others[0]] < self._waiting[first]:
            return [others[0], first, *others[1:]]
        return [first, *others]

    def earlier_homes_of(self, tenant: str, key: str) -> set[int]:
        """Return where a key may have been used before a change in the last 24 hours.

        That is a change of the cells, or of the number of the tenant's homes.
        """
        now_ms = self.now_ms()
        changes = self.roster.changed_at(now_ms) | {*self._record_of(tenant).moved_at(now_ms)}
        found = {_home_of_key(tenant, key, self._homes_at(tenant, at - 1)) for at in changes}
        return found - {*self.homes_of(tenant, key)}

    def _record_of(self, tenant: str) -> TenantRecord:
        return (self._tenants or {}).get(tenant, TenantRecord({}))

    def _homes_at(self, tenant: str, at_ms: int) -> list[int]:
        return homes(tenant, self._record_of(tenant).homes_at(at_ms), self.roster.taking(at_ms))

    async def ask(self, ask: Callable[[Store], Awaitable[T]]) -> list[tuple[int, T]]:
        """Return the answer of each cell; those that are away are left out, and noted in `missing`.

        Raises Unavailable if all are away.
        """
        if self.is_one:
            return [(0, await ask(self.stores[0]))]
        asked = [number for number in range(len(self.stores)) if number not in self._away]

        async def answer_of(number: int) -> T:
            with refusals():
                return await ask(self.stores[number])

        answers = await asyncio.gather(*map(answer_of, asked), return_exceptions=True)
        found, gone = [], set(self._away)
        for number, answer in zip(asked, answers, strict=True):
            if not isinstance(answer, BaseException):
                found.append((number, answer))
            elif isinstance(answer, Unavailable):
                gone.add(number)
            else:
                raise answer
        if not found:
            raise Unavailable("no cell answers", retry_after_s=RETRY_AFTER_S)
        note_missing(gone)
        return found

    def store_of(self, record_id: str) -> Store:
        """Return the store of a refinement or batch; raise Unavailable."""
        return self.stores[0 if self.is_one else self.of(record_id)]

    async def page(
        self,
        tenant: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        batch: str | None = None,
        **filters: Any,
    ) -> SnapshotPage:
        """Return one page of the refinements in all cells, as `Store.page` does of one."""
        if self.is_one or batch is not None:
            store = self.stores[0] if batch is None else self.store_of(batch)
            return await store.page(tenant, limit=limit, cursor=cursor, batch=batch, **filters)
        pages = await self.ask(
            lambda store: store.page(tenant, limit=limit, cursor=cursor, **filters)
        )
        return merged(tenant, [page for _, page in pages], limit)

    async def page_of_batches(self, tenant: str, limit: int, cursor: str | None) -> BatchPage:
        """Return one page of the batches in all cells."""
        pages = await self.ask(lambda store: store.batches.page(tenant, limit, cursor))
        return merged(tenant, [page for _, page in pages], limit)

    async def changed(self, tenants: Sequence[str]) -> None:
        """Have what cell 0 has of the installation copied, and return when it is; after a write."""
        if self.is_one:
            return
        with suppress(HoneError), refusals():
            await self._records[0].note_change(tenants)
            await self._look_at_all()

    async def add(self, cell: int) -> None:
        """Let submissions go to a cell from soon on; raise Conflict, NotFound and Unavailable."""
        if not 0 <= cell < len(self.stores) or self.is_one:
            raise NotFound(f"HONE_CELLS and HONE_CELLS_URL name no cell {cell}")
        self.require_checked(cell)
        with refusals():
            await self._records[0].add(cell)
            await self._look_at_all()

    async def drain(self, cell: int) -> None:
        """Let no submissions go to a cell any more; raise Conflict and Unavailable."""
        with refusals():
            await self._records[0].drain(cell)
            await self._look_at_all()

    async def archive_check(self) -> CellsArchiveCheck:
        """Return what an operator does with the archives of all cells.

        Raises Unavailable while one is away, or not known to this process, redis errors, and
        ArchiveAway.
        """
        look = await self._records[0].look()
        for number in {*range(len(self.stores)), *look.roster.opened}:
            if number in self._away or number >= len(self.stores):
                detail = f"cell {number} is away, and may have what others seem to have lost"
                raise Unavailable(detail, retry_after_s=RETRY_AFTER_S)
        return CellsArchiveCheck(
            [store.archive_check for store in self.stores],
            lambda record_id: 0 if self.is_one else self.of(record_id),
        )

    async def facts(self) -> list[CellFacts]:
        """Return what an operator asks of each cell."""
        found = dict(await self.ask(lambda store: store.cell.counts()))
        taking, soon = self.roster.taking(self.now_ms()), self.roster.taking()
        states = {(True, True): "yes", (True, False): "soon no more", (False, True): "soon"}
        return [
            CellFacts(
                number,
                states.get((number in taking, number in soon), "no"),
                self._away.get(number, ""),
                *found.get(number, (0, 0, 0)),
            )
            for number in range(len(self.stores))
        ]

    def is_away(self, number: int) -> bool:
        """Return whether a cell is away."""
        return number in self._away

    def note_away(self, number: int, error: BaseException) -> None:
        """Ask no more of a cell until it answers again."""
        if number not in self._away:
            log.warning("cell %d is away: %s", number, error)
        self._away[number] = str(error) or type(error).__name__

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._look_at_all()
            except Exception:
                log.exception("the cells could not be looked at")

    async def _look_at_all(self) -> None:
        looks = await asyncio.gather(*(self._look_at(n) for n in range(len(self.stores))))
        newest = looks[0]
        there = [number for number, look in enumerate(looks) if look is not None]
        if newest is not None:
            self.roster = newest.roster
            self._ahead_ms = newest.at_ms - round(time.time() * 1000)
            await self._share_out(newest.version, there)
        else:
            copies = (look.roster for look in looks if look and look.roster.coded_from)
            self.roster = next(copies, self.roster)
            await self._read_copies(there)
        await asyncio.gather(
            *(
                self._complete(number, is_current=newest is None or newest.version == look.version)
                for number, look in enumerate(looks)
                if look is not None
            )
        )

    async def _share_out(self, version: bytes, there: Sequence[int]) -> None:
        """Share out the quotas of all tenants after a change, else of those that are not so yet."""
        with suppress(RedisError, OSError, TimeoutError):
            if version != self._newest:
                self._tenants = await self.quotas.records()
                self._unshared = self.quotas.unsettled(self._tenants, self.roster)
            elif not self._unshared or not await self.quotas.takes_turn():
                return
            for tenant in [*self._unshared]:
                if await self.quotas.share(tenant, self.roster, there):
                    self._unshared.discard(tenant)
            self._newest = version

    async def _read_copies(self, there: Sequence[int]) -> None:
        """Read the homes of tenants for a process that has never reached cell 0."""
        if self._tenants is None and there:
            with suppress(RedisError, OSError, TimeoutError):
                self._tenants = await self.quotas.records(there[0])

    async def _look_at(self, number: int) -> CellLook | None:
        """Return what was found in a cell, if it answers."""
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                if number in self._unchecked and self._check is not None:
                    await self._check(number)
                look = await self._records[number].look()
        except (RedisError, OSError, TimeoutError, UnusableRedis) as error:
            if isinstance(error, UnusableRedis) and self._keeping is None:
                raise
            self.note_away(number, error)
            return None
        self._unchecked.discard(number)
        self._waiting[number] = look.waiting
        self._versions[number] = look.version
        return look

    async def _complete(self, number: int, *, is_current: bool) -> None:
        """Take a cell that answers as one that is there, once it has what cell 0 has."""
        try:
            if not is_current:
                quotas = partial(self.quotas.copy, number, self.roster)
                await self._records[number].copy_from(self._records[0], quotas)
                self._versions[number] = self._newest
        except (RedisError, OSError, TimeoutError) as error:
            log.warning("cell %d has no new copy: %s", number, error)
            return
        if self._away.pop(number, None) is not None:
            log.info("cell %d is there", number)


def _home_of_key(tenant: str, key: str, cells: Sequence[int]) -> int:
    return max(cells, key=lambda cell: score(cell, tenant, key))


class _Copied:
    """A cell, in whose place another one answers what is about copies while it is away."""

    def __init__(self, cells: Cells, committers: Sequence[Committer], number: int) -> None:
        self._cells = cells
        self._committers = committers
        self._number = number

    def submit(self, script: LuaScript, *args: Word) -> asyncio.Future[Any]:
        """Return a future of the answer of a script."""
        if script is OPEN_WATCH:
            return asyncio.ensure_future(self._ask(lambda of: of.submit(script, *args)))
        return self._committers[self._number].submit(script, *args)

    def execute(self, *command: Word) -> asyncio.Future[Any]:
        """Return a future of the answer to a command."""
        if command[0] in ELSEWHERE:
            return asyncio.ensure_future(self._ask(lambda of: of.execute(*command)))
        return self._committers[self._number].execute(*command)

    async def _ask(self, ask: Callable[[Commands], Awaitable[Any]]) -> Any:
        if not self._cells.is_away(self._number):
            try:
                return await ask(self._committers[self._number])
            except (RedisError, OSError, TimeoutError) as error:
                if not (is_away(error) or isinstance(error, TimeoutError | OSError)):
                    raise
                self._cells.note_away(self._number, error)
        return await ask(self._committers[self._cells.readable])


class AccessOfCells(AccessStore):
    """Access by cell 0, and by the copies while it is away; what tenants use is in all cells."""

    def __init__(self, cells: Cells, committers: Sequence[Committer]) -> None:
        super().__init__(committers[0] if cells.is_one else _Copied(cells, committers, 0))
        self._cells = cells

    async def _store_quotas(self, tenant: str, quotas: Quotas) -> None:
        cells = self._cells
        if cells.is_one:
            await super()._store_quotas(tenant, quotas)
        else:
            await cells.quotas.replace(tenant, quotas, cells.now_ms(), cells.roster)

    async def require_spending_left(self, tenant: str, quotas: Quotas) -> None:
        """Raise QuotaExceeded if a tenant has used up a quota of the day; cell 0 knows it alone."""
        if (quotas.tokens_per_day, quotas.cost_usd_per_day) == (None, None):
            return
        cell0, now_ms = self._cells.stores[0].access, self._cells.now_ms()
        with refusals():
            use = await cell0.use(tenant)
        for quota, used in (
            ("tokens_per_day", use.tokens_today),
            ("cost_usd_per_day", use.cost_usd_today),
        ):
            most = getattr(quotas, quota)
            if most is not None and used >= most:
                raise spent_up(quota, most, now_ms)

    async def use(self, tenant: str) -> TenantUse:
        """Return what a tenant uses now in all cells that answer."""
        found = await self._cells.ask(lambda store: store.access.use(tenant))
        fields = TenantUse.model_fields
        return TenantUse(**{name: sum(getattr(use, name) for _, use in found) for name in fields})


@value(slots=True)
class CellLoad:
    """How many refinements wait in a cell, and the names of its workers."""

    waiting: int
    workers: tuple[str, ...]


async def cell_loads(settings: Settings) -> dict[int, CellLoad]:
    """Return the load of each cell that answers."""
    found = await asyncio.gather(
        *(_load(settings.in_cell(number).redis_url) for number in range(settings.cells)),
        return_exceptions=True,
    )
    for load in found:
        if isinstance(load, BaseException) and not isinstance(load, RedisError | OSError):
            raise load
    return {number: load for number, load in enumerate(found) if isinstance(load, CellLoad)}


async def _load(url: str) -> CellLoad:
    async with renewal_client(url, LOAD_TIMEOUT_S) as client:
        seconds, _ = await client.time()
        waiting = await client.zcard(keys.WAITING)
        workers: Any = await client.zrangebyscore(keys.WORKERS, seconds * 1000, "+inf")
        return CellLoad(waiting, tuple(sorted(name.decode() for name in workers)))


def neediest(found: Mapping[int, CellLoad], machine: str, nth: int, together: int = 0) -> int:
    """Return the cell that the `nth` worker of a machine serves, counted from 0.

    Workers that start `together` go to cells one after the other, as if those before them ran
    already; names of workers of the machine begin with its name.
    """
    before = sum(name.startswith(machine) for load in found.values() for name in load.workers)
    order = sorted(found)
    Random(f"{machine}{together}").shuffle(order)  # noqa: S311 - others begin elsewhere
    counts = {number: len(found[number].workers) for number in order}

    def need(number: int) -> tuple[bool, float]:
        return counts[number] == 0, (found[number].waiting + 1) / (counts[number] + 1)

    for _ in range(max(0, nth - before)):
        counts[max(order, key=need)] += 1
    return max(order, key=need)


def gives_way(found: Mapping[int, CellLoad], worker: str) -> bool:
    """Return whether this worker should serve another cell, since one has no worker at all.

    Only the last by name does so, in the cell with most workers.
    """
    workers = [load.workers for _, load in sorted(found.items())]
    most = max(map(len, workers), default=0)
    if () not in workers or most < 2:
        return False
    fullest = next(names for names in workers if len(names) == most)
    return fullest[-1] == worker


async def cell_to_serve(settings: Settings, machine: str, together: int, nth: int) -> int:
    """Return `HONE_CELL`, or the cell that needs this worker most; 0 while none answers."""
    if settings.cells == 1 or settings.cell is not None:
        return settings.cell or 0
    found = await cell_loads(settings)
    return neediest(found, machine, nth, together) if found else 0
