"""Tenants: what each may use and uses, and the export and the erasure of all that one has."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

from app.contract.access import OPERATOR, TENANT_NAME, AuditPage, Quotas, TenantList, TenantOverview
from app.contract.errors import (
    BatchNotFound,
    Forbidden,
    NotFound,
    NotStored,
    RefinementNotFound,
    Unavailable,
)
from app.contract.json_lines import json_lines
from app.contract.snapshot import Snapshot
from app.contract.statistics import UsageGrouping, UsageGroups
from app.store import Store, UnreadableRecord, refusals
from app.store.access import AccessStore
from app.store.cells import Cells
from app.store.state import DamagedObject
from app.store.statistics import Statistics

_log = logging.getLogger(__name__)

AT_ONCE = 1_000
"""Actions or events that are read at a time."""


class TenantNotFound(NotFound):
    """The tenant is unknown, or not the caller's."""

    def __init__(self, name: str) -> None:
        super().__init__(f"tenant {name} was not found")


class Tenants:
    """The tenants that administrators manage: in `default` all, elsewhere they see their own.

    Raises Unavailable if Redis is unreachable.
    """

    def __init__(self, store: AccessStore) -> None:
        self._store = store

    async def all(self, admin: str) -> tuple[TenantOverview, ...]:
        """Return the tenants by name. `admin` is the tenant of the administrator."""
        with refusals():
            return await self._overviews(await self._names(admin))

    async def page(self, admin: str, limit: int, cursor: str | None) -> TenantList:
        """Return one page of the tenants; `cursor` is the `next_cursor` of the page before."""
        with refusals():
            rest = [name for name in await self._names(admin) if cursor is None or name > cursor]
            shown = await self._overviews(rest[:limit])
        has_more = len(rest) > limit
        next_cursor = rest[limit - 1] if has_more else None
        return TenantList(data=shown, has_more=has_more, next_cursor=next_cursor)

    async def _names(self, admin: str) -> Sequence[str]:
        return await self._store.tenants() if admin == OPERATOR else (admin,)

    async def _overviews(self, names: Sequence[str]) -> tuple[TenantOverview, ...]:
        quotas = await self._store.quotas(names)
        return tuple([await self._overview(name, quotas[name]) for name in names])

    async def get(self, admin: str, name: str) -> TenantOverview:
        """Return one tenant; raise TenantNotFound."""
        with refusals():
            if admin not in (OPERATOR, name) or name not in await self._store.tenants():
                raise TenantNotFound(name)
            return await self._overview(name, (await self._store.quotas([name]))[name])

    @staticmethod
    def require_own(admin: str, name: str) -> None:
        """Raise TenantNotFound unless the administrator may manage a tenant, which may be new."""
        if admin not in (OPERATOR, name):
            raise TenantNotFound(name)

    async def set_quotas(self, admin: str, name: str, quotas: Quotas) -> TenantOverview:
        """Replace the quotas of a tenant, which need not have a key yet.

        They count within a second. Raises TenantNotFound, and Forbidden unless the administrator
        is one of `default`.
        """
        if admin not in (OPERATOR, name) or not re.fullmatch(TENANT_NAME, name):
            raise TenantNotFound(name)
        if admin != OPERATOR:
            raise Forbidden(f"only an administrator of `{OPERATOR}` sets quotas")
        with refusals():
            await self._store.set_quotas(name, quotas)
            return await self._overview(name, quotas)

    async def audited(
        self, admin: str, name: str | None, before: str | None, limit: int
    ) -> AuditPage:
        """Return who did what in a tenant, the newest first; raise TenantNotFound."""
        name = name or admin
        self.require_own(admin, name)
        with refusals():
            return await self._store.audited(name, before, limit)

    async def all_audited(
        self, admin: str, name: str | None, before: str | None
    ) -> AsyncIterator[bytes]:
        """Yield JSON Lines of who did what in a tenant, the newest first; raise TenantNotFound."""
        while True:
            page = await self.audited(admin, name, before, AT_ONCE)
            lines = (entry.model_dump_json().encode() + b"\n" for entry in page.data)
            yield json_lines(b"".join(lines))
            before = page.next_cursor
            if before is None:
                return

    async def _overview(self, name: str, quotas: Quotas) -> TenantOverview:
        return TenantOverview(name=name, quotas=quotas, use=await self._store.use(name))


AGAIN_S = 1.0
REVOKED_S = 2.0
"""Longer than an API process lets in a key that was revoked."""

PAGE = 100


async def exported_tenant(cells: Cells, tenant: str) -> AsyncIterator[dict[str, Any]]:
    """Yield all that is stored of a tenant, ready for JSON: refinements first, oldest last.

    Each has `kind`: `refinement` with `snapshot`, `request` and `events` unless its text was
    erased, or `unreadable` if its object in the archive is missing or damaged, `batch`,
    `pending_request` of a batch, `endpoint`, `preset`, `proposal`, `provider_key`, `usage`,
    `calibration`, `key` or `action`. Secrets are left out. Raises Unavailable, also for one cell.
    """
    store, *others = cells.stores
    for place in (store, *others):
        async for entry in _refinements(place, tenant):
            yield entry
    for place in (store, *others):
        async for entry in _batches(place, tenant):
            yield entry
    for endpoint in await store.webhooks.endpoints(tenant):
        yield {"kind": "endpoint", **endpoint.model_dump(mode="json")}
    async for entry in _defaults(store, tenant):
        yield entry
    async for entry in _sums(cells.statistics, tenant):
        yield entry
    with refusals():
        keys = [key for key in await store.access.all() if key.tenant == tenant]
    for key in keys:
        yield {"kind": "key", "id": key.id, "name": key.name, "scopes": key.scopes}
    before = None
    while True:
        with refusals():
            actions = await store.access.audited(tenant, before, AT_ONCE)
        for action in actions.data:
            yield {"kind": "action", **action.model_dump(mode="json")}
        before = actions.next_cursor
        if before is None:
            return


async def _refinements(store: Store, tenant: str) -> AsyncIterator[dict[str, Any]]:
    cursor, has_more = None, True
    while has_more:
        page = await store.page(tenant, limit=PAGE, cursor=cursor)
        for shown in page.data:
            with suppress(RefinementNotFound):  # its retention ended meanwhile
                yield await _refinement(store, tenant, shown)
        cursor, has_more = page.next_cursor, page.has_more


async def _refinement(store: Store, tenant: str, shown: Snapshot) -> dict[str, Any]:
    entry = {"kind": "refinement", "snapshot": shown.model_dump(mode="json")}
    try:
        snapshot = await store.snapshot(tenant, shown.id) if shown.archived else shown
        entry["snapshot"] = snapshot.model_dump(mode="json")
        request = await store.request(tenant, snapshot.id)
        events = [event async for event in _events(store, tenant, snapshot.id)]
    except NotStored:
        return entry
    except Unavailable as error:
        if not isinstance(error.__cause__, DamagedObject | UnreadableRecord):
            raise
        return entry | {"unreadable": error.detail}
    return entry | {"request": request.model_dump(mode="json"), "events": events}


async def _batches(store: Store, tenant: str) -> AsyncIterator[dict[str, Any]]:
    for batch_id in await store.batches.ids(tenant):
        with suppress(BatchNotFound):  # it is being received, or was erased
            batch = await store.batches.get(tenant, batch_id)
            yield {"kind": "batch", **batch.model_dump(mode="json")}
            async for pending in store.batches.pending(tenant, batch_id):
                yield {"kind": "pending_request", "batch": batch_id, **pending}


async def _defaults(store: Store, tenant: str) -> AsyncIterator[dict[str, Any]]:
    for preset in await store.presets.all(tenant):
        yield {"kind": "preset", **preset.model_dump(mode="json")}
    for proposal_id, facts in (await store.proposals.all(tenant)).items():
        yield {"kind": "proposal", "id": proposal_id, **facts}
    for provider, set_at in (await store.provider_keys.all(tenant)).items():
        yield {"kind": "provider_key", "provider": provider, "set_at": set_at.isoformat()}


async def _sums(statistics: Statistics, tenant: str) -> AsyncIterator[dict[str, Any]]:
    """Yield what was learnt, and what models consumed day by day, as finely as it is known."""
    for kind in await statistics.calibrations(tenant, PAGE * 10):
        yield {"kind": "calibration", **kind.model_dump(mode="json")}
    by = [grouping for grouping in UsageGrouping if grouping is not UsageGrouping.TENANT]
    *_, days = await statistics.days(tenant, date.min, date.max, 1)
    for day in days:
        groups = UsageGroups(by)
        groups.add(await statistics.usage_of([day]))
        for row in groups.rows():
            yield {"kind": "usage", **row.model_dump(mode="json", exclude={"not_passed"})}


async def _events(store: Store, tenant: str, refinement_id: str) -> AsyncIterator[Any]:
    after = 0
    while events := await store.events(tenant, refinement_id, after, AT_ONCE, unpacks_once=True):
        for event in events:
            yield json.loads(event.json)
        after = events[-1].number


async def erase_tenant(cells: Cells, tenant: str) -> int:
    """Erase everything of a tenant but its audit log; return how many refinements there were.

    Its keys are revoked first. Of several cells it waits for those that are away. Raises
    Unavailable: called again, it goes on.
    """
    with refusals():
        await cells.stores[0].access.forget_keys(tenant)
    await cells.changed([tenant])
    await asyncio.sleep(REVOKED_S)
    erased, left = 0, [*cells.stores]
    while left:
        store = left.pop(0)
        try:
            erased += await _erase_in(store, tenant)
        except Unavailable as error:
            if cells.is_one:
                raise
            _log.warning("cell %s is away: %s", store.number, error)
            left.append(store)
            await asyncio.sleep(AGAIN_S)
    return erased


async def _erase_in(store: Store, tenant: str) -> int:
    for batch_id in await store.batches.ids(tenant):
        with suppress(BatchNotFound):
            await store.batches.erase(tenant, batch_id)
    erased = 0
    while (page := await store.page(tenant, limit=PAGE)).data:
        for snapshot in page.data:
            try:
                await store.erase(tenant, snapshot.id)
            except RefinementNotFound:
                continue
            erased += 1
    with refusals():
        await store.access.forget_tenant(tenant)
    return erased
