"""Tenants: what each may use, and what it uses."""

import re
from collections.abc import AsyncIterator, Sequence

from app.contract.access import OPERATOR, TENANT_NAME, AuditPage, Quotas, TenantList, TenantOverview
from app.contract.errors import Forbidden, NotFound
from app.store import AccessStore, refusals

AUDITED_AT_ONCE = 1_000


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
        if admin not in (OPERATOR, name):
            raise TenantNotFound(name)
        with refusals():
            return await self._store.audited(name, before, limit)

    async def all_audited(
        self, admin: str, name: str | None, before: str | None
    ) -> AsyncIterator[bytes]:
        """Yield JSON Lines of who did what in a tenant, the newest first; raise TenantNotFound."""
        while True:
            page = await self.audited(admin, name, before, AUDITED_AT_ONCE)
            yield b"".join(entry.model_dump_json().encode() + b"\n" for entry in page.data)
            before = page.next_cursor
            if before is None:
                return

    async def _overview(self, name: str, quotas: Quotas) -> TenantOverview:
        return TenantOverview(name=name, quotas=quotas, use=await self._store.use(name))
