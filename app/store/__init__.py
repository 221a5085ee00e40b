"""Refinements and their journals in Redis: the only package that spells a Redis key."""

import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from typing import TypeVar

from app.settings import Settings
from app.store.archive import open_archive
from app.store.archive_transfer import ArchiveTransfer
from app.store.cells import Cells
from app.store.creation import Clock, Creation, Enqueuer, Queue
from app.store.rate_limits import PermitExchange, Rejections, SharedLimits
from app.store.redis.committer import Committer, ReplicatedCommitter
from app.store.redis.connection import (
    NotSent,
    UnusableRedis,
    answered_within,
    api_client,
    check_server,
    listening_client,
    refusals,
    renewal_client,
    worker_client,
)
from app.store.sealing import TenantKeys, sealer_of
from app.store.signing_secrets import EndpointSecrets, SigningSecrets
from app.store.state import (
    Addition,
    ArchiveAway,
    Claimed,
    Entry,
    Fenced,
    Fields,
    Loaded,
    Parking,
    StaleLimits,
    State,
    Submitted,
    Suspected,
    UnreadableRecord,
)
from app.store.store import Store
from app.store.wakeups import Wakeups
from app.store.worker import (
    ATTEMPTS,
    LATER,
    NOTHING_SPENT,
    RENEWALS_PER_LEASE,
    DaySpending,
    Journal,
    ReportSpending,
    Spent,
    WorkerStore,
    renew,
    report_spending,
)

EXCHANGE_TIMEOUT_S = 1.0
CHECK_S = 3.0

T = TypeVar("T")
Brief = AbstractAsyncContextManager[T | None]

__all__ = [
    "ATTEMPTS",
    "LATER",
    "NOTHING_SPENT",
    "RENEWALS_PER_LEASE",
    "Addition",
    "ArchiveAway",
    "ArchiveTransfer",
    "Claimed",
    "DaySpending",
    "Entry",
    "Fenced",
    "Fields",
    "Journal",
    "Loaded",
    "NotSent",
    "Parking",
    "Rejections",
    "ReportSpending",
    "Spent",
    "StaleLimits",
    "State",
    "Store",
    "Submitted",
    "Suspected",
    "UnreadableRecord",
    "UnusableRedis",
    "WorkerStore",
    "check_redis",
    "open_cells",
    "open_permit_exchange",
    "open_rejections",
    "open_renewal",
    "open_signing",
    "open_spending",
    "open_store",
    "open_tenant_keys",
    "open_wakeups",
    "open_worker_store",
    "refusals",
]


async def check_redis(url: str, cell: int | None = None) -> None:
    """Raise redis errors, and UnusableRedis for a server that would lose or misread records."""
    async with renewal_client(url, CHECK_S) as client:
        await check_server(client, cell)


@asynccontextmanager
async def open_cells(settings: Settings, queue: Queue) -> AsyncIterator[Cells]:
    """Connect the store of each cell; one that is away may come later.

    Raises Unavailable if all are, and UnusableRedis for the only one.
    """
    if settings.cells == 1:
        async with open_store(settings, queue) as store:
            yield Cells([store])
        return

    async def check(number: int) -> None:
        await check_redis(settings.in_cell(number).redis_url, number)

    async with AsyncExitStack() as stack:
        opening = (
            open_store(settings.in_cell(number), queue, is_checked=False)
            for number in range(settings.cells)
        )
        stores = [await stack.enter_async_context(store) for store in opening]
        yield await stack.enter_async_context(Cells(stores, check))


@asynccontextmanager
async def open_store(
    settings: Settings, queue: Queue, clock: Clock = time.monotonic, *, is_checked: bool = True
) -> AsyncIterator[Store]:
    """Connect the store of the API.

    Raises Unavailable, and UnusableRedis for a server that would lose records, if it `is_checked`.
    """
    async with api_client(settings.redis_url) as client:
        if is_checked:
            with refusals():
                async with answered_within(settings.redis_timeout_s):
                    await check_server(client, number_of_cell(settings))
        timeout_s, replicas = settings.redis_timeout_s, settings.redis_replicas
        async with (
            aclosing(Committer(client, timeout_s)) as committer,
            # Apart, so that nothing else waits for replicas.
            aclosing(
                ReplicatedCommitter(client, timeout_s, replicas)
                if replicas
                else Committer(client, timeout_s)
            ) as creating,
        ):
            lease_ms = _milliseconds(settings.lease_s)
            creation = Creation(
                queue,
                creating,
                clock,
                queue_max=settings.queue_max,
                lease_ms=lease_ms,
                retention_ms=_milliseconds(settings.retention_s),
                sealer=sealer_of(settings),
                cell=number_of_cell(settings),
            )
            enqueuer = Enqueuer(queue, committer, lease_ms)
            yield Store(
                committer,
                creation,
                enqueuer,
                lease_ms,
                sealer_of(settings),
                _secrets_of(settings),
                _transfer_of(settings, committer),
            )


@asynccontextmanager
async def open_worker_store(
    settings: Settings, queue: Queue, name: str
) -> AsyncIterator[WorkerStore]:
    """Connect the store of a worker under a name that is unique among workers.

    Raises redis errors, and UnusableRedis for a server that would lose records.
    """
    lease_ms = _milliseconds(settings.lease_s)
    async with (
        worker_client(settings.redis_url) as client,
        listening_client(settings.redis_url) as listener,
    ):
        await check_server(client, number_of_cell(settings))
        async with aclosing(Committer(client)) as committer:
            yield WorkerStore(
                client,
                committer,
                listener,
                Enqueuer(queue, committer, lease_ms),
                name=name,
                lease_ms=lease_ms,
                pack_after_ms=_milliseconds(settings.pack_after_s),
                searchable=settings.search,
                sealer=sealer_of(settings),
                transfer=_transfer_of(settings, committer),
            )


def number_of_cell(settings: Settings) -> int | None:
    """Return the number of the cell that settings are of, if there are several."""
    return settings.cell if settings.cells > 1 else None


def _transfer_of(settings: Settings, committer: Committer) -> ArchiveTransfer | None:
    if (archive := open_archive(settings)) is None:
        return None
    return ArchiveTransfer(committer, archive, _milliseconds(settings.archive_after_s))


@asynccontextmanager
async def open_renewal(
    settings: Settings, name: str
) -> AsyncIterator[Callable[[Mapping[str, int]], Awaitable[dict[str, int]]]]:
    """Connect what renews the lease of a worker, for a thread with an event loop of its own."""
    lease_ms = _milliseconds(settings.lease_s)
    async with renewal_client(settings.redis_url, settings.lease_s / 2) as client:
        yield partial(renew, client, name, lease_ms)


@asynccontextmanager
async def _brief(settings: Settings, made: Callable[[Committer], T]) -> AsyncIterator[T | None]:
    """Connect what gives up after a second, so that no call waits for a Redis that is away.

    None without a Redis.
    """
    if not settings.redis_url:
        yield None
        return
    async with (
        renewal_client(settings.redis_url, EXCHANGE_TIMEOUT_S) as client,
        aclosing(Committer(client, EXCHANGE_TIMEOUT_S)) as committer,
    ):
        yield made(committer)


def open_permit_exchange(settings: Settings) -> Brief[PermitExchange]:
    """Connect what shares the limits of models among workers; None without a Redis."""
    return _brief(settings, lambda committer: SharedLimits(committer, secrets.token_hex(8)))


def open_rejections(settings: Settings) -> Brief[Callable[[str], Rejections]]:
    """Connect what remembers rejected parts of requests, by server; None without a Redis."""
    return _brief(settings, lambda committer: partial(Rejections, committer))


def open_spending(settings: Settings, worker: str) -> Brief[ReportSpending]:
    """Connect what reports the spending of tenants; None without a Redis."""
    name = f"{worker}-{secrets.token_hex(4)}"
    return _brief(settings, lambda committer: partial(report_spending, committer, name))


def open_tenant_keys(settings: Settings) -> Brief[TenantKeys]:
    """Connect what reads the keys that tenants have of their own; None without a Redis."""
    return _brief(settings, lambda committer: TenantKeys(committer, sealer_of(settings)))


@asynccontextmanager
async def open_signing(settings: Settings) -> AsyncIterator[SigningSecrets]:
    """Connect what signs calls of endpoints. Raises ValueError without a secret key."""
    if (derived := _secrets_of(settings)) is None:
        raise ValueError("HONE_SECRET_KEY is not set")
    async with _brief(settings, lambda committer: committer) as committer:
        yield SigningSecrets(committer, derived)


def _secrets_of(settings: Settings) -> EndpointSecrets | None:
    derived = settings.derived_keys("signing secrets of endpoints")
    return EndpointSecrets(derived) if derived else None


@asynccontextmanager
async def open_wakeups(
    settings: Settings, receive_text: Callable[[bytes], None] = lambda _: None
) -> AsyncIterator[Wakeups]:
    """Open the only pub/sub connection of the API process."""
    async with (
        listening_client(settings.redis_url) as listener,
        Wakeups(listener, receive_text) as wakeups,
    ):
        yield wakeups


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
